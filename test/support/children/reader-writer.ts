// A process that reads and writes what a read-write lock guards, and says to Redis from when to when it believes to be inside. Whoever
// comes in looks there who else believes that it is: a writer must be alone.
//
// Environment: HOLDFAST_TEST_REDIS_URL (perhaps of a proxy), HOLDFAST_TEST_ORACLE_URL (the server), HOLDFAST_TEST_LOCK (its name),
// HOLDFAST_TEST_OPTIONS (JSON, further options of the client).
// At once  ->  ready
// stop     ->  stopped {reads, writes, downgrades, losses, codes}; then the process ends by itself
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast, HoldfastError, type Hold, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';
import { COME_IN, GO_OUT, insideKeys } from '../inside-oracle.js';

const name = process.env['HOLDFAST_TEST_LOCK'] ?? '';
const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});
holdfast.on('error', () => undefined);
const oracle = new Redis(process.env['HOLDFAST_TEST_ORACLE_URL'] ?? '');
const lock = holdfast.getReadWriteLock(name);
const keys = insideKeys(name);
const counts = { reads: 0, writes: 0, downgrades: 0, losses: 0 };
const codes: Record<string, number> = {};
let isStopped = false;

/** `until` is taken before it is sent: a process that stands still in between does not seem to believe for longer. */
async function comeIn(how: 'R' | 'W', hold: Hold): Promise<void> {
  const until = Math.floor(Date.now() + hold.remaining());
  await oracle.eval(COME_IN, keys.length, ...keys, `${how} ${hold.ownerId}`, until);
}

async function goOut(how: 'R' | 'W', hold: Hold): Promise<void> {
  if (hold.signal.aborted) counts.losses++;
  await oracle.eval(GO_OUT, keys.length, ...keys, `${how} ${hold.ownerId}`);
}

async function inside(how: 'R' | 'W', hold: Hold): Promise<void> {
  await comeIn(how, hold);
  await sleep(Math.random() * 10);
  await goOut(how, hold);
}

async function pass(): Promise<void> {
  const wait = Math.random() < 0.2 ? random(20, 200) : 20_000;
  const lease = Math.random() < 0.3 ? random(200, 1_000) : undefined;
  const kind = Math.random();
  if (kind < 0.7) {
    await using hold = await lock.readLock().acquire({ wait, lease });
    await inside('R', hold);
    counts.reads++;
  } else if (kind < 0.9) {
    await using hold = await lock.writeLock().acquire({ wait, lease });
    await inside('W', hold);
    counts.writes++;
  } else {
    await using write = await lock.writeLock().acquire({ wait });
    await comeIn('W', write);
    await sleep(Math.random() * 5);
    await using read = await write.run(() => lock.readLock().acquire());
    await comeIn('R', read);
    await goOut('W', write);
    try {
      await write.release(); // from here on others may read
      await sleep(Math.random() * 10);
    } finally {
      await goOut('R', read);
    }
    counts.downgrades++;
  }
}

function random(from: number, to: number): number {
  return Math.floor(from + Math.random() * (to - from));
}

/** Two holds of one block may both have been lost: then the end of the block says so of both. */
function codesOf(error: unknown): string[] {
  if (error instanceof Error && 'suppressed' in error && 'error' in error)
    return [...codesOf(error.error), ...codesOf(error.suppressed)];
  return [error instanceof HoldfastError ? error.code : String(error)];
}

async function passes(): Promise<void> {
  while (!isStopped) {
    try {
      await pass();
    } catch (error) {
      for (const code of codesOf(error)) codes[code] = (codes[code] ?? 0) + 1;
      await sleep(5);
    }
  }
}

const all = Promise.all(Array.from({ length: 4 }, passes));

onMessage(async (message) => {
  if (message.type !== 'stop') return;
  isStopped = true;
  await all;
  await holdfast.close();
  oracle.disconnect();
  tell('stopped', { ...counts, codes });
  stopListening();
});
tell('ready');
