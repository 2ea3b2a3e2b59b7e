// That a lock excludes, wakes who waits for it, and leaves nothing.
import { expect } from 'vitest';
import type { Holdfast } from '../../src/index.js';
import { uniqueName } from './unique-name.js';

/** Takes a lock by one client, waits for it by the other, and hands it on. */
export async function worksBetween(first: Holdfast, second: Holdfast): Promise<void> {
  const name = uniqueName();
  const hold = await first.getLock(name).acquire();
  expect(await second.getLock(name).tryLock()).toBe(false);
  const waiting = second.getLock(name).withLock({ wait: 10_000 }, () => performance.now());
  await new Promise((resolve) => setTimeout(resolve, 100));
  const releasedAt = performance.now();
  await hold.release();
  expect((await waiting) - releasedAt).toBeLessThan(2_000);
  expect(await first.getLock(name).isLocked()).toBe(false);
}
