// A cluster under test: moves its slots, sees who listens where, and reaches its nodes through proxies.
import { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { SLOT_COUNT, slotOf } from '../../src/redis/keys.js';
import type { RedisServer } from './redis-server.js';
import { startCluster, type Cluster as Servers } from './redis-topologies.js';
import { startProxy, type TcpProxy } from './tcp-proxy.js';
import { uniqueName } from './unique-name.js';

const LONGEST_WAIT_MS = 10_000;

export class SlotMover implements AsyncDisposable {
  readonly #masters: readonly Master[];

  private constructor(masters: readonly Master[]) {
    this.#masters = masters;
  }

  static async of(servers: readonly RedisServer[]): Promise<SlotMover> {
    const masters = servers.map(async ({ url, host, port }) => {
      const redis = new Redis(url);
      return { redis, host, port, id: (await redis.call('CLUSTER', 'MYID')) as string };
    });
    return new SlotMover(await Promise.all(masters));
  }

  /** The slot of a name. */
  async slotOf(name: string): Promise<number> {
    return await this.#masters[0]!.redis.cluster('KEYSLOT', name);
  }

  /** Which master serves a slot, by its own word. */
  async home(slot: number): Promise<Redis> {
    return this.#masters[await this.#index(slot)]!.redis;
  }

  /** A slot begins to migrate to another master: what is not there is to be asked of that one. */
  async begin(slot: number): Promise<void> {
    const index = await this.#index(slot);
    const [from, to] = [this.#masters[index]!, this.#masters[(index + 1) % this.#masters.length]!];
    await beginMigration(slot, from, to);
  }

  /** Moves a slot to another master, chosen at random, and all keys in it; `meanwhile` runs before the first key moves. */
  async move(slot: number, meanwhile?: () => Promise<void>): Promise<void> {
    const step = 1 + Math.floor(Math.random() * (this.#masters.length - 1));
    await this.moveBy(step, slot, meanwhile);
  }

  /** The same, to the master that is so many further on. What has failed may be asked for again. */
  async moveBy(step: number, slot: number, meanwhile?: () => Promise<void>): Promise<void> {
    const from = await this.#index(slot);
    await this.#moveTo(slot, from, (from + step) % this.#masters.length, meanwhile);
  }

  async #moveTo(
    slot: number,
    fromIndex: number,
    toIndex: number,
    meanwhile?: () => Promise<void>,
  ): Promise<void> {
    const [from, to] = [this.#masters[fromIndex]!, this.#masters[toIndex]!];
    await beginMigration(slot, from, to);
    await meanwhile?.();
    for (;;) {
      const keys = (await from.redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
      if (keys.length > 0) {
        const target = [to.host, to.port, '', 0, 5_000];
        await from.redis.call('MIGRATE', ...target, 'KEYS', ...keys);
        continue;
      }
      await knowsEpochOf(to, from);
      await to.redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id);
      try {
        await from.redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id);
        break;
      } catch (error) {
        if (!String(error).includes('keys for hash slot')) throw error; // a client has made one meanwhile
      }
    }
    const others = this.#masters.filter((master) => master !== from && master !== to);
    await Promise.all(
      others.map(({ redis }) => redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)),
    );
    // Nobody answers for it any more but the new one.
    await until(async () => (await this.#index(slot)) === toIndex, `slot ${slot} is served there`);
  }

  async #index(slot: number): Promise<number> {
    let index = -1;
    await until(async () => {
      const owners = await Promise.all(this.#masters.map((master) => ownSlots(master)));
      index = owners.findIndex((slots) => slots.some(([a, b]) => a <= slot && slot <= b));
      return index >= 0;
    }, `some master serves slot ${slot}`);
    return index;
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const { redis } of this.#masters) redis.disconnect();
    return Promise.resolve();
  }
}

interface Master {
  readonly redis: Redis;
  readonly host: string;
  readonly port: number;
  readonly id: string;
}

/**
 * Waits until a master that is to take over a slot knows how recent the word of its owner is. It takes it over with a higher epoch
 * than all it knows; with one that is not higher it would lose the slot again to a ping that its former owner sent before.
 */
async function knowsEpochOf(to: Master, from: Master): Promise<void> {
  await until(async () => {
    const [known, own, present] = await Promise.all([
      epochOf(to, from),
      epochOf(from, from),
      epochOf(to, to),
    ]);
    return known === own && present !== own;
  }, 'the new master knows the epoch of the former');
}

/** Gossip goes round within a second; what takes much longer does not come. */
async function until(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  const endsAtMs = performance.now() + LONGEST_WAIT_MS;
  while (!(await isTrue())) {
    if (performance.now() > endsAtMs) throw new Error(`not within ${LONGEST_WAIT_MS} ms: ${what}`);
    await sleep(10);
  }
}

/** The epoch of a master's slots, as somebody knows it. */
async function epochOf(asked: Master, { id }: Master): Promise<number> {
  const nodes = (await asked.redis.call('CLUSTER', 'NODES')) as string;
  const fields = nodes.split('\n').find((line) => line.startsWith(id)) ?? '';
  return Number(fields.split(' ')[6]);
}

async function beginMigration(slot: number, from: Master, to: Master): Promise<void> {
  await to.redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id);
  await from.redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id);
}

/** The slots that a master takes for its own, as ranges. */
async function ownSlots({ redis, id }: Master): Promise<[number, number][]> {
  type Range = [number, number, [string, number, string]];
  const ranges = (await redis.cluster('SLOTS')) as unknown as Range[];
  return ranges.filter(([, , [, , owner]]) => owner === id).map(([from, to]) => [from, to]);
}

// The names of locks at one of the masters.

/** A name whose slot is at this master, as `startCluster` deals slots out; in braces all names that begin so are there. */
export function nameAt(master: number, masterCount = 3): string {
  const slotsOfEach = SLOT_COUNT / masterCount;
  const [from, end] = [master, master + 1].map((index) => Math.round(index * slotsOfEach));
  for (;;) {
    const name = uniqueName();
    const slot = slotOf(name);
    if (slot >= from! && slot < end!) return name;
  }
}

// Where in a cluster somebody listens for a lock, by the kind of channel.

export type ChannelKind = 'sharded' | 'classic';

/** Redis 7 and newer have sharded channels. */
export async function hasShardedChannels(redis: Redis): Promise<boolean> {
  return await redis.pubsub('SHARDNUMSUB').then(
    () => true,
    () => false,
  );
}

/** On which of the masters, by index, somebody listens on channels of this kind whose name has `part` in it. */
export async function listenedOn(
  masters: readonly Redis[],
  kind: ChannelKind,
  part: string,
): Promise<number[]> {
  const channels = await Promise.all(
    masters.map(async (master) => {
      if (kind === 'sharded' && !(await hasShardedChannels(master))) return [];
      const names = kind === 'sharded' ? master.pubsub('SHARDCHANNELS') : master.pubsub('CHANNELS');
      return (await names) as string[];
    }),
  );
  return channels.flatMap((names, index) =>
    names.some((name) => name.includes(part)) ? [index] : [],
  );
}

// A cluster whose nodes are reached through proxies.

export interface ProxiedCluster extends AsyncDisposable {
  readonly servers: Servers;
  /** One for each master, in their order. */
  readonly proxies: readonly TcpProxy[];
  /** The user's instance, whose way to the masters leads through the proxies. */
  instance(): Cluster;
}

export async function startProxiedCluster(
  options: Parameters<typeof startCluster>[0] = {},
): Promise<ProxiedCluster> {
  const servers = await startCluster(options);
  const proxies = await Promise.all(servers.masters.map(({ port }) => startProxy(port)));
  const ports = proxies.map(({ port }) => port);
  return {
    servers,
    proxies,
    instance: () => clusterBehind(servers, ports),
    async [Symbol.asyncDispose]() {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
      await servers[Symbol.asyncDispose]();
    },
  };
}

/** `ports`: where each of the masters is reached. It does not connect before it is used. */
export function clusterBehind({ nodes }: Servers, ports: readonly number[]): Cluster {
  const host = '127.0.0.1';
  const natMap = Object.fromEntries(
    nodes.map((node, index) => [
      `${node.host}:${String(node.port)}`,
      { host, port: ports[index]! },
    ]),
  );
  const startupNodes = ports.map((port) => ({ host, port }));
  return new Cluster(startupNodes, { lazyConnect: true, natMap });
}
