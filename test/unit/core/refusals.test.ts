// What the error of a lock that somebody else has says: no more than is known of who is in the way.
import { expect, it } from 'vitest';
import { heldElsewhere } from '../../../src/core/messages.js';
import { quorumError } from '../../../src/locks/redlock/election.js';

const HOLDER = 'host-1-abc:7';
const LOCK = { name: 'a' };

function said(lock: Parameters<typeof heldElsewhere>[0], holderTtlMs: number): string {
  return heldElsewhere(lock, 50, { holder: HOLDER, holderTtlMs }).message;
}

it('the holder of a lock is named, with what is left of its lease', () => {
  const until = `lock "a" not acquired within 50 ms: held by ${HOLDER},`;
  expect(said(LOCK, 1_200)).toBe(`${until} its lease ends in 1200 ms unless renewed`);
  expect(said(LOCK, -1)).toBe(`${until} without expiry`);
});

it('who is first in line for a lock that is free is not called its holder', () => {
  expect(said(LOCK, 0)).toBe(
    `lock "a" not acquired within 50 ms: ${HOLDER} has it, or is the next to get it`,
  );
});

it('where several may hold, one is not called the holder of all', () => {
  const inTheWay = `not acquired within 50 ms: ${HOLDER} is in the way, perhaps among others`;
  const half = { ...LOCK, weight: 1, isReentrant: true };
  expect(said(half, 1_200)).toBe(`lock "a" ${inTheWay}`);
  const semaphore = { ...half, isReentrant: false };
  expect(said(semaphore, 1_200)).toBe(`semaphore "a": 1 permit ${inTheWay}`);
  expect(said({ ...semaphore, weight: 4 }, 0)).toBe(`semaphore "a": 4 permits ${inTheWay}`);
});

it('a master of a Redlock whose holder has no lease says so', () => {
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
