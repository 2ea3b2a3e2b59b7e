// Locks work in an application's tests with fake timers: only a call that waits for somebody else needs a timer.
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { uniqueName } from '../../support/unique-name.js';

/** node-redis writes by `setImmediate`. */
const FAKED: (
  | 'setTimeout'
  | 'clearTimeout'
  | 'setInterval'
  | 'clearInterval'
  | 'setImmediate'
  | 'clearImmediate'
  | 'Date'
  | 'performance'
)[] = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'];
if (!process.env['HOLDFAST_LIBRARY']?.startsWith('redis@'))
  FAKED.push('setImmediate', 'clearImmediate');

beforeEach(() => {
  vi.useFakeTimers({ toFake: FAKED });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('under fake timers', () => {
  it('locks of every kind are acquired and released, and the client closes', async () => {
    const holdfast = new Holdfast({ redis: inject('redisUrl') });
    const [lock, other] = [holdfast.getLock(uniqueName()), holdfast.getLock(uniqueName())];
    const kinds = [
      lock,
      holdfast.getFairLock(uniqueName()),
      holdfast.getMultiLock(lock, other),
      holdfast.getRedLock(holdfast.getLock(uniqueName()), { restartGuard: false }),
    ];
    for (const kind of kinds)
      expect(await kind.withLock({ lease: 500 }, () => 'done')).toBe('done');
    await holdfast.close();
  });

  it('a client closes while it holds locks and others wait', async () => {
    const holdfast = new Holdfast({ redis: inject('redisUrl') });
    const lock = holdfast.getLock(uniqueName());
    const hold = await lock.acquire();
    const waiting = lock.acquire();
    await Promise.all([expect(waiting).rejects.toThrow('is closed'), holdfast.close()]);
    expect(hold.remaining()).toBe(0);
  });
});
