// A fenced Redlock whose masters have `replicas: 1`: a master counts as having a token when its replica has it as well.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { QuorumError } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { counterOf, expectGrowing, passThrough } from '../../support/fenced-locks.js';
import { RedNodes, type RedClient } from '../../support/red-nodes.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startReplicated, type Replicated } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const HOUR_US = 3_600_000_000n;

/** The delay of everything that replicas receive. */
const DELAY_MS = 150;

describe.skipIf(topologiesUnavailable)('a fenced Redlock whose masters have replicas', () => {
  let pairs: Replicated[];
  let proxies: TcpProxy[];
  let nodes: RedNodes;
  let client: RedClient;
  let name: string;

  beforeEach(async () => {
    pairs = await Promise.all([0, 1, 2].map(() => startReplicated({ delayMs: DELAY_MS })));
    proxies = await Promise.all(pairs.map(({ master }) => startProxy(master.port)));
    nodes = new RedNodes(pairs.map(({ master }) => master));
    await nodes.unguarded();
    client = await nodes.client(
      { replicas: 1, lockWatchdogTimeout: 10_000 },
      proxies.map(({ url }) => url),
    );
    for (const member of client.members) member.on('error', () => undefined); // that a master is gone
    name = uniqueName('fenced-red');
  }, 60_000);

  afterEach(async () => {
    await client[Symbol.asyncDispose]();
    await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
    await Promise.all(pairs.map((pair) => pair[Symbol.asyncDispose]()));
  });

  function onReplicas<T>(ask: (redis: Redis) => Promise<T>): Promise<T[]> {
    return Promise.all(
      pairs.map(async ({ replicas }) => {
        const redis = new Redis(replicas[0]!.url);
        const answer = await ask(redis);
        redis.disconnect();
        return answer;
      }),
    );
  }

  it('issues tokens that most replicas know by then', async () => {
    const lock = client.fencedLock(name, { nodeTimeout: 5_000 });
    const tokens: bigint[] = [];
    for (let count = 0; count < 3; count++) {
      const hold = await lock.acquire();
      const known = await onReplicas((redis) => redis.get(counterOf(name)));
      expect(known.filter((token) => token === String(hold.token)).length).toBeGreaterThan(1);
      tokens.push(hold.token);
      await hold.release();
    }
    expectGrowing(tokens);
    await nodes.nothingLeft(lock);
  });

  it('is not granted when the replicas of most masters do not answer, and leaves nothing', async () => {
    const lock = client.fencedLock(name, { nodeTimeout: 1_500 });
    const before = await passThrough(lock);
    const paused = pairs.slice(1).map(({ replicas }) => replicas[0]!);
    await Promise.all(paused.map((replica) => replica.pause()));
    const error = await rejectionOf(lock.tryAcquire());
    expect(error).toBeInstanceOf(QuorumError);
    expect((error as Error).message).toContain('0 of 1 replicas acknowledged it');
    await nodes.nothingLeft(lock);
    await Promise.all(paused.map((replica) => replica.resume()));
    expectGrowing([before, await passThrough(lock)]);
  });

  it('issues a larger token after the replicas have taken over from all masters, even with clocks behind it', async () => {
    const lock = client.fencedLock(name, { nodeTimeout: 5_000 });
    const ahead = BigInt(Date.now()) * 1_000n + HOUR_US;
    await nodes.ask((redis) => redis.set(counterOf(name), String(ahead), 'PX', 600_000));
    const hold = await lock.acquire();
    expect(hold.token).toBe(ahead + 1n);
    await Promise.all(pairs.map(({ master }) => master.kill()));
    await onReplicas((redis) => redis.replicaof('NO', 'ONE'));
    for (const [index, proxy] of proxies.entries()) proxy.retarget(pairs[index]!.replicas[0]!.port);
    // None of the new masters has a replica that could acknowledge.
    await using other = await nodes.client(
      {},
      pairs.map(({ replicas }) => replicas[0]!.url),
    );
    await onReplicas((redis) => redis.del(name)); // its holder is gone as well
    expectGrowing([hold.token, await passThrough(other.fencedLock(name))]);
  });
});
