// A server that has lost the script of the acquisition, but has that of the release, lets the release overtake.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { FairLock, Holdfast, Lock } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { knowsOnlyReleases } from '../../support/lock-commands.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { RedNodes } from '../../support/red-nodes.js';
import type { RedisServer } from '../../support/redis-server.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** The fate of the reply to the acquisition that was overtaken. */
const replies = ['comes', 'is lost'] as const;

/** Makes a call whose acquisition is overtaken by its release; resolves when all its commands have arrived. */
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

it.each(replies)('a released Redlock keeps no vote; its reply %s', async (reply) => {
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

const kinds = [
  ['lock', (client: Holdfast, name: string): Lock => client.getLock(name)],
  ['place in line', (client: Holdfast, name: string): Lock => client.getFairLock(name)],
] as const;

it.each(kinds)(
  'a call that has given up sends no script in full, and keeps no %s',
  async (_, getLock) => {
    await using server = await startMasters(1);
    const [{ port, url }] = server as unknown as [RedisServer];
    await using proxy = await startProxy(port);
    await using holder = newClient({ redis: url, lockWatchdogTimeout: 60_000 });
    await using client = newClient({ redis: proxy.url, lockWatchdogTimeout: 60_000 });
    const name = uniqueName();
    const hold = await getLock(holder, name).acquire();
    const lock = getLock(client, name);
    await lock.isLocked();
    await knowsOnlyReleases(url);
    const commands = await recordCommands(url, async () => {
      proxy.delay({ upstreamMs: 50, downstreamMs: 50 });
      await rejectionOf(lock.acquire({ signal: AbortSignal.timeout(20) }));
      await sleep(500);
    });
    const sent = commands.filter(({ byScript }) => !byScript).map(({ name: word }) => word);
    expect(sent).toEqual(['EVALSHA', 'EVALSHA']);
    if (isFair(lock)) expect(await lock.getWaiters()).toEqual([]);
    await hold.release();
    expect(await lock.isLocked()).toBe(false);
  },
);

function isFair(lock: Lock): lock is FairLock {
  return 'getWaiters' in lock;
}
