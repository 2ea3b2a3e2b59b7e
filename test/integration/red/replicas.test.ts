// A Redlock with a member that has `replicas: n`: that master's vote counts only when n of its replicas have it.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { QuorumError, type Holdfast, type Lock } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { startRedis, topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startReplicated, type Replicated } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('a Redlock of which one master has a replica', () => {
  let first: Replicated;
  let others: RedisServer[];
  let clients: Holdfast[];
  let locks: Lock[];
  let red: Lock;

  beforeEach(async () => {
    [first, ...others] = await Promise.all([startReplicated(), startRedis(), startRedis()]);
    clients = [first.master, ...others].map(({ url }, index) =>
      newClient({ redis: url, replicas: index === 0 ? 1 : 0, lockWatchdogTimeout: 3_000 }),
    );
    const name = uniqueName();
    locks = clients.map((client) => client.getLock(name));
    red = clients[0]!.getRedLock(...locks, { nodeTimeout: 400, restartGuard: false });
    await red.withLock(() => 1);
  }, 60_000);

  afterEach(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await Promise.all([first, ...others].map((server) => server[Symbol.asyncDispose]()));
  });

  it('gets that vote only when the replica has it', async () => {
    await others[0]!.kill();
    const hold = await red.acquire();
    const replica = new Redis(first.replicas[0]!.url);
    expect(await replica.hexists(red.name, hold.ownerId)).toBe(1);
    replica.disconnect();
    await hold.release();

    await first.replicas[0]!.pause();
    // The replica is given 90 % of it: the rest must do for a busy machine.
    const patient = clients[0]!.getRedLock(...locks, { nodeTimeout: 1_000, restartGuard: false });
    const error = await rejectionOf(patient.tryAcquire());
    expect(error).toBeInstanceOf(QuorumError);
    expect((error as QuorumError).nodes[0]).toMatchObject({
      answer: 'unreachable',
      reason: expect.stringMatching(/^0 of 1 replicas acknowledged it within/) as string,
    });
    for (const url of [first.master.url, others[1]!.url]) {
      const redis = new Redis(url);
      await eventually(async () => {
        expect(await redis.exists(red.name)).toBe(0);
      });
      redis.disconnect();
    }
  });

  it('works without that vote while the others are a majority', async () => {
    await first.replicas[0]!.pause();
    const hold = await red.acquire();
    await nextEvent(clients[0]!, 'renewed');
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
  });

  it('is lost when its majority depends on a renewal that the replica does not have', async () => {
    await red.acquire();
    await nextEvent(clients[0]!, 'renewed');
    await others[0]!.kill();
    await first.replicas[0]!.pause();
    expect(await nextEvent(clients[0]!, 'lost')).toMatchObject({ lossReason: 'unreachable' });
  });
});
