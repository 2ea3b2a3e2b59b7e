// The parts of the lock contract about holds, descriptions of locks and holds, events, and closing the client.
import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import {
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  type HeldLock,
  type Hold,
} from '../../src/index.js';
import { type EventOf, eventsOf, nextEvent, rejectionOf } from './clients.js';
import { expectWarnings } from './expected-warnings.js';
import type { ContractContext } from './lock-contract-context.js';
import { eventually, sleep } from './time.js';

export function holdTests(context: () => ContractContext): void {
  expectWarnings(/the function that got it had ended/);

  it('acquire() waits and returns a hold that knows its lock and owner', async () => {
    const { client, lock, strangers } = context();
    const theirs = await strangers.acquire();
    const waiting = nextEvent(client, 'waiting');
    const acquiring = lock.acquire();
    await waiting;
    await theirs.release();
    const hold = await acquiring;
    expect(hold.lockName).toBe(lock.name);
    expect(hold.ownerId).toMatch(new RegExp(`^${client.clientId}:\\d+$`));
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
    expect(hold.signal.aborted).toBe(false);
  });

  it('acquire({ wait }) that times out is a LockTimeoutError that names lock, wait and holder', async () => {
    const { lock, strangers } = context();
    const theirs = await strangers.acquire();
    const error = await rejectionOf(lock.acquire({ wait: 400 }));
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({
      code: 'LOCK_TIMEOUT',
      lockName: lock.name,
      holder: theirs.ownerId,
    });
    expect((error as Error).message).toContain(`lock "${lock.name}" not acquired within 400 ms`);
    await theirs.release();
  });

  it('tryAcquire() returns undefined instead, at once or after `wait`', async () => {
    const { client, lock, strangers } = context();
    const theirs = await strangers.acquire();
    expect(await lock.tryAcquire()).toBeUndefined();
    expect(await lock.tryAcquire({ wait: 300 })).toBeUndefined();
    const waiting = nextEvent(client, 'waiting');
    const acquiring = lock.tryAcquire({ wait: 60_000, lease: 60_000 });
    await waiting;
    await theirs.release();
    const hold = await acquiring;
    // A lock that was handed over gets its lease in the background.
    await eventually(() => {
      expect(hold?.remaining()).toBeGreaterThan(50_000);
    });
    await hold?.release();
    expect(await (await lock.tryAcquire())?.release()).toBeUndefined();
  });

  it('`await using` releases at the end of the block', async () => {
    const { lock } = context();
    {
      await using hold = await lock.acquire();
      expect(hold.remaining()).toBeGreaterThan(0);
      expect(await lock.isLocked()).toBe(true);
    }
    expect(await lock.isLocked()).toBe(false);
  });

  it('`await using` of a lost hold throws LockLostError at the end of the block', async () => {
    const { lock, seen } = context();
    const block = async (): Promise<void> => {
      await using hold = await lock.acquire();
      await seen.forceUnlock();
      expect(hold.lockName).toBe(lock.name);
    };
    await expect(block()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('withLock() runs its callback inside, returns its result, and releases', async () => {
    const { lock, seen } = context();
    const result = await lock.withLock(async (hold) => {
      expect(await seen.isLocked()).toBe(true);
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      return hold.ownerId;
    });
    expect(result).toMatch(/:\d+$/);
    expect(await lock.isLocked()).toBe(false);
  });

  it('withLock({ wait, lease, signal }, fn) takes the same options as acquire()', async () => {
    const { lock, strangers } = context();
    const theirs = await strangers.acquire();
    const never = (): void => expect.fail('fn was called');
    await expect(lock.withLock({ wait: 300 }, never)).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
    });
    const aborter = new AbortController();
    setTimeout(() => {
      aborter.abort();
    }, 50);
    await expect(lock.withLock({ signal: aborter.signal }, never)).rejects.toMatchObject({
      code: 'LOCK_ABORTED',
    });
    await theirs.release();
    await lock.withLock({ lease: 60_000 }, async () => {
      expect(await lock.remainTimeToLive()).toBeGreaterThan(50_000);
    });
  });

  it("withLock() throws the callback's error, even over a loss; a successful callback gets the loss", async () => {
    const { lock, seen } = context();
    const fails = lock.withLock(() => Promise.reject(new Error('mine')));
    await expect(fails).rejects.toThrow('mine');
    expect(await lock.isLocked()).toBe(false);
    const failsAfterLoss = lock.withLock(async () => {
      await seen.forceUnlock();
      throw new Error('mine');
    });
    await expect(failsAfterLoss).rejects.toThrow('mine');
    const succeeds = lock.withLock(() => seen.forceUnlock());
    await expect(succeeds).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('withLock() refuses a callback that resolves to a stream or generator object, and releases', async () => {
    const { lock, seen } = context();
    const rows = (function* () {
      yield 1;
    })();
    const error = await rejectionOf(lock.withLock(() => rows));
    expect(error).toMatchObject({ code: 'INVALID_OPTION', lockName: lock.name });
    expect(rows.next()).toEqual({ done: true, value: undefined });
    expect(await seen.isLocked()).toBe(false);
  });

  it('assertHeld() passes while the lock is held, and throws after a loss and after a release', async () => {
    const { lock, seen } = context();
    const lostHold = await lock.acquire();
    lostHold.assertHeld();
    await seen.forceUnlock();
    await expect(lostHold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(() => {
      lostHold.assertHeld();
    }).toThrow(LockLostError);
    const hold = await lock.acquire({ lease: 5_000 });
    hold.assertHeld();
    await hold.release();
    expect(() => {
      hold.assertHeld();
    }).toThrow(LockNotHeldError);
  });

  it('a hold that is used after the callback of withLock() has ended emits a warning', async () => {
    const { client, lock } = context();
    const warnings = eventsOf(client, 'warning');
    const hold = await lock.withLock((held) => held);
    expect(hold.signal.aborted).toBe(false);
    expect(() => {
      hold.assertHeld();
    }).toThrow(LockNotHeldError);
    expect(warnings.filter(({ lockName }) => lockName === lock.name)).toHaveLength(1);
  });

  it('remaining() counts down, and is 0 after the release', async () => {
    const { lock } = context();
    const hold = await lock.acquire({ lease: 5_000 });
    const first = hold.remaining();
    expect(first).toBeGreaterThan(4_000);
    expect(first).toBeLessThan(5_000);
    await sleep(20);
    expect(hold.remaining()).toBeLessThanOrEqual(first - 15);
    await hold.release();
    expect(hold.remaining()).toBe(0);
  });

  it('remaining() is 0 and the signal aborts when a fixed lease ends, before the server frees the lock', async () => {
    const { client, lock, strangers } = context();
    const hold = await lock.acquire({ lease: 300 });
    const lost = nextEvent(client, 'lost');
    const theirs = strangers.acquire().then((acquired) => {
      expect(hold.signal.aborted).toBe(true);
      return acquired;
    });
    expect(await lost).toMatchObject({ lossReason: 'expired' });
    expect(hold.remaining()).toBe(0);
    await expect(hold.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await (await theirs).release();
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('extend(lease) makes the lease end no earlier than that, and never shortens it', async () => {
    const { lock } = context();
    const hold = await lock.acquire({ lease: 5_000 });
    await hold.extend(20_000);
    expect(hold.remaining()).toBeGreaterThan(15_000);
    expect(await lock.remainTimeToLive()).toBeGreaterThan(15_000);
    await hold.extend(100);
    expect(hold.remaining()).toBeGreaterThan(15_000);
    expect(await lock.remainTimeToLive()).toBeGreaterThan(15_000);
    await hold.release();
    await expect(hold.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('release() after a loss is a LockLostError each time; release() twice is harmless', async () => {
    const { lock, seen } = context();
    const other = await lock.acquire();
    await seen.forceUnlock();
    await expect(other.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await expect(other.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    const hold = await lock.acquire();
    await hold.release();
    await hold.release();
  });

  it('hold.run(fn) lets nested calls re-enter from anywhere', async () => {
    const { client, lock, rival } = context();
    const hold = await lock.acquire();
    await client.detach(async () => {
      expect(await rival.tryAcquire()).toBeUndefined();
      await hold.run(() =>
        lock.withLock((nested) => {
          expect(nested.ownerId).toBe(hold.ownerId);
        }),
      );
    });
    await hold.release();
  });

  it("hold.run(fn) returns the callback's result, and does not release", async () => {
    const { lock, seen } = context();
    const hold = await lock.acquire();
    expect(await hold.run(() => 7)).toBe(7);
    await expect(hold.run(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
    expect(await seen.isLocked()).toBe(true);
    await hold.release();
    const never = (): void => expect.fail('fn was called');
    await expect(hold.run(never)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });

  it('nested calls re-enter an acquire() of their run, and unlock() does not undo it', async () => {
    const { client, lock, seen } = context();
    await client.run(async () => {
      const hold = await lock.acquire();
      expect(await lock.tryLock()).toBe(true);
      await hold.release();
      expect(await seen.isLocked()).toBe(true); // by the tryLock()
      await lock.unlock();
      expect(await seen.isLocked()).toBe(false);
      await using again = await lock.acquire();
      await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
      expect(again.remaining()).toBeGreaterThan(0);
    });
  });

  it('with lockAtLeastFor the lock stays taken for so long after it was acquired, though it is released, and no loss is told', async () => {
    const { client, lock, rival, strangers } = context();
    const losses = eventsOf(client, 'lost');
    const calledAtMs = performance.now();
    const hold = await lock.acquire({ lease: 100, lockAtLeastFor: 2_000 });
    expect(hold.remaining()).toBeGreaterThan(100);
    await hold.release();
    await hold.release(); // harmless
    expect(await rival.tryAcquire()).toBeUndefined();
    expect(await strangers.tryAcquire()).toBeUndefined();
    const theirs = await strangers.acquire();
    expect(performance.now() - calledAtMs).toBeGreaterThanOrEqual(1_990); // the clocks of client and server differ a little
    expect(losses).toEqual([]);
    await theirs.release();
  });

  it('with lockAtLeastFor the lock stays taken when its client closes', async () => {
    const { newThird, lock } = context();
    const { third, thirds } = newThird();
    const calledAtMs = performance.now();
    await thirds.acquire({ lockAtLeastFor: 2_000 });
    await third.close();
    const mine = await lock.acquire();
    expect(performance.now() - calledAtMs).toBeGreaterThanOrEqual(1_990);
    await mine.release();
  });

  it('a nested acquisition with lockAtLeastFor counts for the lock; without it the release is final', async () => {
    const { lock, strangers } = context();
    const heldAtMs = await lock.withLock(async () => {
      await lock.withLock({ lockAtLeastFor: 1_500 }, () => undefined);
      return performance.now();
    });
    expect(await strangers.tryAcquire()).toBeUndefined();
    const theirs = await strangers.acquire();
    expect(performance.now() - heldAtMs).toBeGreaterThanOrEqual(1_000);
    await theirs.release();
    expect(await (await lock.tryAcquire())?.release()).toBeUndefined();
  });

  it('in Promise.all inside a holder, withLock() bodies never overlap, unless several may have the lock', async () => {
    const { lock, isShared } = context();
    let inside = 0;
    let most = 0;
    await lock.withLock(() =>
      Promise.all(
        [1, 2, 3].map(() =>
          lock.withLock(async () => {
            most = Math.max(most, ++inside);
            await sleep(50);
            inside--;
          }),
        ),
      ),
    );
    expect(most).toBe(isShared ? 3 : 1);
    expect(await lock.isLocked()).toBe(false);
  });
}

// The part of the lock contract about the description of a lock and its holds, in a log line or a console.

export function descriptionTests(context: () => ContractContext): void {
  it('a lock shows its name and whether this client holds it, as which owner, and for how long', async () => {
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

  it('a hold shows its lock, its owner, and how long it is valid', async () => {
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

  it('a lost hold shows that, even after a release that found it out', async () => {
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

/** The further description of a hold of a fenced lock. */
function tokenOf({ token }: Hold): { token?: string } {
  return token === undefined ? {} : { token: String(token) };
}

// The part of the lock contract about events, and about closing the client.

export function eventTests(context: () => ContractContext): void {
  // The contents of the events of the same name.
  expectWarnings(/^a run ended while it still held lock /);

  it('acquired, waiting and released name the lock, the owner and the hold count', async () => {
    const { client, stranger, lock, strangers, leaseMs } = context();
    const acquired = eventsOf(client, 'acquired');
    const released = eventsOf(client, 'released');
    const waiting = nextEvent(stranger, 'waiting');
    // For a Redlock it may come first: a master that is slow to answer keeps no other client from a majority.
    const theirRelease = nextEvent(stranger, 'released');
    await lock.withLock(async ({ ownerId }) => {
      const theirs = strangers.tryLock(60_000);
      const event = await waiting;
      expect(event).toMatchObject({ lockName: lock.name, holder: ownerId });
      expect(event.ownerId).toMatch(new RegExp(`^${stranger.clientId}:\\d+$`));
      expect(event.holderTtlMs).toBeGreaterThan(0);
      expect(event.holderTtlMs).toBeLessThanOrEqual(leaseMs);
      const fields = ['holder', 'holderTtlMs', 'lockName', 'ownerId', 'waitId'];
      expect(Object.keys(event).sort()).toEqual(fields);
      await lock.withLock({ lease: 5_000, label: 'nested' }, () => undefined);
      const about = { lockName: lock.name, ownerId };
      expect(acquired).toMatchObject([
        { ...about, holdCount: 1, leaseMs, watched: true, via: 'first-try' },
        { ...about, holdCount: 2, leaseMs: 5_000, watched: false, via: 're-entry', attempts: 0 },
      ]);
      expect(acquired.map(({ label }) => label)).toEqual([undefined, 'nested']);
      expect(acquired.map(({ waitId }) => waitId)).toEqual([undefined, undefined]);
      expect(acquired[0]!.attempts).toBeGreaterThan(0);
      expect(released).toMatchObject([{ ...about, holdId: acquired[1]!.holdId, holdCount: 1 }]);
      void theirs.then(() => strangers.unlock());
      await sleep(3); // a server in memory takes no time
    });
    expect(released).toMatchObject([{ holdCount: 1 }, { holdCount: 0 }]);
    expect(released[1]!.holdId).toBe(acquired[0]!.holdId);
    expect(released[1]!.heldForMs).toBeGreaterThan(0);
    expect(released[1]!.heldForMs).toBe(Math.round(released[1]!.heldForMs));
    await theirRelease;
  });

  it('a wait has one id, from waiting to acquired or refused', async () => {
    const { stranger, lock, strangers } = context();
    const events = (['waiting', 'acquired', 'refused'] as const).map((name) =>
      eventsOf(stranger, name),
    );
    const [waiting, acquired, refused] = events as [
      EventOf<'waiting'>[],
      EventOf<'acquired'>[],
      EventOf<'refused'>[],
    ];
    const hold = await lock.acquire();
    const aborter = new AbortController();
    const given = strangers.acquire({ label: 'a report' });
    await expect.poll(() => waiting.length).toBe(1);
    const inVain = strangers.acquire({ signal: aborter.signal });
    await expect.poll(() => waiting.length).toBe(2);
    aborter.abort();
    await expect(inVain).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await expect(strangers.acquire({ wait: 5 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(await strangers.tryAcquire()).toBeUndefined();
    await hold.release();
    await (await given).release();
    const [first, second] = waiting;
    expect(first).toMatchObject({ label: 'a report', holder: hold.ownerId });
    expect(acquired).toMatchObject([{ waitId: first!.waitId, label: 'a report' }]);
    expect(['message', 'hand-over']).toContain(acquired[0]!.via);
    expect(refused).toMatchObject([
      { reason: 'aborted', code: 'LOCK_ABORTED', waitId: second!.waitId },
      { reason: 'timeout', code: 'LOCK_TIMEOUT', lockName: lock.name, holder: hold.ownerId },
      { reason: 'not-free', code: 'LOCK_TIMEOUT', lockName: lock.name, holder: hold.ownerId },
    ]);
    expect(refused[2]!.waitId).toBeUndefined();
    for (const { waitedMs } of [...acquired, ...refused])
      expect(waitedMs).toBe(Math.round(waitedMs));
  });

  it('held() and stats() show what the client holds and waits for', async () => {
    const { client, stranger, lock, strangers, leaseMs } = context();
    const before = Date.now() - 1;
    const held = nextEvent(client, 'acquired');
    const waiting = nextEvent(stranger, 'waiting');
    const theirs = await lock.withLock({ label: 'a report' }, async ({ ownerId }) => {
      const [shown, ...others] = client.held();
      const { holdId } = await held;
      expect(others).toEqual([]);
      expect(shown).toMatchObject({ lockName: lock.name, ownerId, holdId, label: 'a report' });
      expect(shown!.kind).toBe(lock.toJSON().kind);
      expect(shown!.watched).toBe(true);
      expect(shown!.remainingMs).toBeGreaterThan(0);
      expect(shown!.remainingMs).toBeLessThanOrEqual(leaseMs);
      expect(Number(shown!.since)).toBeGreaterThanOrEqual(before);
      expect(client.stats()).toMatchObject({ held: 1, waiting: 0, lines: 0, outages: 0 });
      const call = strangers.acquire();
      await waiting;
      expect(stranger.held()).toEqual([]);
      expect(stranger.stats()).toMatchObject({ held: 0, waiting: 1, lines: 1 });
      return { call };
    });
    await (await theirs.call).release();
    expect(client.stats()).toMatchObject({ held: 0, waiting: 0, lines: 0 });
    expect(stranger.stats()).toMatchObject({ held: 0, waiting: 0, lines: 0 });
    expect(Number(client.stats().since)).toBeLessThanOrEqual(Date.now() + 50); // a server in memory has a clock of its own
  });

  it('renewed names the owner whose lease was renewed, and the lease', async () => {
    const { client, lock, leaseMs } = context();
    await lock.withLock(async ({ ownerId }) => {
      const event = await nextEvent(client, 'renewed');
      const holdIds = client.held().map(({ holdId }) => holdId);
      expect(event).toEqual({ lockName: lock.name, ownerId, holdIds, leaseMs });
      expect(client.stats().renewals.kept).toBeGreaterThan(0);
    });
  });

  it('lost reports the reason and how long the lock was held, and carries the error of the signal', async () => {
    const { client, lock, seen } = context();
    const before = Date.now();
    const hold = await lock.acquire();
    const [{ holdId }] = client.held() as [HeldLock];
    await sleep(3);
    const lost = eventsOf(client, 'lost');
    const first = nextEvent(client, 'lost');
    await seen.forceUnlock();
    const event = await first;
    expect(event).toMatchObject({
      lockName: lock.name,
      ownerId: hold.ownerId,
      holdIds: [holdId],
      lossReason: 'forced',
    });
    expect(event.error).toBe(hold.signal.reason);
    expect(event.error).toBeInstanceOf(LockLostError);
    expect(event.heldSince.getTime()).toBeGreaterThanOrEqual(before);
    expect(event.heldSince.getTime()).toBeLessThanOrEqual(Date.now());
    expect(event.heldForMs).toBeGreaterThan(0);
    await expect(hold.release()).rejects.toBe(event.error);
    expect(lost).toHaveLength(1);
  });

  it('warning names a lock that a run forgot, which is released', async () => {
    const { client, lock, seen } = context();
    const warned = nextEvent(client, 'warning');
    await client.run(() => lock.lock());
    const event = await warned;
    expect(event.lockName).toBe(lock.name);
    expect(event.ownerId).toMatch(new RegExp(`^${client.clientId}:\\d+$`));
    expect(event.message).toContain(`"${lock.name}"`);
    expect(await seen.isLocked()).toBe(false);
  });

  it('listeners run outside all scopes, and a removed one is not called', async () => {
    const { client, lock } = context();
    const removed = (): void => expect.fail('it was removed');
    client.on('acquired', removed);
    client.off('acquired', removed);
    const looked = new Promise<boolean>((resolve) => {
      client.once('acquired', () => {
        void lock.isHeldByCurrentOwner().then(resolve);
      });
    });
    await lock.withLock(async () => {
      expect(await looked).toBe(false);
    });
  });

  it('close() ends waits, releases holds and frees the lock', async () => {
    const { client, lock, strangers, stranger, newThird } = context();
    const { third, thirds } = newThird();
    await thirds.isLocked(); // connected
    const hold = await lock.acquire();
    const waiting = nextEvent(stranger, 'waiting');
    const theirs = strangers.lock();
    const refused = expect(theirs).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
    await waiting;
    await stranger.close();
    await refused;
    await client.close();
    expect(await thirds.tryLock()).toBe(true);
    await third.close();
    await client.close();
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'closed' });
    await expect(lock.lock()).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
  });
}
