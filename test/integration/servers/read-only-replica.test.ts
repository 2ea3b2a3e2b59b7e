// The address of a replica: a client that locks there gets an error that says so, acquires nothing by chance, and can lock as soon as it is
// the master.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, PermitHold } from '../../../src/index.js';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startPair, type Pair } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

expectWarnings(/goes on refusing what callers wait for: READONLY/);

describe.skipIf(topologiesUnavailable)('a client of a read-only replica', () => {
  let servers: Pair;
  let replica: Redis;
  let client: Holdfast;

  beforeEach(async () => {
    servers = await startPair();
    replica = new Redis(servers.replica.url);
    const options = { lockWatchdogTimeout: 30_000, commandTimeout: 1_000 };
    client = newClient({ redis: servers.replica.url, ...options });
    await client.ping();
  }, 60_000);

  afterEach(async () => {
    await client.close();
    replica.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  function hint(): RegExp {
    const { host, port } = servers.replica;
    return new RegExp(`READONLY .*${host}:${String(port)} is a read-only replica.*the master`);
  }

  it('gets one error event while callers wait for ever, and acquires the lock when it is the master', async () => {
    const errors = eventsOf(client, 'error');
    const all: Promise<(Hold | PermitHold)[]> = Promise.all([
      client.getLock(uniqueName()).acquire(),
      client.getFairLock(uniqueName()).acquire(),
      client.getSemaphore(uniqueName(), { permits: 1 }).acquire(),
    ]);
    all.catch(() => undefined); // of a test that fails
    await expect.poll(() => errors.length, { timeout: 15_000 }).toBe(1);
    expect(errors[0]!.error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(errors[0]!.error.message).toMatch(hint());
    await sleep(2_000); // some more tries
    await servers.swap('REPLICAOF');
    for (const hold of await all) await hold.release();
    expect(errors).toHaveLength(1);
  }, 60_000);

  it('reconnects less and less often', async () => {
    const errors = eventsOf(client, 'error');
    const end = new AbortController();
    const options = { signal: end.signal };
    const waiting = Array.from({ length: 30 }, () => client.getLock(uniqueName()).acquire(options));
    const ended = Promise.allSettled(waiting);
    await expect.poll(() => errors.length, { timeout: 15_000 }).toBe(1); // it has been one for 2 s
    await sleep(2_000);
    const [before, beganAtMs] = [await connections(), performance.now()];
    await sleep(2_000);
    const made = (await connections()) - before;
    const pauseMs = 400; // a tenth of its time as a replica, which is 4 s at least
    expect(made).toBeLessThanOrEqual((performance.now() - beganAtMs) / pauseMs + 1);
    end.abort();
    await ended;
  });

  /** How many acquisitions the replica has received so far. */
  async function connections(): Promise<number> {
    const [, count] = /^total_connections_received:(\d+)/m.exec(await replica.info('stats')) ?? [];
    return Number(count);
  }

  it.each([
    ['a finite wait', () => client.getLock(uniqueName()).acquire({ wait: 500 })],
    ['a single attempt', () => client.getLock(uniqueName()).tryLock()],
  ])('fails with an error that says so from %s', async (_, call) => {
    const error = (await rejectionOf(call())) as Error;
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(error.message).toMatch(hint());
  });

  it('may query locks there', async () => {
    const lock = client.getLock(uniqueName());
    const waiting = rejectionOf(lock.acquire({ wait: 3_000 }));
    expect(await lock.isLocked()).toBe(false);
    await waiting;
  });
});
