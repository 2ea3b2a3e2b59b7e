// A server whose wall clock is set ahead ends leases early, as the README says.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ServerClock } from '../../chaos/stage/server.js';
import { newClient, nextEvent } from '../../support/clients.js';
import { startRedisProcess, topologiesUnavailable } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const unavailable = topologiesUnavailable ?? ServerClock.unavailable;
if (unavailable !== undefined) console.log(`clock-step.test.ts: skipped: ${unavailable}`);

describe.skipIf(unavailable)('a server whose wall clock steps forward', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-step-'));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  it('ends leases early: two clients hold the lock until the first renews or asks', async () => {
    const clock = (await ServerClock.create(folder))!;
    await using server = await startRedisProcess({ env: clock.env });
    const options = { redis: server.url, lockWatchdogTimeout: 60_000, commandTimeout: 10_000 };
    await using one = newClient(options);
    await using two = newClient(options);
    const name = uniqueName();
    const first = await one.getLock(name).acquire();

    await clock.step(30_000);
    expect(await two.getLock(name).tryLock()).toBe(false);
    await clock.step(61_000);
    const second = await two.getLock(name).acquire({ wait: 10_000 });
    expect(first.remaining()).toBeGreaterThan(0);
    expect(second.remaining()).toBeGreaterThan(0);

    const lost = nextEvent(one, 'lost');
    await expect(first.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(await lost).toMatchObject({ lossReason: 'taken' });
    await second.release();
  });
});
