// Slots of a cluster that move from node to node, and with them the channels: no client goes deaf, and nothing stalls.
import { Cluster } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, Lock } from '../../../src/index.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { hasShardedChannels, SlotMover } from '../../support/cluster.js';
import { eventsOf, newClient } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { Occupancy } from '../../support/occupancy.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

/** For how long slots move under contention; 30 is needed to be sure. */
const MOVING_SECONDS = Number(process.env['HOLDFAST_TEST_SECONDS'] ?? 6);

/** The longest time in which nobody acquires a lock that many want. Leases and polls take 10 s and longer. */
const LONGEST_GAP_MS = 2_000;

describe.skipIf(topologiesUnavailable)('while slots move', () => {
  let servers: Servers;
  let mover: SlotMover;
  let clients: Holdfast[];

  beforeAll(async () => {
    servers = await startCluster();
    mover = await SlotMover.of(servers.masters);
  }, 60_000);

  afterAll(async () => {
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    clients = [0, 1, 2].map((index) =>
      newClient({
        redis: new Cluster([servers.nodes[index]!], { lazyConnect: true }),
        lockWatchdogTimeout: 30_000,
      }),
    );
    await Promise.all(
      clients.map((client) => eventually(() => client.getLock(uniqueName()).isLocked())),
    );
  });

  afterEach(async () => {
    await Promise.all(clients.map((client) => client.close()));
  });

  it('a client that only waits receives the release where the slot is then', async () => {
    const [waiter] = clients as [Holdfast, Holdfast, Holdfast];
    const lock = waiter.getLock(uniqueName());
    const slot = await mover.slotOf(lock.name);
    for (let round = 0; round < 6; round++) {
      // By another client, so that only the waiter has to find out that the slot has moved.
      const holder = await mover.home(slot);
      await holder.hset(lock.name, 'somebody:1', 1);
      await holder.pexpire(lock.name, 60_000);
      const waiting = lock.acquire();
      await listening(lock.name, 1);
      for (let move = 0; move <= round % 3; move++) await mover.move(slot);
      await listening(lock.name, 1);
      const home = await mover.home(slot);
      using lag = new EventLoopLag();
      const startedAtMs = performance.now();
      await home.del(lock.name);
      await publish(lock);
      await (await waiting).release();
      expect(performance.now() - startedAtMs).toBeLessThan(1_000 + lag.longestMs);
    }
  }, 60_000);

  it('a client that waits for many locks of a slot follows it without an error or a process warning', async () => {
    const [waiter, holder] = clients as [Holdfast, Holdfast, Holdfast];
    const tag = uniqueName();
    const slot = await mover.slotOf(tag);
    const names = Array.from({ length: 14 }, (_, index) => `{${tag}}:${String(index)}`);
    const errors = eventsOf(waiter, 'error');
    const warnings: string[] = [];
    const warned = ({ name, message }: Error): void => void warnings.push(`${name}: ${message}`);
    process.on('warning', warned);
    try {
      for (let round = 0; round < 4; round++) {
        const holds = await Promise.all(names.map((name) => holder.getLock(name).acquire()));
        const waiting = names.map((name) => waiter.getLock(name).acquire());
        await Promise.all(holds.map(({ lockName }) => listening(lockName, 1)));
        await mover.move(slot);
        await Promise.all(holds.map(({ lockName }) => listening(lockName, 1)));
        await Promise.all(holds.map((hold) => hold.release()));
        for (const hold of await Promise.all(waiting)) await hold.release();
      }
    } finally {
      process.off('warning', warned);
    }
    expect({ errors, warnings }).toEqual({ errors: [], warnings: [] });
  }, 60_000);

  it(
    `plain, fair and MultiLocks change hands without a gap (${String(MOVING_SECONDS)} s; HOLDFAST_TEST_SECONDS)`,
    async () => {
      const tags = Array.from({ length: 4 }, () => uniqueName());
      const slots = await Promise.all(tags.map((tag) => mover.slotOf(tag)));
      const [plain, fair, one, other] = tags as [string, string, string, string];
      const contenders = [
        contention('plain', (client) => client.getLock(plain)),
        contention('fair', (client) => client.getFairLock(fair)),
        contention('multi', (client) =>
          client.getMultiLock(client.getLock(one), client.getFairLock(other)),
        ),
      ];
      using lag = new EventLoopLag();
      const endsAtMs = performance.now() + MOVING_SECONDS * 1_000;
      const running = contenders.map(({ run }) => run(endsAtMs));
      let moves = 0;
      let longestMoveMs = 0; // nobody reaches a lock while its slot moves
      // On a slow machine a move takes a while: each slot still moves.
      while (performance.now() < endsAtMs || moves < slots.length) {
        const movedAtMs = performance.now();
        await mover.move(slots[moves++ % slots.length]!);
        longestMoveMs = Math.max(longestMoveMs, performance.now() - movedAtMs);
        await sleep(50);
      }
      await Promise.all(running);
      const told = contenders.map(
        ({ kind, gaps }) =>
          `${kind}: ${String(gaps.length)} sections, longest gap ${Math.max(...gaps).toFixed(0)} ms`,
      );
      console.log(`${String(moves)} moves; ${told.join('; ')}`);
      for (const { kind, gaps, inside } of contenders) {
        expect(inside.most, kind).toBe(1);
        const longestMs = Math.max(...gaps);
        const slowMs = lag.longestMs + longestMoveMs;
        expect(longestMs, `${kind}: longest gap`).toBeLessThan(LONGEST_GAP_MS + slowMs);
      }
      for (const name of tags) await nobodyIsDeaf(name);
    },
    MOVING_SECONDS * 1_000 + 60_000,
  );

  /** Two callers of each client take turns. */
  function contention(kind: string, lockOf: (client: Holdfast) => Lock) {
    const gaps: number[] = [];
    const inside = new Occupancy();
    const run = async (endsAtMs: number): Promise<void> => {
      let lastMs = performance.now();
      const caller = async (lock: Lock): Promise<void> => {
        while (performance.now() < endsAtMs) {
          await lock.withLock(() =>
            inside.inside(kind, async () => {
              gaps.push(performance.now() - lastMs);
              await sleep(2);
              lastMs = performance.now();
            }),
          );
        }
      };
      await Promise.all(
        clients.flatMap((client) => [caller(lockOf(client)), caller(lockOf(client))]),
      );
    };
    return { kind, gaps, inside, run };
  }

  /** Every waiter listens where the slot is now, and is woken. */
  async function nobodyIsDeaf(name: string): Promise<void> {
    const [first, ...others] = clients.map((client) => client.getLock(name));
    const hold = await first!.acquire();
    const waiting: Promise<Hold>[] = others.map((lock) => lock.acquire());
    await listening(first!.name, others.length);
    using lag = new EventLoopLag();
    const startedAtMs = performance.now();
    await hold.release();
    await Promise.all(waiting.map(async (acquired) => (await acquired).release()));
    expect(performance.now() - startedAtMs).toBeLessThan(1_000 + lag.longestMs);
  }

  /** `count` clients listen where the slot is. */
  async function listening(name: string, count: number): Promise<void> {
    const channel = channelOf(name);
    const home = await mover.home(await mover.slotOf(name));
    const isSharded = await hasShardedChannels(home);
    const nodes = isSharded
      ? [home]
      : await Promise.all([0, 6_000, 16_000].map((slot) => mover.home(slot)));
    await eventually(async () => {
      const counts = await Promise.all(
        nodes.map(
          async (node) =>
            (await node.call('PUBSUB', isSharded ? 'SHARDNUMSUB' : 'NUMSUB', channel)) as [
              string,
              number,
            ],
        ),
      );
      expect(counts.reduce((sum, [, listeners]) => sum + listeners, 0)).toBeGreaterThanOrEqual(
        count,
      );
    }, 3_000);
  }

  async function publish({ name }: Lock): Promise<void> {
    const home = await mover.home(await mover.slotOf(name));
    const isSharded = await hasShardedChannels(home);
    await home.call(isSharded ? 'SPUBLISH' : 'PUBLISH', channelOf(name), '0');
  }
});

function channelOf(name: string): string {
  return new LockKeys(name).channel;
}
