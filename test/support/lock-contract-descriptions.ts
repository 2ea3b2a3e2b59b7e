// The part of the lock contract that is about what a lock and its holds say of themselves, in a log line or a console.
import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import type { Hold } from '../../src/index.js';
import type { ContractContext } from './lock-contract.js';

export function descriptionTests(context: () => ContractContext): void {
  it('a lock says its name and whether this client holds it, as whom, and for how long', async () => {
    const { lock, seen, className, leaseMs } = context();
    const free = { kind: className, name: lock.name, state: 'not held by this client' };
    expect(asJson(lock)).toEqual(free);
    expect(inspect(lock)).toMatch(new RegExp(`^${className} {\\s+name: '`));
    await lock.withLock(({ ownerId }) => {
      const held = asJson(lock) as { remainingMs: number };
      const { remainingMs } = held;
      expect(held).toEqual({ ...free, state: 'held by this client', ownerId, remainingMs });
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(leaseMs);
      expect(Number.isInteger(remainingMs)).toBe(true);
      expect(inspect(lock)).toContain(ownerId);
      expect(asJson(seen)).toEqual(free);
    });
    expect(asJson(lock)).toEqual(free);
  });

  it('a hold says its lock, its owner, and for how long it may be relied on', async () => {
    const { lock, leaseMs } = context();
    const hold = await lock.acquire();
    const { lockName, ownerId } = hold;
    const token = tokenOf(hold);
    const held = asJson(hold) as { remainingMs: number };
    const { remainingMs } = held;
    expect(held).toEqual({ lockName, ownerId, state: 'held', remainingMs, ...token });
    expect(held.remainingMs).toBeGreaterThan(0);
    expect(held.remainingMs).toBeLessThanOrEqual(leaseMs);
    expect(inspect(hold)).toMatch(/^Hold {\s+lockName: /);
    expect(inspect({ hold }, { depth: 0 })).toBe('{ hold: [Hold] }');
    await hold.release();
    expect(asJson(hold)).toEqual({
      lockName,
      ownerId,
      state: 'released',
      remainingMs: 0,
      ...token,
    });
  });

  it('a hold that was lost says so, also after a release that found it out', async () => {
    const { lock, seen } = context();
    const hold = await lock.acquire();
    const { lockName, ownerId } = hold;
    await seen.forceUnlock();
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(asJson(hold)).toEqual({
      lockName,
      ownerId,
      state: 'lost',
      remainingMs: 0,
      ...tokenOf(hold),
    });
    expect(inspect(hold)).toContain("state: 'lost'");
  });
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

/** What a hold of a fenced lock says besides. */
function tokenOf({ token }: Hold): { token?: string } {
  return token === undefined ? {} : { token: String(token) };
}
