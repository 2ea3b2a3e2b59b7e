// How a Redlock is acquired: all masters asked at once as one owner, a majority in time, undone everywhere otherwise.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { RedClient, redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(5));

describe('part 1: one owner, all masters at the same time', () => {
  it('every master has the same key with the same owner and the requested lease', async () => {
    await using client = await nodes.client();
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire({ lease: 60_000 });
    await eventually(async () => {
      expect(await nodes.owners(lock)).toEqual(Array(5).fill(hold.ownerId));
    });
    for (const leftMs of await nodes.leftMs(lock)) {
      expect(leftMs).toBeGreaterThan(30_000);
      expect(leftMs).toBeLessThanOrEqual(60_000);
    }
    await hold.release();
    await nodes.nothingLeft(lock);
  });

  it('no master has to answer before the next is asked', async () => {
    await using client = await nodes.proxied();
    const lock = client.lock(uniqueName(), { nodeTimeout: 20_000 });
    const held = client.proxies.map((proxy) =>
      proxy.holdBack(commandOf('vote', lock.name), 'silence'),
    );
    const acquiring = lock.acquire({ wait: 2_000 }).catch(() => undefined);
    await Promise.all(held.map(({ happened }) => happened)); // although none of them has answered
    await acquiring;
  });
});

describe('part 3: a majority, and the validity that remains', () => {
  it.each([
    ['two of five others', [0, 1], true],
    ['three of five others', [2, 3, 4], false],
  ])('held by %s', async (_, indexes, isFree) => {
    await using client = await nodes.client();
    const lock = client.lock(uniqueName());
    await nodes.holdBy('somebody:1', lock, indexes);
    expect(await lock.tryLock()).toBe(isFree);
    if (isFree) await lock.unlock();
    const others = nodes.servers.map((__, index) => (indexes.includes(index) ? 'somebody:1' : ''));
    await eventually(async () => {
      expect(await nodes.owners(lock)).toEqual(others);
    });
    await nodes.remove(lock, indexes);
  });

  it('remaining() starts from the lease minus the elapsed time and the drift', async () => {
    await using client = await nodes.proxied({ lockWatchdogTimeout: 30_000 });
    for (const proxy of client.proxies) proxy.delay({ downstreamMs: 300 });
    const lock = client.lock(uniqueName(), { nodeTimeout: 5_000 });
    const startedAtMs = performance.now();
    const hold = await lock.acquire({ lease: 10_000 });
    const tookMs = performance.now() - startedAtMs;
    expect(tookMs).toBeGreaterThanOrEqual(300 - 5);
    expect(hold.remaining()).toBeLessThanOrEqual(10_000 - 102 - 300 + 5);
    // Not from a later time, and not shorter than in the algorithm.
    expect(hold.remaining()).toBeGreaterThan(10_000 - 102 - (performance.now() - startedAtMs) - 5);
    await hold.release();
    await nodes.nothingLeft(lock);
  });

  it('the time to connect does not shorten the lease', async () => {
    const proxies = await Promise.all(nodes.servers.map(({ port }) => startProxy(port)));
    for (const proxy of proxies) proxy.delay({ downstreamMs: 300 });
    const urls = proxies.map(({ url }) => url);
    await using client = new RedClient(urls, { lockWatchdogTimeout: 30_000 }, proxies);
    const startedAtMs = performance.now();
    const lock = client.lock(uniqueName(), { nodeTimeout: 5_000 });
    const hold = await lock.acquire({ lease: 10_000 });
    const tookMs = performance.now() - startedAtMs;
    // Before the votes at least one other command was answered.
    expect(hold.remaining()).toBeGreaterThan(10_000 - 102 - (tookMs - 300) - 100);
    await hold.release();
    await nodes.nothingLeft(lock);
  });
});

describe('part 4: a failure is undone on all masters', () => {
  it('a vote that comes after its time is undone as well', async () => {
    const proxy = await startProxy(nodes.servers[4]!.port);
    const urls = [...nodes.urls.slice(0, 4), proxy.url];
    await using client = await nodes.client({ lockWatchdogTimeout: 30_000 }, urls);
    const lock = client.lock(uniqueName(), { nodeTimeout: 50 });
    await nodes.holdBy('somebody:1', lock, [0, 1]);
    await nodes.holdBy('somebody:2', lock, [2]);
    proxy.delay({ upstreamMs: 500 });
    expect(await lock.tryLock(0, 60_000)).toBe(false);
    await sleep(600); // by now the vote has arrived, and right behind it the command that withdraws it
    await eventually(async () => {
      expect((await nodes.owners(lock)).slice(3)).toEqual(['', '']);
    });
    await nodes.remove(lock, [0, 1, 2]);
    await proxy[Symbol.asyncDispose]();
  });

  it('a vote whose answer is lost with its connection is undone as well', async () => {
    await using client = await nodes.proxied({}, 3);
    const lock = client.lock(uniqueName());
    const lost = client.proxies.map((proxy) => proxy.loseReplyTo(commandOf('vote', lock.name)));
    const error = await rejectionOf(lock.tryAcquire({ lease: 60_000 }));
    expect(error).toMatchObject({ code: 'NO_QUORUM' });
    await Promise.all(lost.map(({ happened }) => happened));
    await nodes.nothingLeft(lock);
  });
});
