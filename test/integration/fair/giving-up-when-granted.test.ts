// A waiter for a fair lock that gives up at the very moment of its grant leaves the lock to the next waiter.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { HoldfastError } from '../../../src/index.js';
import { connectedClient, sharedConnection } from '../../support/clients.js';
import { fairClientsPerTest } from '../../support/fair-line.js';
import { Instant } from '../../support/occupancy.js';

const OPTIONS = { lockWatchdogTimeout: 30_000 };
const ROUNDS = 100;
/** The most that a hand-over takes on a busy machine. A lost one is found after 10 s. */
const SOON_MS = 3_000;
const TIMEOUT_MS = 90_000;

const redis = sharedConnection();
const given = fairClientsPerTest(redis, async () => ({
  holder: await connectedClient(OPTIONS),
  leaver: await connectedClient(OPTIONS),
  other: await connectedClient(OPTIONS),
}));

describe('a waiter at the moment of its grant', () => {
  it(
    'leaves the lock to the next waiter at once when it aborts',
    async () => {
      const { line, holder, leaver, other } = given();
      const instant = new Instant();
      for (let round = 0; round < ROUNDS; round++) {
        const hold = await line.lockOf(holder).acquire();
        const aborter = new AbortController();
        const leaving = line.join(leaver, 'leaver', { signal: aborter.signal });
        const { done } = await leaving;
        const next = await line.join(other, 'other');
        const releasedAt = performance.now();
        const releasing = hold.release();
        await instant.passes();
        aborter.abort();
        await soon(next.done, releasedAt);
        instant.was((await ended(done, 'LOCK_ABORTED')) === 'its turn');
        await releasing;
      }
      instant.wasMet();
      expect(line.turns.filter((label) => label === 'other')).toHaveLength(ROUNDS);
    },
    TIMEOUT_MS,
  );

  it(
    'leaves the lock to the next waiter at once when its wait ends',
    async () => {
      const { line, holder, leaver, other } = given();
      const wait = 60;
      const instant = new Instant();
      for (let round = 0; round < ROUNDS; round++) {
        const hold = await line.lockOf(holder).acquire();
        const startedAt = performance.now();
        const done = line.call(leaver, 'leaver', { wait });
        const next = await line.join(other, 'other');
        // The more rounds end by the timeout, the sooner the release comes.
        await sleep(Math.max(0, startedAt + wait + 3 - performance.now() - instant.afterMs));
        const releasedAt = performance.now();
        const releasing = hold.release();
        await soon(next.done, releasedAt);
        // The latter when a busy machine takes that long for the first try.
        instant.was((await ended(done, 'LOCK_TIMEOUT', 'REDIS_UNAVAILABLE')) === 'its turn');
        await releasing;
      }
      instant.wasMet();
      expect(line.turns.filter((label) => label === 'other')).toHaveLength(ROUNDS);
    },
    TIMEOUT_MS,
  );

  it(
    'leaves the lock to the next waiter at once when its client is closed',
    async () => {
      const { line, holder, other } = given();
      const instant = new Instant();
      for (let round = 0; round < ROUNDS / 4; round++) {
        const closing = await connectedClient(OPTIONS);
        const hold = await line.lockOf(holder).acquire();
        const { done } = await line.join(closing, 'leaver');
        const next = await line.join(other, 'other');
        const releasedAt = performance.now();
        const releasing = hold.release();
        await instant.passes();
        const closed = closing.close();
        await soon(next.done, releasedAt);
        // By the latter when the client was closed during its turn.
        const outcome = await ended(done, 'CLIENT_CLOSED', 'LOCK_LOST');
        instant.was(outcome === 'LOCK_LOST' || outcome === 'its turn');
        await Promise.all([releasing, closed]);
      }
      instant.wasMet();
      expect(line.turns.filter((label) => label === 'other')).toHaveLength(ROUNDS / 4);
    },
    TIMEOUT_MS,
  );

  async function soon(promise: Promise<unknown>, sinceMs: number): Promise<void> {
    await promise;
    expect(performance.now() - sinceMs).toBeLessThan(SOON_MS);
  }

  /** The waiter had its turn, or ended with one of these errors. */
  async function ended(done: Promise<void>, ...codes: HoldfastError['code'][]): Promise<Outcome> {
    try {
      await done;
      return 'its turn';
    } catch (error) {
      const { code } = error as HoldfastError;
      expect(codes).toContain(code);
      return code;
    }
  }
});

type Outcome = 'its turn' | HoldfastError['code'];
