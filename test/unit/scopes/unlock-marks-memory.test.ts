// The marks of lock() and tryLock() calls do not accumulate in work that continues for days.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeEach, expect, it } from 'vitest';
import { LockLostError } from '../../../src/api/errors.js';
import {
  AnonymousHolds,
  type HoldInScope,
  latestKind,
  leaveMarks,
  type Mark,
  undo,
  undoneNext,
} from '../../../src/scopes/anonymous.js';

const ROUNDS = 40_000;
/** A mark for each round in between would take three times as much, and its hold as much again. */
const LITTLE = 1_000_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let holds: AnonymousHolds;

beforeEach(() => {
  holds = new AnonymousHolds();
});

/** A call that acquires the lock; returns the hold. */
async function succeed(id: string, isShared = false): Promise<HoldInScope> {
  const [mark] = leaveMarks([{ holds, lock: { id, isShared } }]) as [Mark];
  await Promise.resolve();
  const hold = {
    lockName: id,
    ownerId: 'me',
    isShared,
    isUnlockable: true,
    isLostBeforeUnlock: false,
    heldForMs: 0,
    lastsForMs: Infinity,
    release: () => Promise.resolve(),
    revoke: () => Promise.resolve(),
    stopRenewing: () => undefined,
  };
  holds.add(id, hold);
  mark.settle(hold);
  return hold;
}

async function fail(id: string): Promise<void> {
  const [mark] = leaveMarks([{ holds, lock: { id } }]) as [Mark];
  await Promise.resolve();
  mark.settle(undefined);
}

async function pair(id: string): Promise<void> {
  await succeed(id);
  await undo({ holds, lock: { id } });
}

/** The read locks that are held, oldest first. */
const readers: HoldInScope[] = [];

const error = new LockLostError('lost', { lockName: 'a', lossReason: 'taken' });

const rounds: [string, (round: number) => Promise<void>][] = [
  ['lock() and unlock()', (round) => pair(`pair:${String(round % 3)}`)],
  [
    'read locks of which other code always undoes the oldest but one',
    async () => {
      readers.push(await succeed('rw', true));
      const [hold] = readers.length > 2 ? readers.splice(0, 1) : [];
      if (hold) holds.delete('rw', hold);
    },
  ],
  ['tryLock() that fails', () => fail('a')],
  ['tryLock() that fails and then does not', (round) => (round % 3 ? fail('a') : pair('a'))],
  ['tryLock() that fails at one lock after another', (round) => fail(`job:${String(round)}`)],
  [
    'locks that are lost and never unlocked',
    async () => {
      holds.lost('a', await succeed('a'), error);
    },
  ],
  [
    'calls that are started and not awaited',
    async (round) => {
      void fail('a');
      void pair('b');
      await pair(`pair:${String(round % 3)}`);
    },
  ],
  [
    'calls while many other locks are held',
    async (round) => {
      if (round < 100) await succeed(`held:${String(round)}`);
      await fail(`job:${String(round)}`);
    },
  ],
];

async function expectNoGrowth(
  count: number,
  work: (round: number) => Promise<void>,
): Promise<void> {
  const heap: number[] = [];
  for (let round = 0; round < count; round++) {
    await work(round);
    if (round === count / 2 || round === count - 1) {
      collectGarbage();
      heap.push(process.memoryUsage().heapUsed);
    }
  }
  const [before, after] = heap as [number, number];
  expect(after - before).toBeLessThan(LITTLE);
}

it.each(rounds)('%s: the heap does not grow', { timeout: 60_000 }, async (_, work) => {
  readers.length = 0;
  await expectNoGrowth(ROUNDS, work);
});

it(
  'a million pairs in one asynchronous context: the heap does not grow',
  { timeout: 120_000 },
  async () => {
    await expectNoGrowth(1_000_000, () => pair('a'));
    expect(latestKind({ holds, lock: { id: 'a' } })).toBe('undone');
    expect(latestKind({ holds, lock: { id: 'of nobody' } })).toBeUndefined();
  },
);

it('10,000 losses are remembered until they are told; beyond that the oldest is forgotten', async () => {
  const lose = async (id: string): Promise<void> => {
    holds.lost(id, await succeed(id), error);
  };
  await lose('first');
  for (let count = 0; count < 10_000; count++) await lose(`other:${String(count % 100)}`);
  const first = { holds, lock: { id: 'first' } };
  expect(latestKind(first)).toBe('undone');
  expect(holds.next(first.lock)).toBeUndefined();
  let told = 0;
  for (let index = 0; index < 100; index++) {
    const other = { holds, lock: { id: `other:${String(index)}` } };
    while (undoneNext(other))
      await undo(other)?.catch((loss: unknown) => {
        told += loss === error ? 1 : 0;
      });
  }
  expect(told).toBe(10_000);
});
