// Masters that are connected and do not answer: a Redlock waits for their timeout once, and they vote again when they answer.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { QuorumError, type Lock } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { redNodes, type RedClient } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const NODE_TIMEOUT_MS = 400;

const nodes = redNodes(() => startMasters(5));
let proxies: TcpProxy[];

beforeEach(async () => {
  proxies = await Promise.all(nodes.servers.map(({ port }) => startProxy(port)));
});

afterEach(async () => {
  await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
});

/** A client of the first `count` masters, over proxies; no connection is dropped for its silence during a test. */
function client(count: number, lockWatchdogTimeout = 60_000): Promise<RedClient> {
  const urls = proxies.slice(0, count).map(({ url }) => url);
  return nodes.client({ lockWatchdogTimeout }, urls);
}

async function tookMs(call: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now();
  await call();
  return performance.now() - startedAtMs;
}

describe('part 2: a timeout for each master', () => {
  it.each([
    ['1 of 3', 1, 3],
    ['2 of 5', 2, 5],
  ])(
    'calls do not wait for a dead master each time: with %s silent, none waits for it',
    async (_, silent, of) => {
      using lag = new EventLoopLag();
      await using holder = await client(of);
      for (const proxy of proxies.slice(0, silent)) proxy.blackhole();
      for (let round = 0; round < 3; round++) {
        const lock = holder.lock(uniqueName(), { nodeTimeout: 10_000 });
        const acquireMs = await tookMs(() => lock.lock(60_000));
        const releaseMs = await tookMs(() => lock.unlock());
        expect(acquireMs).toBeLessThan(2_000 + lag.longestMs);
        expect(releaseMs).toBeLessThan(2_000 + lag.longestMs);
      }
      for (const proxy of proxies) proxy.heal(); // so that closing the client does not wait for them
    },
  );

  it('a lock is not reported as free while a silent master may decide the majority', async () => {
    await using looker = await client(3, 12_000); // its `commandTimeout`, which ends the query, is a third of it
    const lock = looker.lock(uniqueName(), { nodeTimeout: NODE_TIMEOUT_MS });
    await nodes.holdBy('somebody:1', lock, [1, 2]);
    expect(await lock.isLocked()).toBe(true);
    proxies[1]!.blackhole();
    // One master says that it is held, one that it is not.
    const error = await rejectionOf(lock.isLocked());
    expect(error).toBeInstanceOf(QuorumError);
    proxies[1]!.heal();
    expect(await lock.isLocked()).toBe(true);
    await nodes.remove(lock, [1, 2]);
    expect(await lock.isLocked()).toBe(false);
  });

  it('silent masters that would decide a call cost their timeout once', async () => {
    using lag = new EventLoopLag();
    await using holder = await client(3);
    const lock = holder.lock(uniqueName(), { nodeTimeout: NODE_TIMEOUT_MS });
    for (const proxy of proxies.slice(0, 2)) proxy.blackhole();
    const errors: unknown[] = [];
    const attempt = async (): Promise<void> => void errors.push(await rejectionOf(lock.tryLock()));
    const firstMs = await tookMs(attempt);
    expect(firstMs).toBeGreaterThanOrEqual(NODE_TIMEOUT_MS - 5);
    const laterMs = await tookMs(async () => {
      for (let count = 0; count < 20; count++) await attempt();
    });
    expect(laterMs).toBeLessThan(20 * NODE_TIMEOUT_MS * 0.5 + lag.longestMs);
    const reasons = errors.map((error) =>
      (error as QuorumError).nodes.slice(0, 2).map((node) => ('reason' in node ? node.reason : '')),
    );
    expect(reasons[0]).toEqual(Array(2).fill(`no answer within ${NODE_TIMEOUT_MS} ms`));
    expect(reasons.at(-1)).toEqual(Array(2).fill('it owes an answer'));
    for (const proxy of proxies) proxy.heal();
    await nodes.nothingLeft(lock);
  });

  it('a silent master votes again when it answers', async () => {
    await using holder = await client(3);
    const lock = holder.lock(uniqueName(), { nodeTimeout: NODE_TIMEOUT_MS });
    for (const proxy of proxies.slice(0, 2)) proxy.blackhole();
    await expect(lock.tryLock()).rejects.toBeInstanceOf(QuorumError);
    for (const proxy of proxies.slice(0, 2)) proxy.heal();
    await eventually(async () => {
      await lock.withLock(async () => {
        expect((await nodes.owners(lock)).slice(0, 3)).not.toContain('');
      });
    });
    await nodes.nothingLeft(lock);
  });

  it('a silent master votes again over a new connection', async () => {
    await using holder = await client(3, 1_500);
    const lock = holder.lock(uniqueName(), { nodeTimeout: NODE_TIMEOUT_MS });
    for (const proxy of proxies.slice(0, 2)) proxy.blackhole();
    await expect(lock.tryLock()).rejects.toBeInstanceOf(QuorumError);
    for (const proxy of proxies.slice(0, 2)) {
      proxy.heal('drop');
      proxy.cut();
    }
    await eventually(() => lock.lock());
    await lock.unlock();
    await nodes.nothingLeft(lock);
  });
});

it('part 4: masters that were silent withdraw their late votes', async () => {
  await using holder = await client(3);
  const lock = holder.lock(uniqueName(), { nodeTimeout: NODE_TIMEOUT_MS });
  for (const proxy of proxies.slice(0, 2)) proxy.blackhole();
  await expect(lock.tryLock(0, 60_000)).rejects.toBeInstanceOf(QuorumError);
  for (const proxy of proxies.slice(0, 2)) proxy.heal('forward'); // the vote arrives only now
  await nodes.nothingLeft(lock);
});

it('part 6: masters that were silent during the release are released as soon as they receive commands', async () => {
  await using holder = await client(3);
  const lock = holder.lock(uniqueName());
  await lock.lock(60_000);
  await eventually(async () => {
    expect((await nodes.owners(lock)).slice(0, 3)).not.toContain('');
  });
  proxies[0]!.blackhole();
  await lock.unlock();
  proxies[0]!.heal();
  await nodes.nothingLeft(lock);
});

describe('part 6: a release while connections are being made', () => {
  let holder: RedClient;
  let lock: Lock;
  let masters: Redis[];

  beforeEach(async () => {
    const urls = nodes.urls.slice(0, 3);
    holder = await nodes.client({ lockWatchdogTimeout: 60_000 }, urls);
    lock = holder.lock(uniqueName());
    await lock.lock(60_000);
    await eventually(async () => {
      expect((await nodes.owners(lock)).slice(0, 3)).not.toContain('');
    });
    masters = urls.map((url) => new Redis(url));
  });

  afterEach(async () => {
    for (const redis of masters) redis.disconnect();
    await holder[Symbol.asyncDispose]();
  });

  /** A client that hangs up leaves its next connection without an answer for this long. */
  async function hangUp(indexes: readonly number[], silentMs: number): Promise<void> {
    const commands = [
      ['client', 'kill', 'type', 'normal'],
      ['client', 'pause', String(silentMs)],
    ];
    await Promise.all(indexes.map((index) => masters[index]!.pipeline(commands).exec()));
    await eventually(() => {
      for (const index of indexes) expect(holder.members[index]!.status).toBe('connecting');
    });
  }

  it('frees the masters that are connected at once, and most others when they are', async () => {
    await hangUp([1, 2], 5_000);
    const unlocking = lock.unlock();
    await eventually(async () => {
      expect(await masters[0]!.exists(lock.name)).toBe(0);
    });
    for (const { status } of holder.members.slice(1)) expect(status).toBe('connecting');
    await unlocking;
    await nodes.nothingLeft(lock);
  });

  it('finds out that the lock was lost when the masters are connected', async () => {
    await nodes.remove(lock, [0, 1, 2]);
    await hangUp([0, 1, 2], 1_000);
    const error = await rejectionOf(lock.unlock());
    expect(error).toMatchObject({ code: 'LOCK_LOST', lossReason: 'deleted' });
    await nodes.nothingLeft(lock);
  });
});

it('an answer that is here but unread, since the event loop was blocked, counts', async () => {
  await using direct = await nodes.client(); // a proxy would be blocked as well
  const lock = direct.lock(uniqueName(), { nodeTimeout: 50 });
  const acquiring = lock.tryLock();
  // Then all is sent: node-redis writes in a `setImmediate`.
  await new Promise((resolve) => {
    process.nextTick(setImmediate, resolve);
  });
  const blockedUntilMs = performance.now() + 1_500;
  while (performance.now() < blockedUntilMs); // the masters answer meanwhile
  expect(await acquiring).toBe(true);
  await lock.unlock();
  await nodes.nothingLeft(lock);
});
