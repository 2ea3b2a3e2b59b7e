// What the error says about a lock that somebody else has: no more than is known about the holder.
import { expect, it } from 'vitest';
import { heldElsewhere } from '../../../src/core/messages.js';
import { quorumError } from '../../../src/locks/redlock/election.js';

const HOLDER = 'host-1-abc:7';
const LOCK = { name: 'a' };

function said(lock: Parameters<typeof heldElsewhere>[0], holderTtlMs: number): string {
  return heldElsewhere(lock, { waitMs: 50, waitIs: 'given' }, { holder: HOLDER, holderTtlMs })
    .message;
}

it('the error names the holder of a lock, and what remains of its lease', () => {
  const until = `lock "a" not acquired within 50 ms: held by ${HOLDER},`;
  expect(said(LOCK, 1_200)).toBe(`${until} its lease ends in 1200 ms unless renewed`);
  expect(said(LOCK, -1)).toBe(`${until} without expiry`);
});

it('the first waiter in line for a free lock is not called its holder', () => {
  expect(said(LOCK, 0)).toBe(
    `lock "a" not acquired within 50 ms: ${HOLDER} has it, or is the next to get it`,
  );
});

it('one of several holders is not called the holder of all', () => {
  const inTheWay = `not acquired within 50 ms: ${HOLDER} is in the way, perhaps among others`;
  const half = { ...LOCK, weight: 1, isReentrant: true };
  expect(said(half, 1_200)).toBe(`lock "a" ${inTheWay}`);
  const semaphore = { ...half, isReentrant: false };
  expect(said(semaphore, 1_200)).toBe(`semaphore "a": 1 permit ${inTheWay}`);
  expect(said({ ...semaphore, weight: 4 }, 0)).toBe(`semaphore "a": 4 permits ${inTheWay}`);
});

it('the error says so when the holder at a master of a Redlock has no lease', () => {
  const [answer, holder] = ['held' as const, HOLDER];
  const nodes = [
    { node: 'x:1', answer, holder, holderTtlMs: -1 },
    { node: 'y:1', answer, holder, holderTtlMs: 900 },
  ];
  const error = quorumError('a', 'not acquired', 2, nodes);
  expect(error.message).toContain(
    `(x:1: held by ${HOLDER} without expiry; y:1: held by ${HOLDER} for 900 ms)`,
  );
});
