// What follows slots in a cluster: renewals in one call, messages by sharded pub/sub; and what stays the user's.
import { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { eventsOf, newClient, nextEvent } from '../../support/clients.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { hasShardedChannels, listenedOn } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { inTime } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

// So long that only a message wakes a waiter.
const long = { lockWatchdogTimeout: 60_000, commandTimeout: 5_000 };

describe.skipIf(topologiesUnavailable)('in a cluster', () => {
  let servers: Servers;
  let masters: Redis[];
  /** The user's instances, which start from one node each. */
  let instances: Cluster[];

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    instances = servers.nodes.map((node) => new Cluster([node]));
    await Promise.all([...masters, ...instances].map((redis) => redis.ping()));
    const nodes = instances.flatMap((instance) => instance.nodes('master'));
    await Promise.all(nodes.map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    for (const redis of [...masters, ...instances]) redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  it('200 locks of one slot are renewed by one call a round, and otherwise each on its own slot', async () => {
    await using client = newClient({ redis: instances[0]!, lockWatchdogTimeout: 3_000 });
    const lost = eventsOf(client, 'lost');
    const tag = uniqueName();
    const names = [...Array.from({ length: 200 }, (_, i) => `{${tag}}:${i}`), uniqueName()];
    const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
    await nextEvent(client, 'renewed'); // the scripts are known now, and all nodes connected

    const { url } = servers.masters[await nodeOf(tag)]!;
    const renewed = eventsOf(client, 'renewed');
    const commands = await recordCommands(url, async () => {
      const twice = 2 * names.length;
      await expect.poll(() => renewed.length, { timeout: 15_000 }).toBeGreaterThanOrEqual(twice);
    });

    const calls = commands.filter(
      ({ args, byScript }) =>
        !byScript && args[0] === scripts.renew.sha1 && args.includes(`{${tag}}:7`),
    );
    // The first answers may be to a call that was sent before the recording; and a round may begin while the other slot's answer to the
    // previous one is still due.
    const rounds = Math.floor(renewed.length / names.length);
    expect(calls.length).toBeGreaterThanOrEqual(rounds - 1);
    expect(calls.length).toBeLessThanOrEqual(rounds + 1);
    for (const { args } of calls)
      expect(args.filter((arg) => arg.startsWith(`{${tag}}`))).toHaveLength(200);
    expect(lost).toEqual([]);
    await Promise.all(holds.map((hold) => hold.release()));
  });

  it.each([
    { braces: 'plain', isShardable: true },
    { braces: '{tag}', isShardable: true },
    { braces: 'a}b', isShardable: false },
    { braces: 'a{b', isShardable: false },
  ])(
    'a message for a name like $braces goes from any node to any other (by a sharded channel, if there are any: $isShardable)',
    async ({ braces, isShardable }) => {
      const isSharded = isShardable && (await hasShardedChannels(masters[0]!));
      await using first = newClient({ redis: instances[1]!, ...long });
      await using second = newClient({ redis: instances[2]!, ...long });
      for (let i = 0; i < 5; i++) {
        const name = uniqueName(braces);
        const hold = await first.getLock(name).acquire();
        const waiting = nextEvent(second, 'waiting');
        const next = second.getLock(name).acquire({ wait: 20_000 });
        await waiting;
        const home = await nodeOf(name);
        await expect
          .poll(() => listenedOn(masters, 'sharded', name))
          .toEqual(isSharded ? [home] : []);
        await expect
          .poll(async () => (await listenedOn(masters, 'classic', name)).length)
          .toBe(isSharded ? 0 : 1);
        await hold.release();
        // Without a message it polls after 19 s.
        await (await inTime(next, 10_000, 'no message woke it')).release();
      }
    },
  );

  it("the user's instance has no new listeners and commands, and works afterwards", async () => {
    const instance = instances[0]!;
    const look = (): unknown => ({
      listeners: instance.eventNames().map((event) => [event, instance.listenerCount(event)]),
      scripts: Object.keys((instance as unknown as { scriptsSet: object }).scriptsSet),
      properties: Object.keys(instance),
      status: instance.status,
    });
    const before = look();
    const name = uniqueName();
    {
      await using client = newClient({ redis: instance, ...long });
      await using hold = await client.getLock(name).acquire();
      const other = nextEvent(client, 'waiting');
      const next = client.getLock(name).withLock(() => 'in');
      await other;
      await hold.release();
      expect(await next).toBe('in');
      expect(look()).toEqual(before);
    }
    expect(look()).toEqual(before);
    expect(await instance.set(name, 'mine', 'PX', 5_000)).toBe('OK');
    expect(await instance.del(name)).toBe(1);
  });

  /** Which of the masters has a key. */
  async function nodeOf(key: string): Promise<number> {
    const slot = await masters[0]!.cluster('KEYSLOT', key);
    return slot <= 5_460 ? 0 : slot <= 10_922 ? 1 : 2;
  }
});
