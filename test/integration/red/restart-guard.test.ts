// Part 8, crash recovery: a master that was started too recently does not vote, since it may have forgotten a holder.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LockTimeoutError, QuorumError, type RedLockOptions } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { countCommands } from '../../support/recorded-commands.js';
import { RedNodes, type RedClient } from '../../support/red-nodes.js';
import { RedOracle } from '../../support/red-oracle.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** What each master answers to somebody whose masters are all guarded: in how many milliseconds it votes. */
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

  it('whoever waits gets the lock when enough of them may vote', async () => {
    await using servers = await startMasters(3);
    await using client = await new RedNodes(servers).client();
    const startedAtMs = performance.now();
    const lock = client.lock(uniqueName(), { restartGuard: 2_500 });
    await lock.lock();
    expect(performance.now() - startedAtMs).toBeLessThan(20_000);
    await lock.unlock();
  });

  it('costs no round trip: an acquire is one script for each master, and so is a release', async () => {
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
    expect(counts['evalsha']).toBe(10 * 2 + 1); // the last one looks whether the client is connected
    expect(counts['info']).toBeUndefined();
    expect(counts['ping']).toBeUndefined();
  });

  it('a master started late in a second does not seem older than it is', async () => {
    // A server counts whole seconds of the clock on the wall.
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

  it('an answer about a master’s age that comes late never makes it vote too early', async () => {
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

/** The lease is long, and a client that closes does not wait for a master that is out of reach. */
const PATIENT = { lockWatchdogTimeout: 60_000, commandTimeout: 2_000 };

describe('part 8: a master that forgot a holder it cannot repair', () => {
  /** A holder by masters 0, 1 and 2; 2 restarts empty out of the holder's reach; a contender wants 2, 3 and 4. */
  async function forgetful(guard: RedLockOptions): Promise<{ oracle: RedOracle; error?: unknown }> {
    await using servers = await startMasters(5);
    const nodes = new RedNodes(servers);
    if (guard.restartGuard !== false) await sleep(7_000); // all but the one that restarts may vote
    await using proxy = await startProxy(servers[2]!.port);
    const urls = nodes.urls.with(2, proxy.url);
    await using holder = await nodes.client(PATIENT, urls);
    await using contender = await nodes.client(PATIENT);
    const lock = holder.lock(uniqueName());
    const oracle = new RedOracle();
    await nodes.holdBy('somebody:1', lock, [3, 4]);
    const hold = await lock.acquire({ lease: 60_000 });
    oracle.begin('holder', hold);
    await nodes.remove(lock, [3, 4]);

    proxy.blackhole();
    await servers[2]!.kill();
    await servers[2]!.start();
    await eventually(() => contender.members[2]!.getLock('connected').isLocked());
    const wanted = contender.lock(lock.name, guard);
    const other = await wanted.tryAcquire({ lease: 60_000 }).catch((error: unknown) => error);
    if (other instanceof Error) return { oracle, error: other };
    if (other) oracle.begin('contender', other as typeof hold);
    return { oracle };
  }

  it('has two valid holders without the guard', async () => {
    const { oracle } = await forgetful({ restartGuard: false });
    expect(oracle.overlaps).toEqual(['contender and holder']);
  });

  it('has one with it', async () => {
    const { oracle, error } = await forgetful({ restartGuard: 5_000 });
    expect(oracle.overlaps).toEqual([]);
    expect(error).toBeInstanceOf(QuorumError);
    const answers = (error as QuorumError).nodes.map(({ answer }) => answer);
    expect(answers).toEqual(['held', 'held', 'guarded', 'acquired', 'acquired']);
    expect((error as QuorumError).message).toMatch(/started too recently, votes in \d+\.\d s/);
  });
});

it('a guarded master that somebody holds does not count as held, either', async () => {
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
