// What every kind of lock promises, as one suite: the whole public surface, on a real server.
import { describe } from 'vitest';
import { callTests, lookingTests, WAKING_LEASE_MS, wakingTests } from './lock-contract-calls.js';
import { contextPerTest, type LockKind } from './lock-contract-context.js';
import { descriptionTests, eventTests, holdTests } from './lock-contract-holds.js';

/** The default lease: short enough to see renewals, long enough for a busy machine, which may keep a process waiting for over a second. */
const LEASE_MS = 3_000;

/** Runs the suite for one kind of lock. */
export function lockContract(kindName: string, kind: LockKind): void {
  describe(`the contract of a ${kindName}`, () => {
    describe('whose clients have short leases', () => {
      const current = contextPerTest(kindName, kind, LEASE_MS);
      describe("Redisson's three", () => {
        callTests(current);
      });
      describe('holds', () => {
        holdTests(current);
      });
      describe('looking and forcing', () => {
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
    });

    describe('whose clients look for themselves only after long', () => {
      wakingTests(contextPerTest(kindName, kind, WAKING_LEASE_MS));
    });
  });
}
