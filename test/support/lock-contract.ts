// The promises of every kind of lock, as one suite: the whole public surface, on a real server or on one in memory.
import { describe, expect, it } from 'vitest';
import { nextEvent } from './clients.js';
import {
  callTests,
  lookingTests,
  SUBSCRIBED_AFTER_MS,
  WAKING_LEASE_MS,
  wakingTests,
} from './lock-contract-calls.js';
import { contextPerTest, type ContractContext, type LockKind } from './lock-contract-context.js';
import { descriptionTests, eventTests, holdTests } from './lock-contract-holds.js';
import { keepingTests, selfWaitTests } from './lock-contract-time.js';
import { inTime, sleep } from './time.js';

/** The default lease: short enough to see renewals, long enough for a busy machine, which may delay a process for over a second. */
const LEASE_MS = 3_000;

/** Runs the suite for one kind of lock. In real time, it leaves out what takes several leases. */
export function lockContract(kindName: string, kind: LockKind, time: 'real' | 'virtual'): void {
  describe(`the contract of a ${kindName}`, () => {
    describe('whose clients have short leases', () => {
      const current = contextPerTest(kindName, kind, LEASE_MS);
      describe("Redisson's three methods", () => {
        callTests(current);
      });
      describe('holds', () => {
        holdTests(current);
      });
      describe('queries and forceUnlock()', () => {
        lookingTests(current);
      });
      describe('descriptions', () => {
        descriptionTests(current);
      });
      if (!kind.membersTell) {
        describe('events', () => {
          eventTests(current);
        });
      }
      if (time === 'virtual') {
        describe('several leases', () => {
          keepingTests(current);
          if (!kind.membersTell) selfWaitTests(current);
        });
      }
    });

    describe('whose clients poll only after long', () => {
      wakingTests(contextPerTest(kindName, kind, WAKING_LEASE_MS));
    });
  });
}

/** One case for one kind of lock: that its scripts work on a real server as in memory, where the whole suite runs. */
export function lockCase(kindName: string, kind: LockKind): void {
  describe(`a ${kindName}`, () => {
    const current = contextPerTest(kindName, kind, LEASE_MS);

    it('excludes, is handed to the waiter, and its holder hears that it is forced', async () => {
      await passOnAndForce(current(), kind.membersTell ?? false);
    });
  });
}

async function passOnAndForce(context: ContractContext, membersTell: boolean): Promise<void> {
  const { lock, rival, strangers, stranger } = context;
  const mine = await lock.acquire();
  expect(await strangers.tryAcquire()).toBeUndefined();
  const waiting = nextEvent(stranger, 'waiting');
  const acquired = nextEvent(stranger, 'acquired');
  const acquiring = strangers.acquire();
  await waiting;
  await sleep(SUBSCRIBED_AFTER_MS);
  await mine.release();
  const theirs = await inTime(acquiring, 5_000, 'it did not get the lock');
  if (!membersTell) expect(['message', 'hand-over']).toContain((await acquired).via);
  if (mine.token !== undefined) expect(theirs.token).toBeGreaterThan(mine.token);
  const lost = nextEvent(stranger, 'lost');
  expect(await rival.forceUnlock()).toBe(true);
  expect(await lost).toMatchObject({ lossReason: 'forced', ownerId: theirs.ownerId });
  expect(theirs.signal.aborted).toBe(true);
  await expect(theirs.release()).rejects.toMatchObject({ code: 'LOCK_LOST', lossReason: 'forced' });
  const again = await lock.tryAcquire();
  expect(again).toBeDefined();
  await again!.release();
}
