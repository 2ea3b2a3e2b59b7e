// Clients that hold one lock on several masters: holdfast's Redlock, and that of npm's redlock.

import { Redis } from 'ioredis';
import Redlock, { ExecutionError } from 'redlock';
import type { Lock } from '../../src/index.js';
import { Holdfast } from './built-holdfast.js';
import { monotonicMs } from './clock.js';

/** Renewed by holdfast; npm's redlock has one of its own, that of the examples in its README. */
const WATCHDOG_LEASE_MS = 30_000;
const NPM_LEASE_MS = 5_000;

export type RedKind = 'holdfast' | 'npm redlock';

export interface RedClient {
  /** Waits for the lock until then, on the monotonic clock; resolves to what releases it, or to undefined. */
  acquire(name: string, untilMs?: number): Promise<(() => Promise<unknown>) | undefined>;
  withLock(name: string, work: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** Resolves when it is connected to all of them. */
export function openRedClient(kind: RedKind, urls: readonly string[]): Promise<RedClient> {
  return kind === 'holdfast' ? openHoldfast(urls) : openNpmRedlock(urls);
}

async function openHoldfast(urls: readonly string[]): Promise<RedClient> {
  const clients = urls.map(
    (redis) => new Holdfast({ redis, lockWatchdogTimeout: WATCHDOG_LEASE_MS }),
  );
  await Promise.all(clients.map((client) => client.getLock('bench:connected').isLocked()));
  const known = new Map<string, Lock>();
  const lockOf = (name: string): Lock => {
    let lock = known.get(name);
    if (!lock) {
      const members = clients.map((client) => client.getLock(name));
      // The masters were started a moment ago, and hold nothing that they could have forgotten.
      lock = clients[0]!.getRedLock(...members, { restartGuard: false });
      known.set(name, lock);
    }
    return lock;
  };
  return {
    async acquire(name, untilMs = Infinity) {
      const wait = Math.max(untilMs - monotonicMs(), 0);
      try {
        const hold = await lockOf(name).acquire({ wait });
        return () => hold.release();
      } catch (error) {
        if (monotonicMs() < untilMs) throw error;
        return undefined; // somebody else has it, or too few answered in what was left
      }
    },
    withLock: (name, work) => lockOf(name).withLock(work),
    async close() {
      await Promise.all(clients.map((client) => client.close()));
    },
  };
}

async function openNpmRedlock(urls: readonly string[]): Promise<RedClient> {
  const masters = urls.map((url) => new Redis(url));
  for (const master of masters) master.on('error', () => undefined); // it is a vote less
  await Promise.all(masters.map((master) => master.ping()));
  const redlock = new Redlock(masters);
  return {
    async acquire(name, untilMs = Infinity) {
      do {
        try {
          const lock = await redlock.acquire([name], NPM_LEASE_MS);
          return () => lock.release();
        } catch (error) {
          // Its retries are used up, and its votes taken back: asks anew, as whoever must have the lock would.
          if (!(error instanceof ExecutionError)) throw error;
        }
      } while (monotonicMs() < untilMs);
      return undefined;
    },
    withLock: (name, work) => redlock.using([name], NPM_LEASE_MS, work),
    close() {
      for (const master of masters) master.disconnect(); // one that does not answer would not let us quit
      return Promise.resolve();
    },
  };
}
