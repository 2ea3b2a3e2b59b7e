// A fenced Redlock whose masters restart empty, one at a time, and whose clocks differ: tokens still grow from holder to holder.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ServerClock } from '../../chaos/stage/server.js';
import { eventually } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { counterOf, expectGrowing, passThrough } from '../../support/fenced-locks.js';
import { RedNodes } from '../../support/red-nodes.js';
import {
  startRedisProcess,
  topologiesUnavailable,
  type RedisServer,
} from '../../support/redis-server.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

const HOUR_US = 3_600_000_000n;

/** No lease is longer, and the clocks differ by less. */
const GUARD = { restartGuard: 2_000, nodeTimeout: 1_000 } as const;

const unavailable = topologiesUnavailable ?? ServerClock.unavailable;
if (unavailable !== undefined) console.log(`fenced-restarts.test.ts: skipped: ${unavailable}`);

/** How much the masters' clocks are ahead. */
const AHEAD_MS = [0, 1_000, 400, 700, 200];

async function restart(server: RedisServer): Promise<void> {
  await server.kill();
  await server.start();
}

it.skipIf(unavailable)(
  'tokens of five masters with clocks up to a second apart grow while they restart empty one at a time',
  async () => {
    const folders = await Promise.all(AHEAD_MS.map(() => mkdtemp(join(tmpdir(), 'holdfast-red-'))));
    const servers = await Promise.all(
      AHEAD_MS.map(async (aheadMs, index) => {
        const clock = (await ServerClock.create(folders[index]!))!;
        await clock.step(aheadMs);
        return await startRedisProcess({ env: clock.env });
      }),
    );
    const nodes = new RedNodes(servers);
    const options = { lockWatchdogTimeout: 1_800 };
    const clients = [await nodes.client(options), await nodes.client(options)];
    const name = uniqueName();
    const tokens: bigint[] = [];
    let isOver = false;
    const contenders = clients.map(async (client) => {
      const lock = client.fencedLock(name, GUARD);
      while (!isOver) {
        await lock.withLock(({ token }) => void tokens.push(token));
        await sleep(Math.random() * 20);
      }
    });
    await eventually(() => {
      expect(tokens.length).toBeGreaterThan(0);
    }, 20_000);
    // The one with the fastest clock twice: before the others, which then know its tokens, and after them.
    for (const index of [1, 0, 3, 2, 4, 1]) {
      await restart(servers[index]!);
      const before = tokens.length;
      // The next one only when this one votes again.
      await eventually(async () => {
        const hold = await clients[0]!.fencedLock(name, GUARD).acquire();
        tokens.push(hold.token);
        const owners = await nodes.owners({ name });
        await hold.release();
        expect(owners[index]).toBe(hold.ownerId);
      }, 20_000);
      expect(tokens.length).toBeGreaterThan(before);
    }
    isOver = true;
    await Promise.all(contenders);
    expectGrowing(tokens);
    await nodes.nothingLeft({ name });
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true })));
  },
  180_000,
);

it('a token ahead of all clocks survives the restart of every master under its holder, by repairs', async () => {
  await using servers = await startMasters(5);
  const nodes = new RedNodes(servers);
  await nodes.unguarded();
  await using client = await nodes.client({ lockWatchdogTimeout: 4_500 });
  const lock = client.fencedLock(uniqueName());
  const ahead = BigInt(Date.now()) * 1_000n + HOUR_US;
  await nodes.ask((redis) => redis.set(counterOf(lock.name), String(ahead), 'PX', 60_000));
  const hold = await lock.acquire();
  expect(hold.token).toBe(ahead + 1n);
  await hold.run(async () => {
    const inner = await lock.acquire();
    for (const [index, server] of servers.entries()) {
      await restart(server);
      await eventually(async () => {
        expect((await nodes.owners(lock))[index]).toBe(hold.ownerId);
      });
      expect((await nodes.tokens(lock))[index]).toBe(hold.token);
    }
    await inner.release();
  });
  expect(hold.signal.aborted).toBe(false);
  await hold.release();
  await nodes.unguarded();
  expectGrowing([hold.token, await passThrough(lock)]);
  await nodes.nothingLeft(lock);
}, 60_000);

it('a master that restarted empty receives the token before it may vote', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await nodes.unguarded();
  const guard = { restartGuard: 6_000, nodeTimeout: 1_000 };
  await using client = await nodes.client({ lockWatchdogTimeout: 60_000 }); // the watchdog sends it nothing meanwhile
  const lock = client.fencedLock(uniqueName(), guard);
  await passThrough(lock); // as soon as all may vote
  await restart(servers[1]!);
  await client.connected();
  const hold = await lock.acquire();
  await eventually(async () => {
    expect(await nodes.tokens(lock)).toEqual(Array(3).fill(hold.token));
    expect(await nodes.owners(lock)).toEqual(Array(3).fill(hold.ownerId)); // it gets the lock as well, but is not asked for its vote
  });
  await hold.release();
  await nodes.nothingLeft(lock);
}, 60_000);
