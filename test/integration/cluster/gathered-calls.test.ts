// Gathered calls in a cluster: only those with the same hash tag go together, even while their slot moves.
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, Lock } from '../../../src/index.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { eventsOf, newClient } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { Occupancy } from '../../support/occupancy.js';
import { recordCommands, type RecordedCommand } from '../../support/recorded-commands.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { SlotMover } from '../../support/cluster.js';
import { uniqueName } from '../../support/unique-name.js';

const MOVING_MS = 4_000;

describe.skipIf(topologiesUnavailable)('in a cluster', () => {
  let servers: Servers;
  let mover: SlotMover;

  beforeAll(async () => {
    servers = await startCluster();
    mover = await SlotMover.of(servers.masters);
  }, 60_000);

  afterAll(async () => {
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  /** A client whose nodes are all connected and know the scripts. */
  async function connected(): Promise<Holdfast> {
    const redis = new Cluster([servers.nodes[0]!], { lazyConnect: true });
    const client = newClient({ redis, lockWatchdogTimeout: 30_000 });
    await eventually(() => client.getLock(uniqueName()).isLocked());
    await Promise.all(
      servers.masters.map(async () => {
        const locks = locksOf(client, uniqueName(), 3);
        await releaseAll(await acquireAll(locks));
      }),
    );
    return client;
  }

  function locksOf(client: Holdfast, tag: string, count: number): Lock[] {
    return Array.from({ length: count }, (_, index) => client.getLock(`{${tag}}:${index}`));
  }

  function acquireAll(locks: readonly Lock[]): Promise<Hold[]> {
    return Promise.all(locks.map((lock) => lock.acquire()));
  }

  async function releaseAll(holds: readonly Hold[]): Promise<void> {
    await Promise.all(holds.map((hold) => hold.release()));
  }

  /** The scripts that one master executes meanwhile for these locks, for one lock and for several. */
  async function calls(
    tag: string,
    fn: () => Promise<unknown>,
  ): Promise<{ alone: number; gathered: number }> {
    const slot = await mover.slotOf(tag);
    const home = await mover.home(slot);
    const { url } = servers.masters.find(({ port }) => port === home.options.port)!;
    const commands = await recordCommands(url, fn);
    const ofTag = ({ byScript, args }: RecordedCommand): boolean =>
      !byScript && args.some((arg) => arg.startsWith(`{${tag}}`));
    const own = commands.filter(ofTag);
    const gathered = own.filter(
      ({ args: [script] }) => script === scripts.gather.sha1 || script === scripts.gather.source,
    );
    return { alone: own.length - gathered.length, gathered: gathered.length };
  }

  it('calls with the same hash tag go together, and others each on its own', async () => {
    await using client = await connected();
    const [tag, other] = [uniqueName(), uniqueName()];
    const locks = [...locksOf(client, tag, 40), ...locksOf(client, other, 1)];
    await releaseAll(await acquireAll(locks)); // now the scripts are known
    let holds: Hold[] = [];
    const acquired = await calls(tag, async () => {
      holds = await acquireAll(locks);
    });
    expect(acquired).toEqual({ alone: 1, gathered: 1 });
    const released = await calls(tag, () => releaseAll(holds));
    expect(released).toEqual({ alone: 1, gathered: 1 });
    const others = await calls(other, async () => {
      holds = await acquireAll(locks);
    });
    expect(others).toEqual({ alone: 1, gathered: 0 });
    await releaseAll(holds);
    expect(await Promise.all(locks.map((lock) => lock.isLocked()))).not.toContain(true);
  });

  it('calls whose slot begins to move are answered, each by the node that has its key', async () => {
    await using client = await connected();
    const lost = eventsOf(client, 'lost');
    const tag = uniqueName();
    const slot = await mover.slotOf(tag);
    const locks = locksOf(client, tag, 30);
    const before = await acquireAll(locks.slice(0, 10));
    await mover.move(slot, async () => {
      // The first ten are where they were, the others would be where they are going.
      const more = await acquireAll(locks.slice(10, 20));
      await releaseAll([...before.slice(0, 5), ...more.slice(0, 5)]);
      const again = await acquireAll([...locks.slice(0, 5), ...locks.slice(20)]);
      await releaseAll([...again, ...more.slice(5)]);
    });
    await releaseAll(before.slice(5));
    const home = await mover.home(slot);
    expect(await home.keys(`{${tag}}*`)).toEqual([]);
    expect(lost).toEqual([]);
  });

  it('locks of one slot that moves all the time have one holder at a time', async () => {
    await using client = await connected();
    await using other = await connected();
    const lost = [eventsOf(client, 'lost'), eventsOf(other, 'lost')];
    const tag = uniqueName();
    const slot = await mover.slotOf(tag);
    const insides = Array.from({ length: 8 }, () => new Occupancy());
    const endsAtMs = performance.now() + MOVING_MS;
    const caller = async (holdfast: Holdfast, index: number): Promise<void> => {
      const lock = holdfast.getLock(`{${tag}}:${index}`);
      while (performance.now() < endsAtMs)
        await lock.withLock(() => insides[index]!.inside('', () => new Promise(setImmediate)));
    };
    const callers = [client, other].flatMap((holdfast) =>
      insides.map((_, index) => caller(holdfast, index)),
    );
    while (performance.now() < endsAtMs) await mover.move(slot);
    await Promise.all(callers);
    expect(insides.map(({ most }) => most)).toEqual(insides.map(() => 1));
    expect(lost).toEqual([[], []]);
    await eventually(async () => {
      expect(await (await mover.home(slot)).keys(`{${tag}}*`)).toEqual([]);
    });
  }, 60_000);
});
