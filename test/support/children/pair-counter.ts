// Counts what an uncontended pair makes, and a raw one beside it, in a process where nothing else goes on.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_LOCK (a name).
// By itself: costs {[title]: PairCost}, and the process ends by itself.
import { createHook } from 'node:async_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Redis } from 'ioredis';
import { Holdfast } from '../../../src/index.js';
import { stopListening, tell } from '../child-messages.js';

/** What one pair of acquire and release makes besides its commands. */
export interface PairCost {
  readonly promises: number;
  readonly timers: number;
  /** Allocated by code that is not optimized, not kept; beside what a raw pair takes at the same time. */
  readonly heapKib: number;
}

const url = process.env['HOLDFAST_TEST_REDIS_URL']!;
const name = process.env['HOLDFAST_TEST_LOCK']!;

/** Compares and deletes, as every lock of a single key must. */
const RAW_RELEASE = `return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1])`;

const PAIRS_A_COUNT = 20;

// The optimizing compiler leaves allocations out, and when it compiles a function depends on how busy the machine is: the same code took 11.5
// to 13.0 KiB a pair. Without that compiler, every run counts the same. (A collection must not drop bytecode either: compiling it again
// allocates.)
setFlagsFromString('--no-opt --no-flush-bytecode --expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const redis = new Redis(url);
await using client = new Holdfast({ redis: url });
const lock = client.getLock(name);
const sha = String(await redis.script('LOAD', RAW_RELEASE));

const pairs: Record<string, () => Promise<void>> = {
  'a raw pair': async () => {
    await redis.set(`${name}:raw`, 'token', 'PX', 30_000, 'NX');
    await redis.evalsha(sha, 1, `${name}:raw`, 'token');
  },
  'acquire() and release()': async () => {
    const hold = await lock.acquire();
    await hold.release();
  },
  'withLock()': () => lock.withLock(() => undefined),
};

const COUNTS = 25;

const counts: Record<string, PairCost[]> = {};
for (const pair of Object.values(pairs)) for (let i = 0; i < 1_000; i++) await pair();
// In turn, so that what the process does besides falls on all of them alike.
for (let count = 0; count < COUNTS; count++) {
  const rawKib = await heapKibOf(pairs['a raw pair']!);
  for (const [title, pair] of Object.entries(pairs)) {
    const heapKib = (await heapKibOf(pair)) - rawKib;
    (counts[title] ??= []).push({ ...(await resourcesOf(pair)), heapKib });
  }
}
const costs = Object.fromEntries(
  Object.entries(counts).map(([title, each]) => [title, typical(each)]),
);
tell('costs', { costs });
redis.disconnect();
stopListening();

/**
 * A timer that is due or a garbage collection may fall into one count. What else a process allocates on a busy machine falls into many, and
 * is always more: so for the heap it is the lower quartile.
 */
function typical(all: readonly PairCost[]): PairCost {
  const at = (share: number, of: (cost: PairCost) => number): number =>
    all.map(of).sort((a, b) => a - b)[Math.floor(share * all.length)]!;
  return {
    promises: at(0.5, ({ promises }) => promises),
    timers: at(0.5, ({ timers }) => timers),
    heapKib: at(0.25, ({ heapKib }) => heapKib),
  };
}

async function resourcesOf(pair: () => Promise<void>): Promise<Omit<PairCost, 'heapKib'>> {
  let promises = 0;
  let timers = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'PROMISE') promises++;
      if (type === 'Timeout' || type === 'Immediate') timers++;
    },
  });
  hook.enable();
  for (let done = 0; done < PAIRS_A_COUNT; done++) await pair();
  hook.disable();
  return { promises: promises / PAIRS_A_COUNT, timers: timers / PAIRS_A_COUNT };
}

async function heapKibOf(pair: () => Promise<void>): Promise<number> {
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let done = 0; done < PAIRS_A_COUNT; done++) await pair();
  return (process.memoryUsage().heapUsed - before) / PAIRS_A_COUNT / 1_024;
}
