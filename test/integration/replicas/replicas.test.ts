// `replicas: n`: an acquisition counts only when n replicas have acknowledged it.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  ClosedError,
  LockAbortedError,
  UnavailableError,
  type Holdfast,
} from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { recordCommands, socketWrites } from '../../support/recorded-commands.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startReplicated, type Replicated } from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/time.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

// The replica lags behind the master by this time.
const DELAY_MS = 30;

const kinds = ['getLock', 'getFairLock'] as const;

describe.skipIf(topologiesUnavailable)('an acquisition that replicas must acknowledge', () => {
  let servers: Replicated;
  let master: Redis;
  let replica: Redis;

  beforeAll(async () => {
    servers = await startReplicated({ delayMs: DELAY_MS });
    master = new Redis(servers.master.url);
    replica = new Redis(servers.replicas[0]!.url);
    await Promise.all([master.ping(), replica.ping()]);
  }, 60_000);

  afterEach(async () => {
    await servers.replicas[0]!.resume();
    await expect.poll(() => master.wait(1, 1_000)).toBe(1);
  });

  afterAll(async () => {
    master.disconnect();
    replica.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  function connect(replicas: number, commandTimeout = 10_000, url = servers.master.url): Holdfast {
    return newClient({ redis: url, replicas, commandTimeout, lockWatchdogTimeout: 30_000 });
  }

  /** (node-redis writes the undo at the end of the turn in which the call rejects.) */
  async function undone(name: string): Promise<void> {
    await expect.poll(() => master.exists(name)).toBe(0);
  }

  /** The replica is frozen, and receives nothing more. */
  async function hang(): Promise<void> {
    await servers.replicas[0]!.pause();
  }

  it.each(kinds)('is known to a replica when %s has it', async (kind) => {
    await using client = connect(1);
    const lock = client[kind](uniqueName());
    await using hold = await lock.acquire();
    expect(await replica.hexists(lock.name, hold.ownerId)).toBe(1);
  });

  it('counts at once when no replica is required', async () => {
    await using client = connect(0);
    const lock = client.getLock(uniqueName());
    await using hold = await lock.acquire();
    expect(await replica.hexists(lock.name, hold.ownerId)).toBe(0);
  });

  it.each([
    { replicas: 0, count: 1 },
    { replicas: 1, count: 2 },
  ])('takes a connection of its own only when it waits: $replicas', async ({ replicas, count }) => {
    await using proxy = await startProxy(servers.master.port);
    await using client = connect(replicas, 1_000, proxy.url);
    await client.getLock(uniqueName()).withLock(() => 1);
    expect(proxy.openConnections).toBe(count);
  });

  it.each(kinds)(
    'is undone when too few acknowledge it, and reports how many did, which one is behind and since when (%s)',
    async (kind) => {
      await using client = connect(1, 2_000);
      const lock = client[kind](uniqueName());
      await hang();
      const attempts: (() => Promise<unknown>)[] = [
        () => lock.tryAcquire(),
        () => lock.acquire(),
        () => lock.lock(),
      ];
      const { port } = servers.replicas[0]!;
      for (const [pausedForS, attempt] of attempts.entries()) {
        const error = await rejectionOf(settledWithin(attempt(), 5_000));
        expect(error).toBeInstanceOf(UnavailableError);
        expect(error).toMatchObject({
          lockName: lock.name,
          message: expect.stringMatching(
            `: 0 of 1 replicas acknowledged it within \\d+ ms, so it does not count; connected: 127.0.0.1:${port} \\([1-9]\\d* bytes behind, last heard from \\d+ s ago\\)$`,
          ) as string,
        });
        const heardFromS = Number(/last heard from (\d+) s ago/.exec(String(error))![1]);
        expect(heardFromS).toBeGreaterThanOrEqual(pausedForS); // each attempt took almost two seconds
        await undone(lock.name);
      }
    },
  );

  it('reports how many of several acknowledged it', async () => {
    await using client = connect(2, 2_000);
    const error = await rejectionOf(client.getLock(uniqueName()).tryAcquire());
    expect(String(error)).toContain(': 1 of 2 replicas acknowledged it');
    // There is no second one.
    expect(String(error)).toMatch(
      /; connected: \S+:\d+ \(\d+ bytes behind, last heard from \d+ s ago\)$/,
    );
  });

  it('asks once which replica is behind, and only when it gives up', async () => {
    await using client = connect(1, 2_000);
    await client.getLock(uniqueName()).withLock(() => 1);
    const asked = async (fn: () => Promise<unknown>): Promise<string[]> => {
      const commands = await recordCommands(servers.master.url, fn);
      return commands
        .filter(({ name, args }) => name === 'WAIT' || (name === 'INFO' && args[0] !== 'server'))
        .map(({ name }) => name);
    };
    const late = await asked(async () => {
      await hang();
      const acquiring = client.getLock(uniqueName()).tryAcquire();
      await sleep(500);
      await servers.replicas[0]!.resume();
      await (await acquiring)!.release();
    });
    expect(late.length).toBeGreaterThan(1);
    expect(late).not.toContain('INFO');
    const tooLate = await asked(async () => {
      await hang();
      await rejectionOf(client.getLock(uniqueName()).tryAcquire());
    });
    expect(tooLate.filter((name) => name === 'INFO')).toHaveLength(1);
    expect(tooLate.at(-1)).toBe('INFO');
  });

  it('takes no longer than its caller waits', async () => {
    await using client = connect(1);
    const lock = client.getLock(uniqueName());
    await lock.isLocked();
    await hang();
    const error = await rejectionOf(settledWithin(lock.acquire({ wait: 300 }), 2_000));
    expect(String(error)).toContain(': 0 of 1 replicas acknowledged it');
    await undone(lock.name);
  });

  it('succeeds when the replica is back in time', async () => {
    await using client = connect(1);
    const lock = client.getLock(uniqueName());
    await (await lock.acquire()).release(); // so that the time to connect is not part of the measurement
    await hang();
    const before = performance.now();
    const acquiring = lock.acquire();
    await sleep(500);
    await servers.replicas[0]!.resume();
    await using hold = await acquiring;
    expect(performance.now() - before).toBeLessThan(5_000);
    expect(hold.remaining()).toBeLessThan(29_250); // counted from before it was sent, at least half a second ago
  });

  it('delays no other call: releases, queries, and callers that find a lock held', async () => {
    await using client = connect(1);
    await using other = connect(0);
    const held = await client.getLock(uniqueName()).acquire();
    await using theirs = await other.getLock(uniqueName()).acquire();
    await hang();
    const waiting = client.getLock(uniqueName()).acquire();
    await expect.poll(async () => (await master.client('LIST')) as string).toMatch(/cmd=wait/);

    expect(await settledWithin(held.release(), 1_000)).toBeUndefined();
    expect(await settledWithin(client.getLock(theirs.lockName).tryLock(), 1_000)).toBe(false);
    expect(await settledWithin(client.getLock(theirs.lockName).isLocked(), 1_000)).toBe(true);
    await servers.replicas[0]!.resume();
    await (await waiting).release();
  });

  it('shares the acknowledgement with all acquisitions that come meanwhile', async () => {
    await using client = connect(1);
    await client.getLock(uniqueName()).withLock(() => 1);
    const names = Array.from({ length: 200 }, () => uniqueName());
    const commands = await recordCommands(servers.master.url, async () => {
      const before = performance.now();
      const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
      expect(performance.now() - before).toBeLessThan(2_000); // one by one it would be 6 s
      await Promise.all(holds.map((hold) => hold.release()));
    });
    expect(commands.filter(({ name }) => name === 'WAIT').length).toBeLessThan(10);
  });

  it('sends WAIT in the same write as the command', async () => {
    await using client = connect(1);
    await client.getLock(uniqueName()).withLock(() => 1);
    const lock = client.getLock(uniqueName());
    const writes = await socketWrites(() => lock.lock());
    const ours = writes.filter((bytes) => /evalsha|wait/i.test(bytes));
    expect(ours).toEqual([expect.stringMatching(/evalsha[^]*wait/i)]);
    await lock.unlock();
  });

  it.each(kinds)('leaves nothing when its caller gives up meanwhile (%s)', async (kind) => {
    await using client = connect(1);
    const lock = client[kind](uniqueName());
    await lock.isLocked();
    await hang();
    const abort = new AbortController();
    const acquiring = lock.acquire({ signal: abort.signal });
    await expect.poll(() => master.exists(lock.name)).toBe(1);
    abort.abort();
    expect(await rejectionOf(acquiring)).toBeInstanceOf(LockAbortedError);
    await expect.poll(() => master.exists(lock.name)).toBe(0);
    // It no longer waits for replicas when its caller has gone.
    expect(await settledWithin(client.close(), 3_000)).toBeUndefined();
  });

  it('leaves nothing when its client is closed meanwhile', async () => {
    const client = connect(1);
    const lock = client.getLock(uniqueName());
    await lock.isLocked();
    await hang();
    const acquiring = rejectionOf(lock.acquire());
    await expect.poll(() => master.exists(lock.name)).toBe(1);
    expect(await settledWithin(client.close(), 3_000)).toBeUndefined();
    expect(await acquiring).toBeInstanceOf(ClosedError);
    expect(await master.exists(lock.name)).toBe(0);
  });
});
