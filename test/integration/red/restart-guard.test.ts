// Part 8, crash recovery: a master that was started too recently does not vote, since it may have forgotten a holder.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LockTimeoutError, QuorumError, type RedLockOptions } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { countCommands } from '../../support/recorded-commands.js';
import { RedNodes, type RedClient } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** Each master's answer to a client whose masters are all guarded: in how many milliseconds it votes. */
async function votesInMs(client: RedClient, guard: RedLockOptions, lease = -1): Promise<number[]> {
  const lock = client.lock(uniqueName(), { nodeTimeout: 1_000, ...guard });
  const error = await rejectionOf(lock.tryLock(0, lease));
  expect(error).toBeInstanceOf(QuorumError);
  return (error as QuorumError).nodes.map((node) => {
    expect(node.answer).toBe('guarded');
    return 'votesInMs' in node ? node.votesInMs : NaN;
  });
}

describe('part 8: a master votes when it has been up for the restart guard', () => {
  it.each([
    ['the watchdog’s lease by default', undefined, -1, 40_000],
    ['the longest lease of the client, if that is longer', undefined, 90_000, 90_000],
    ['a number, if one is given', 70_000, -1, 70_000],
  ])('%s', async (_, restartGuard, lease, guardMs) => {
    await using servers = await startMasters(3);
    await using client = await new RedNodes(servers).client({ lockWatchdogTimeout: 40_000 });
    const given = await votesInMs(client, { restartGuard }, lease);
    for (const ms of given) {
      expect(ms).toBeGreaterThan(guardMs - 25_000);
      expect(ms).toBeLessThanOrEqual(guardMs);
    }
  });

  it('false lets it vote at once', async () => {
    await using servers = await startMasters(3);
    await using client = await new RedNodes(servers).client({ lockWatchdogTimeout: 40_000 });
    expect(await client.lock(uniqueName(), { restartGuard: false }).tryLock()).toBe(true);
  });

  it('a waiter acquires the lock when enough masters may vote', async () => {
    await using servers = await startMasters(3);
    await using client = await new RedNodes(servers).client();
    const startedAtMs = performance.now();
    const lock = client.lock(uniqueName(), { restartGuard: 2_500 });
    await lock.lock();
    expect(performance.now() - startedAtMs).toBeLessThan(20_000);
    await lock.unlock();
  });

  it('the guard costs no round trip: an acquire is one script for each master, and so is a release', async () => {
    await using servers = await startMasters(3);
    const nodes = new RedNodes(servers);
    await nodes.loadScripts();
    await using client = await nodes.client({ lockWatchdogTimeout: 60_000 });
    const lock = client.lock(uniqueName(), { restartGuard: 1 });
    await eventually(() => lock.withLock(() => undefined));
    const counts = await countCommands(servers[2]!.url, async () => {
      for (let count = 0; count < 10; count++) await lock.withLock(() => undefined);
      await client.connected();
    });
    expect(counts['evalsha']).toBe(10 * 2 + 1); // the last one checks whether the client is connected
    expect(counts['info']).toBeUndefined();
    expect(counts['ping']).toBeUndefined();
  });

  it('a master started late in a second does not seem older than it is', async () => {
    // A server counts whole seconds of the wall clock.
    await sleep(1_900 - (Date.now() % 1_000));
    const beforeMs = performance.now();
    await using servers = await startMasters(3);
    await sleep(1_050 - (Date.now() % 1_000));
    await using client = await new RedNodes(servers).client({ lockWatchdogTimeout: 60_000 });
    const given = await votesInMs(client, { restartGuard: 60_000 });
    for (const ms of given) {
      expect(performance.now() + ms).toBeGreaterThanOrEqual(beforeMs + 60_000);
    }
  });

  it("a late answer about a master's age never makes it vote too early", async () => {
    const beforeMs = performance.now();
    await using servers = await startMasters(1);
    await using proxy = await startProxy(servers[0]!.port);
    proxy.delay({ upstreamMs: 1_600, downstreamMs: 300 });
    await using client = await new RedNodes(servers).client({ lockWatchdogTimeout: 60_000 }, [
      proxy.url,
    ]);
    const [ms = 0] = await votesInMs(client, { restartGuard: 60_000 });
    expect(performance.now() + ms).toBeGreaterThanOrEqual(beforeMs + 60_000);
  });
});

/** With a short longest lease, and so a short guard. */
const SHORT = { lockWatchdogTimeout: 1_000, commandTimeout: 2_000 };

it('masters that refuse to tell their age do not count as a majority that restarted, even if all connections are young', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  const denied = ['on', 'nopass', '~*', '&*', '+@all', '-info'] as const;
  const makeUser = (): Promise<unknown> =>
    nodes.ask((redis) => redis.acl('SETUSER', 'unaware', ...denied));
  await makeUser();
  const unawareUrls = nodes.urls.map((url) => url.replace('redis://', 'redis://unaware:any@'));
  await using aware = await nodes.client(SHORT);
  await using unaware = await nodes.client(SHORT, unawareUrls);
  await sleep(2_500); // longer than the guard of both
  await servers[2]!.kill();
  const name = uniqueName();
  const options = { restartGuard: undefined };
  const error = await rejectionOf(unaware.lock(name, options).tryLock());
  expect(error).toBeInstanceOf(QuorumError);
  const guarded = { answer: 'guarded', waitsForOthers: true };
  expect((error as QuorumError).nodes).toMatchObject([guarded, guarded, { answer: 'unreachable' }]);
  // A client with permission learns that they are new indeed.
  await aware.lock(name, options).withLock(() => undefined);
  await servers[2]!.start();
  await makeUser();
  await unaware.lock(name, options).withLock({ wait: 20_000 }, () => undefined);
});

it('a guarded master that another client holds does not count as held, either', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using client = await nodes.client();
  const lock = client.lock(uniqueName(), { restartGuard: 60_000 });
  await nodes.holdBy('somebody:1', lock, [0, 1, 2]);
  const error = await rejectionOf(lock.acquire({ wait: 300 }));
  expect(error).not.toBeInstanceOf(LockTimeoutError);
  expect(error).toMatchObject({ code: 'NO_QUORUM' });
  const redis = new Redis(servers[0]!.url);
  expect(await redis.hkeys(lock.name)).toEqual(['somebody:1']);
  redis.disconnect();
});
