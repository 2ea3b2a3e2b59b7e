// A server that has lost the script of the acquisition, but knows that of the release, lets the release overtake.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { knowsOnlyReleases } from '../../support/lock-commands.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** What becomes of the reply to the acquisition that was overtaken. */
const replies = ['comes', 'is lost'] as const;

/** Makes a call whose acquisition is overtaken by its release; resolves when all has arrived that it sent. */
async function overtaken(
  proxy: TcpProxy,
  reply: (typeof replies)[number],
  call: () => Promise<unknown>,
): Promise<void> {
  proxy.delay({ upstreamMs: 50, downstreamMs: 50 });
  const lost = reply === 'is lost' && proxy.loseReplyTo(/^EVAL /i);
  await call();
  if (lost) await lost.happened;
  await sleep(1_000);
}

it.each(replies)('keeps no vote for a Redlock that was released; its reply %s', async (reply) => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await nodes.loadScripts();
  await using proxy = await startProxy(servers[2]!.port);
  await using client = await nodes.client({ lockWatchdogTimeout: 60_000 }, [
    ...nodes.urls.slice(0, 2),
    proxy.url,
  ]);
  await knowsOnlyReleases(servers[2]!.url);
  const lock = client.lock(uniqueName());
  await overtaken(proxy, reply, () => lock.withLock(() => undefined));
  await eventually(async () => {
    expect(await nodes.owners(lock)).toEqual(['', '', '']);
  });
});

it.each(replies)('keeps no single lock for a caller that gave up; its reply %s', async (reply) => {
  await using servers = await startMasters(1);
  const nodes = new RedNodes(servers);
  await nodes.loadScripts();
  await using proxy = await startProxy(servers[0]!.port);
  await using client = newClient({ redis: proxy.url, lockWatchdogTimeout: 60_000 });
  const lock = client.getLock(uniqueName());
  await lock.isLocked();
  await knowsOnlyReleases(servers[0]!.url);
  await overtaken(proxy, reply, () =>
    rejectionOf(lock.acquire({ signal: AbortSignal.timeout(20) })),
  );
  await eventually(async () => {
    expect(await nodes.owners(lock)).toEqual(['']);
  });
});

it.each(replies)(
  'keeps no place in line for a caller that gave up; its reply %s',
  async (reply) => {
    await using servers = await startMasters(1);
    const nodes = new RedNodes(servers);
    await nodes.loadScripts();
    await using proxy = await startProxy(servers[0]!.port);
    await using holder = newClient({ redis: servers[0]!.url, lockWatchdogTimeout: 60_000 });
    await using client = newClient({ redis: proxy.url, lockWatchdogTimeout: 60_000 });
    const lock = client.getFairLock(uniqueName());
    const hold = await holder.getFairLock(lock.name).acquire();
    await lock.isLocked();
    await knowsOnlyReleases(servers[0]!.url);
    await overtaken(proxy, reply, () =>
      rejectionOf(lock.acquire({ signal: AbortSignal.timeout(20) })),
    );
    await eventually(async () => {
      expect(await holder.getFairLock(lock.name).getWaiters()).toEqual([]);
    });
    await hold.release();
    expect(await nodes.owners(lock)).toEqual(['']);
  },
);
