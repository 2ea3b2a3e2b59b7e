// The marks of lock() and tryLock() calls do not accumulate in work that continues for days.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeEach, expect, it } from 'vitest';
import { LockLostError } from '../../../src/api/errors.js';
import {
  AnonymousHolds,
  hasFailed,
  type HoldInScope,
  leaveMarks,
} from '../../../src/scopes/anonymous.js';

const ROUNDS = 20_000;
/** A mark for each round in between would take three times as much, and its hold as much again. */
const LITTLE = 500_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let holds: AnonymousHolds;

beforeEach(() => {
  holds = new AnonymousHolds();
});

/** A call that acquires the lock; returns the hold. */
async function succeed(id: string): Promise<HoldInScope & { isUnlockable: boolean }> {
  const [mark] = leaveMarks([{ holds, lock: { id } }]);
  await Promise.resolve();
  const hold = {
    lockName: id,
    ownerId: 'me',
    isShared: false,
    isUnlockable: true,
    isLostBeforeUnlock: false,
    heldForMs: 0,
    lastsForMs: Infinity,
    release: () => Promise.resolve(),
    revoke: () => Promise.resolve(),
    stopRenewing: () => undefined,
  };
  holds.add(id, hold);
  mark?.settle(hold);
  return hold;
}

async function fail(id: string): Promise<void> {
  const [mark] = leaveMarks([{ holds, lock: { id } }]);
  await Promise.resolve();
  mark?.settle(undefined);
}

async function pair(id: string): Promise<void> {
  const hold = await succeed(id);
  hold.isUnlockable = false;
  holds.delete(id, hold);
}

const error = new LockLostError('lost', { lockName: 'a', lossReason: 'taken' });

const rounds: [string, (round: number) => Promise<void>][] = [
  ['lock() and unlock()', (round) => pair(`pair:${String(round % 3)}`)],
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

it.each(rounds)('%s: the heap does not grow', { timeout: 60_000 }, async (_, work) => {
  const heap: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await work(round);
    if (round === ROUNDS / 2 || round === ROUNDS - 1) {
      collectGarbage();
      heap.push(process.memoryUsage().heapUsed);
    }
  }
  const [before, after] = heap as [number, number];
  expect(after - before).toBeLessThan(LITTLE);
  expect(hasFailed({ holds, lock: { id: 'of nobody' } })).toBe(false);
});
