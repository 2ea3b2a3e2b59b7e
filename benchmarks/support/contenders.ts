// What the uncontended benchmarks compare: holdfast, and floors that a lock on Redis cannot get below.

import { createHash, randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Holdfast as HoldfastClient } from '../../src/index.js';
import { Holdfast } from './built-holdfast.js';
import { recordScripts, type ScriptCall } from './recorded-scripts.js';

const LEASE_MS = 30_000;

/** Something that is done once per operation, on a key that nobody else uses meanwhile. */
export interface Contender {
  readonly name: string;
  operation(key: string): Promise<void>;
  close(): Promise<void>;
}

/** Two round trips that do nothing. */
export async function twoPings(url: string): Promise<Contender> {
  const redis = new Redis(url);
  await redis.ping();
  return {
    name: 'two PINGs',
    async operation() {
      await redis.ping();
      await redis.ping();
    },
    close: () => quit(redis),
  };
}

const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** The lock that anybody writes in ten lines: no reentrancy, no renewal, no waiting, no knowledge of its loss. */
export async function bareLock(url: string): Promise<Contender> {
  const redis = new Redis(url);
  await redis.script('LOAD', COMPARE_AND_DELETE);
  const sha1 = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex');
  const clientId = randomUUID();
  let count = 0;
  return {
    name: 'SET NX PX + compare-and-delete',
    async operation(key) {
      const token = `${clientId}:${++count}`;
      const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
      if (reply !== 'OK') throw new Error(`"${key}" is taken`);
      if ((await redis.evalsha(sha1, 1, key, token)) !== 1) throw new Error(`"${key}" was lost`);
    },
    close: () => quit(redis),
  };
}

/** The very script calls of holdfast, sent by a plain client: what of its price is Redis' part. */
export async function scriptsAlone(url: string): Promise<Contender> {
  const redis = new Redis(url);
  const callsFor = await recordScripts(url);
  const known = new Map<string, ScriptCall[]>();
  return {
    name: "holdfast's scripts alone",
    async operation(key) {
      let calls = known.get(key);
      if (!calls) known.set(key, (calls = callsFor(key)));
      for (const args of calls) await redis.call('EVALSHA', ...args);
    },
    close: () => quit(redis),
  };
}

export async function acquireAndRelease(url: string): Promise<Contender> {
  const holdfast = await connected(url);
  return {
    name: 'holdfast acquire + release',
    async operation(key) {
      const hold = await holdfast.getLock(key).acquire();
      await hold.release();
    },
    close: () => holdfast.close(),
  };
}

export async function withLock(url: string): Promise<Contender> {
  const holdfast = await connected(url);
  return {
    name: 'holdfast withLock',
    async operation(key) {
      await holdfast.getLock(key).withLock(doNothing);
    },
    close: () => holdfast.close(),
  };
}

async function connected(url: string): Promise<HoldfastClient> {
  const holdfast = new Holdfast({ redis: url });
  await holdfast.getLock('bench:connected').isLocked();
  return holdfast;
}

async function doNothing(): Promise<void> {
  // The lock is what is measured.
}

async function quit(redis: Redis): Promise<void> {
  await redis.quit();
}
