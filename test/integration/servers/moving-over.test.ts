// Migration from redlock while processes that use it still run.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import Redlock from 'redlock';
import { describe, expect, inject, it } from 'vitest';
import { Holdfast, KeyConflictError } from '../../../src/index.js';
import { withBothLocks } from '../../recipes/moving-over.js';
import { uniqueName } from '../../support/unique-name.js';

describe('beside redlock', () => {
  it('at the same name each excludes the other, and ours reports that the key is not a lock', async () => {
    await using old = redlock();
    await using holdfast = new Holdfast({ redis: inject('redisUrl') });
    const name = uniqueName();
    const theirs = await old.redlock.acquire([name], 5_000);
    await expect(holdfast.getLock(name).tryLock()).rejects.toBeInstanceOf(KeyConflictError);
    await theirs.release();
    const ours = await holdfast.getLock(name).acquire();
    await expect(old.redlock.acquire([name], 5_000, { retryCount: 0 })).rejects.toThrow();
    await ours.release();
  });

  it('a caller that takes both excludes callers of the old lock and of the new one', async () => {
    await using old = redlock();
    await using holdfast = new Holdfast({ redis: inject('redisUrl') });
    const name = uniqueName();
    let [inside, most, done] = [0, 0, 0];
    const section = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await sleep(5);
      inside--;
      done++;
    };
    const both = (): Promise<void> => withBothLocks(old.redlock, holdfast, name, section);
    const before = (): Promise<void> => old.redlock.using([name], 10_000, section);
    const after = (): Promise<void> => holdfast.getLock(`holdfast:${name}`).withLock(section);
    // First some still take the old lock only; when all take both, some may begin to take the new one only.
    await Promise.all([both(), before(), both(), before(), both()]);
    await Promise.all([both(), after(), both(), after(), both()]);
    expect({ most, done }).toEqual({ most: 1, done: 10 });
  });
});

function redlock(): { redlock: Redlock } & AsyncDisposable {
  const redis = new Redis(inject('redisUrl'));
  const settings = { retryCount: -1, retryDelay: 10, retryJitter: 10 };
  return {
    redlock: new Redlock([redis], settings),
    [Symbol.asyncDispose]: async () => {
      await redis.quit();
    },
  };
}
