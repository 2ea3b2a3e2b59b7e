// Who wants to know who has a fair lock, before its wait ends: one asks for all of this client.
import { beforeEach, expect, it, vi } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest } from '../../support/fake-fair-redis.js';

const redis = fakeFairRedisPerTest();
let places: FairPlace[];
let sinceMs: number;

beforeEach(async () => {
  places = [];
  sinceMs = performance.now();
  for (let i = 0; i < 3; i++) places.push(await redis().waiting());
});

/** Which of them try now. */
function up(): number[] {
  return [...places.keys()].filter((index) => places[index]?.mayTry);
}

it('of those that want to know it, one tries', () => {
  places[1]?.look(sinceMs);
  for (const place of places) place.look(sinceMs);
  expect(up()).toEqual([1]);
});

it('another one does once that one is answered', async () => {
  places[1]?.look(sinceMs);
  await redis().join(places[1]!);
  expect(up()).toEqual([]);
  places[2]?.look(sinceMs);
  expect(up()).toEqual([2]);
});

it('another one does when that one has left', () => {
  places[1]?.look(sinceMs);
  places[1]?.leave();
  places[2]?.look(sinceMs);
  expect(up()).toContain(2);
});

it('another one does when that one has looked for too long', async () => {
  places[1]?.look(sinceMs);
  await vi.advanceTimersByTimeAsync(1_000);
  places[0]?.look(sinceMs);
  places[2]?.look(sinceMs + 1_000);
  expect(up()).toEqual([1, 2]);
});

it('one of whom another is told that it has the lock asks for itself: its grant got lost', async () => {
  places[1]?.look(sinceMs);
  await redis().join(places[1]!, [places[2]!.ownerId, 20_000, '1000']);
  expect(up()).toEqual([2]);
});
