// `replicas: n` with further failures: the answer of WAIT is lost or refused, or the master itself requires replicas.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import {
  cutReplication,
  startReplicated,
  type Replicated,
} from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/time.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const WAIT = /^wait /i;

describe.skipIf(topologiesUnavailable)('with required replicas', () => {
  let servers: Replicated;
  let master: Redis;
  let proxy: TcpProxy;

  beforeEach(async () => {
    servers = await startReplicated();
    master = new Redis(servers.master.url);
    proxy = await startProxy(servers.master.port);
    await master.ping();
  }, 60_000);

  afterEach(async () => {
    master.disconnect();
    await proxy[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  function connect(options: Partial<HoldfastOptions> = {}): Holdfast {
    const long = { lockWatchdogTimeout: 30_000, commandTimeout: 5_000 };
    return newClient({ redis: proxy.url, replicas: 1, ...long, ...options });
  }

  it.each(['getLock', 'getFairLock'] as const)(
    'an acquisition whose WAIT loses its answer is repeated, and counts as one acquisition (%s)',
    async (kind) => {
      await using client = connect();
      await client.getLock(uniqueName()).withLock(() => 1);
      const { happened } = proxy.loseReplyTo(WAIT);
      const lock = client[kind](uniqueName());
      const hold = await lock.acquire();
      await happened;
      expect(await master.hgetall(lock.name)).toEqual({ [hold.ownerId]: '1' });
      await hold.release();
      expect(await master.exists(lock.name)).toBe(0);
    },
  );

  it('an acquisition whose WAIT loses its answer does not count if the replica is gone by then', async () => {
    await using client = connect({ commandTimeout: 3_000 });
    await client.getLock(uniqueName()).withLock(() => 1);
    await servers.replicas[0]!.pause();
    const { happened } = proxy.loseReplyTo(WAIT);
    const lock = client.getLock(uniqueName());
    const error = await rejectionOf(lock.acquire());
    await happened;
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('0 of 1 replicas acknowledged it');
    await expect.poll(() => master.exists(lock.name)).toBe(0);
  });

  it('an acquisition during which the connection is lost leaves nothing behind', async () => {
    await using client = connect({ commandTimeout: 3_000 });
    await client.getLock(uniqueName()).withLock(() => 1);
    await servers.replicas[0]!.pause();
    const lock = client.getLock(uniqueName());
    const acquiring = rejectionOf(lock.acquire({ wait: 600 }));
    await expect.poll(() => master.exists(lock.name)).toBe(1);
    proxy.refuse();
    proxy.cut();
    expect(await acquiring).toBeInstanceOf(UnavailableError);
    await proxy.accept();
    await expect.poll(() => master.exists(lock.name)).toBe(0);
  });

  it('a user who may not use WAIT gets an error at once, and the acquisition is undone', async () => {
    await master.call('ACL', 'SETUSER', 'ann', 'on', '>pw', '~*', '&*', '+@all', '-wait');
    const { host, port } = servers.master;
    await using client = connect({ redis: { host, port, username: 'ann', password: 'pw' } });
    const lock = client.getLock(uniqueName());
    const error = await rejectionOf(settledWithin(lock.acquire(), 2_000));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toMatch(/whether replicas acknowledged it is not known: NOPERM .*wait/);
    await expect.poll(() => master.exists(lock.name)).toBe(0);
  });

  it('an acquisition without a connected replica reports that', async () => {
    await cutReplication(servers.master);
    await using client = connect({ commandTimeout: 2_000 });
    const error = await rejectionOf(client.getLock(uniqueName()).tryAcquire());
    expect(String(error)).toMatch(
      /: 0 of 1 replicas acknowledged it within \d+ ms, so it does not count; no replica is connected$/,
    );
  });

  it('an acquisition of a user who may not use INFO reports how many acknowledged it, and nothing else', async () => {
    await master.call('ACL', 'SETUSER', 'ann', 'on', '>pw', '~*', '&*', '+@all', '-info');
    const { host, port } = servers.master;
    const redis = { host, port, username: 'ann', password: 'pw' };
    await using client = connect({ redis, commandTimeout: 2_000 });
    await servers.replicas[0]!.pause();
    const error = await rejectionOf(client.getLock(uniqueName()).tryAcquire());
    expect(String(error)).toMatch(
      /: 0 of 1 replicas acknowledged it within \d+ ms, so it does not count$/,
    );
  });

  it("the master's own rule, NOREPLICAS, also reports a replica that is gone for good", async () => {
    await master.config('SET', 'min-replicas-to-write', '1');
    await using client = connect({ replicas: 0, commandTimeout: 500 });
    const hold = await client.getLock(uniqueName()).acquire();
    await cutReplication(servers.master);
    const errors = [
      await rejectionOf(client.getLock(uniqueName()).tryAcquire()),
      await rejectionOf(hold.extend(60_000)),
      await rejectionOf(hold.release()),
    ];
    for (const error of errors) {
      expect(error).toBeInstanceOf(UnavailableError);
      expect(String(error)).toContain('NOREPLICAS');
    }
    await master.config('SET', 'min-replicas-to-write', '0');
    await hold.release();
    expect(await master.exists(hold.lockName)).toBe(0);
  });

  it('a renewal that the master refuses for lack of replicas is reported, and retried until it succeeds', async () => {
    await master.config('SET', 'min-replicas-to-write', '1');
    await using client = connect({ replicas: 0, lockWatchdogTimeout: 6_000 });
    const lost = eventsOf(client, 'lost');
    const hold = await client.getLock(uniqueName()).acquire();
    await cutReplication(servers.master);
    const { error } = await nextEvent(client, 'error');
    expect(error.message).toMatch(/^renewal of 1 lease was not answered, .*NOREPLICAS/);
    await master.config('SET', 'min-replicas-to-write', '0');
    await nextEvent(client, 'renewed');
    expect(lost).toEqual([]);
    await hold.release();
  });

  it('all calls that wait for replicas end when the client is closed', async () => {
    const client = connect();
    const hold = await client.getLock(uniqueName()).acquire();
    await servers.replicas[0]!.pause();
    const extending = rejectionOf(hold.extend(60_000));
    const acquiring = rejectionOf(client.getLock(uniqueName()).acquire());
    await expect
      .poll(async () => (await master.client('LIST')) as string, { timeout: 10_000 })
      .toMatch(/cmd=wait/);
    await client.close();
    expect([await extending, await acquiring].map((error) => (error as Error).name)).toEqual([
      'LockLostError',
      'ClosedError',
    ]);
    expect(await master.dbsize()).toBe(0);
  });
});
