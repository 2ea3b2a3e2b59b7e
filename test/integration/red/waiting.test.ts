// Part 5: a waiter for a Redlock is woken by the masters' unlock channels, and sends nothing in between.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eventsOf } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { Occupancy } from '../../support/occupancy.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { RedNodes, redNodes, type RedClient } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));
/** A lost wake-up shows as a stall. */
const LONG = { lockWatchdogTimeout: 60_000 };

/** `count` calls of this client wait, and listen on every master. */
async function waiting(
  own: RedNodes,
  client: RedClient,
  name: string,
  count: number,
  turn: () => Promise<void> = () => Promise.resolve(),
): Promise<Promise<void>[]> {
  const told = eventsOf(client.holdfast, 'waiting');
  const turns = Array.from({ length: count }, () => client.lock(name).withLock(turn));
  await eventually(async () => {
    expect(told).toHaveLength(count);
    const channels = await own.ask((redis) => redis.pubsub('CHANNELS', `*${name}*`));
    expect(channels.flat()).toHaveLength(own.servers.length);
  });
  await sleep(300); // the try that follows the subscription
  return turns;
}

describe('part 5: waiters', () => {
  it('send nothing while the lock is held', async () => {
    await using holder = await nodes.client(LONG);
    await using waiter = await nodes.client(LONG);
    const lock = holder.lock(uniqueName());
    const hold = await lock.acquire();
    const turns = await waiting(nodes, waiter, lock.name, 5);
    const sent = await recordCommands(nodes.urls[0]!, () => sleep(1_000));
    // (The holder reads the key, to be told of its next change.)
    const asked = sent.filter(({ name, args }) => name !== 'HGET' && args.includes(lock.name));
    expect(asked).toEqual([]);
    await hold.release();
    await Promise.all(turns);
    await nodes.nothingLeft(lock);
  });

  it('are woken even if one of the masters is dead', async () => {
    using lag = new EventLoopLag();
    await using servers = await startMasters(3);
    const own = new RedNodes(servers);
    // Closing them gives the dead one this long to come back.
    const options = { ...LONG, commandTimeout: 4_000 };
    await using holder = await own.client(options);
    await using waiter = await own.client(options);
    const lock = holder.lock(uniqueName());
    const hold = await lock.acquire();
    const turns = await waiting(own, waiter, lock.name, 3);
    await servers[1]!.kill();
    const startedAtMs = performance.now();
    await hold.release();
    await Promise.all(turns);
    expect(performance.now() - startedAtMs).toBeLessThan(8_000 + lag.longestMs);
    await own.nothingLeft(lock);
  });

  it('of several clients all get their turn, however the votes are split', async () => {
    using lag = new EventLoopLag();
    const clients = await Promise.all(Array.from({ length: 5 }, () => nodes.client(LONG)));
    const name = uniqueName();
    const inside = new Occupancy();
    const startedAtMs = performance.now();
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 6 }, () =>
          client.lock(name).withLock(() => inside.inside('client', () => sleep(1))),
        ),
      ),
    );
    expect(performance.now() - startedAtMs).toBeLessThan(15_000 + lag.longestMs);
    expect(inside.most).toBe(1);
    expect(inside.order).toHaveLength(30);
    await nodes.nothingLeft({ name });
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
  });
});
