// Grants, the messages by which a fair lock is handed over, may come late, or not at all.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { eventsOf, newClient, sharedConnection } from '../../support/clients.js';
import { grantedLinePerTest, WAITERS_LEASE_MS } from '../../support/grant-proxy.js';

/** For what takes no time of its own, on a busy machine; a renewal comes after 10 s. */
const SOON_MS = 5_000;

const granted = grantedLinePerTest(sharedConnection());

describe('a grant that is delayed', () => {
  it('until the next renewal has told the waiter: it enters once, and in its order', async () => {
    const { line, proxy, hold, first, twoCallers } = granted();
    const acquired = eventsOf(first, 'acquired');
    const [one, two] = await twoCallers();
    proxy.setGrants('hold');
    await hold.release();
    await line.hasTurn('first');
    expect(proxy.grants).toHaveLength(1);
    proxy.setGrants('pass');
    await sleep(WAITERS_LEASE_MS); // held, and renewed
    expect(line.turns).toEqual(['first']);
    await Promise.all([one.end(), two.end()]);
    expect(line.turns).toEqual(['first', 'second']);
    expect(acquired).toHaveLength(1);
  });

  it('by more than half of its lease: the server is asked before the waiter enters', async () => {
    const { line, proxy, hold } = granted();
    const leaseMs = 6_000;
    await using slow = newClient({ redis: proxy.url, lockWatchdogTimeout: leaseMs });
    let remainingMs = 0;
    const body = (held: Hold): number => (remainingMs = held.remaining());
    const waiting = await line.join(slow, 'slow', { body });
    proxy.setGrants('hold');
    proxy.setCommands('hold');
    await hold.release();
    await sleep(0.55 * leaseMs);
    proxy.setGrants('pass');
    await sleep(100);
    expect(line.turns).toEqual([]);
    proxy.setCommands('pass');
    await waiting.done;
    expect(remainingMs).toBeGreaterThan(leaseMs / 2);
  });

  it('until its lease is over: it is refused, and the waiter has its turn later', async () => {
    const { line, proxy, hold, twoCallers } = granted();
    const [one, two] = await twoCallers();
    proxy.setGrants('hold');
    proxy.setCommands('hold');
    await hold.release();
    await line.hasTurn('second');
    proxy.setGrants('pass'); // while nothing else comes through
    await sleep(300);
    expect(line.turns).toEqual(['second']);
    proxy.setCommands('pass');
    await sleep(WAITERS_LEASE_MS);
    expect(line.turns).toEqual(['second']);
    await Promise.all([one.end(), two.end()]);
    expect(line.turns).toEqual(['second', 'first']);
  });

  it('until its waiter has the lock anew, by another wait: it is refused', async () => {
    const { line, proxy, hold, first, second, twoCallers } = granted();
    const [one, two] = await twoCallers();
    proxy.setGrants('hold');
    await hold.release();
    await line.hasTurn('first');
    await Promise.all([one.end(), two.end()]);
    const again = await line.lockOf(second).acquire();
    const waiting = await line.join(first, 'third');
    proxy.setGrants('pass');
    await sleep(300);
    expect(line.turns).toEqual(['first', 'second']);
    await again.release();
    await waiting.done;
    expect(line.turns).toEqual(['first', 'second', 'third']);
  });
});

it('a grant that is lost: the next renewal finds it, and the order stays', async () => {
  const { line, proxy, hold, twoCallers } = granted();
  const [one, two] = await twoCallers();
  proxy.setGrants('lose');
  await hold.release();
  await line.hasTurn('first');
  expect(proxy.grants).toHaveLength(1);
  await Promise.all([one.end(), two.end()]);
  expect(line.turns).toEqual(['first', 'second']);
});

it('a grant that is lost, to the very client that released: its waiter has it at once', async () => {
  const { line, proxy, hold } = granted();
  await using patient = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
  const body = (): void => {
    proxy.setGrants('lose');
  };
  const releasing = await line.join(patient, 'one', { body });
  const next = await line.join(patient, 'two');
  await hold.release();
  await releasing.done;
  const releasedAt = performance.now();
  await next.done;
  expect(performance.now() - releasedAt).toBeLessThan(SOON_MS);
  expect(proxy.grants).toHaveLength(2);
});
