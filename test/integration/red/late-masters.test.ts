// Masters that are connected only after the votes for a Redlock were asked for: they have it, too, before a voter is missed.
import { describe, expect, it } from 'vitest';
import type { FencedHold, Hold, Lock } from '../../../src/index.js';
import { eventsOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { RedClient, redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(5));

/** Votes may take long, and no connection is dropped for that. */
const PATIENT = { nodeTimeout: 20_000 };
const LEASE_MS = 10_000;

/** A program that reaches its masters by proxies, some of them not before it is told to. */
class LateMasters implements AsyncDisposable {
  readonly proxies: TcpProxy[];
  readonly client: RedClient;
  readonly #count: number;

  private constructor(proxies: TcpProxy[], lockWatchdogTimeout: number) {
    this.proxies = proxies;
    this.#count = proxies.length;
    const urls = proxies.map(({ url }) => url);
    this.client = new RedClient(urls, { lockWatchdogTimeout, commandTimeout: 10_000 });
    for (const member of this.client.members) member.on('error', () => undefined);
  }

  static async start(
    count: number,
    late: readonly number[],
    lockWatchdogTimeout = LEASE_MS,
  ): Promise<LateMasters> {
    const ports = nodes.servers.slice(0, count).map(({ port }) => port);
    const masters = new LateMasters(
      await Promise.all(ports.map((port) => startProxy(port))),
      lockWatchdogTimeout,
    );
    for (const index of late) masters.goes(index);
    const others = [...ports.keys()].filter((index) => !late.includes(index));
    await Promise.all(others.map((index) => masters.connected(index)));
    return masters;
  }

  goes(index: number): void {
    this.proxies[index]!.refuse();
    this.proxies[index]!.cut();
  }

  async comes(index: number): Promise<void> {
    await this.proxies[index]!.accept();
    await this.connected(index);
  }

  async connected(index: number): Promise<void> {
    await eventually(() => this.client.members[index]!.getLock('connected').isLocked());
  }

  /** Acquires the lock, whose majority needs the vote of the first master; that comes only after `meanwhile`. */
  async acquireWhile(
    lock: Lock,
    lease: number | undefined,
    meanwhile: () => Promise<void>,
  ): Promise<Hold> {
    const [voter] = this.proxies;
    const vote = voter!.copyNext(commandOf('vote', lock.name));
    voter!.blackhole('downstream');
    const acquiring = lock.acquire({ ...(lease !== undefined && { lease }) });
    await vote.happened;
    await meanwhile();
    voter!.heal();
    return await acquiring;
  }

  /** Who holds the lock on each of them. */
  async owners(lock: Lock): Promise<(string | undefined)[]> {
    return (await nodes.owners(lock)).slice(0, this.#count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client[Symbol.asyncDispose]();
    await Promise.all(this.proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
  }
}

describe('a master that is connected while the vote is under way', () => {
  it.each([
    ['getLock()', undefined],
    ['getLock() with a fixed lease', 60_000],
    ['getFencedLock()', undefined],
    ['getFencedLock() with a fixed lease', 60_000],
  ])('has the Redlock of %s as soon as that is won', async (kind, lease) => {
    await using masters = await LateMasters.start(3, [2], 30_000);
    const { client } = masters;
    const isFenced = kind.startsWith('getFencedLock');
    const lock = client[isFenced ? 'fencedLock' : 'lock'](uniqueName(), PATIENT);
    const hold = await masters.acquireWhile(lock, lease, () => masters.comes(2));
    await eventually(async () => {
      expect(await masters.owners(lock)).toEqual(Array(3).fill(hold.ownerId));
    }, 5_000); // half of what the watchdog's next round takes
    const { token = 0n } = hold as Partial<FencedHold>;
    expect((await nodes.tokens(lock)).slice(0, 3)).toEqual([token, token, token]);
    await hold.release();
    await nodes.nothingLeft(lock);
  });

  it('keeps the lock when one of the voters is gone right after that', async () => {
    await using masters = await LateMasters.start(3, [2]);
    const lock = masters.client.lock(uniqueName(), PATIENT);
    const renewed = eventsOf(masters.client.holdfast, 'renewed');
    const hold = await masters.acquireWhile(lock, undefined, () => masters.comes(2));
    masters.goes(0);
    await eventually(() => {
      expect(renewed).toHaveLength(1);
    });
    expect(hold.signal.reason).toBeUndefined();
    await masters.comes(0);
    await hold.release();
    await nodes.nothingLeft(lock);
  });
});

describe('a lock whose majority is gone right after it was acquired', () => {
  it.each([
    ['are connected since', [3, 4]],
    ['had not answered so far, or are connected since', [4]],
  ])('is kept by masters that %s', async (_, late) => {
    await using masters = await LateMasters.start(5, late);
    const lock = masters.client.lock(uniqueName(), PATIENT);
    if (!late.includes(3)) masters.proxies[3]!.delay({ upstreamMs: 300 });
    const hold = await lock.acquire();
    for (const index of [0, 1]) masters.goes(index);
    for (const index of late) await masters.comes(index);
    await eventually(async () => {
      expect((await masters.owners(lock)).slice(2)).toEqual(Array(3).fill(hold.ownerId));
    }, LEASE_MS / 2);
    const renewed = eventsOf(masters.client.holdfast, 'renewed');
    await eventually(() => {
      expect(renewed).not.toEqual([]);
    });
    expect(hold.signal.reason).toBeUndefined();
    for (const index of [0, 1]) await masters.comes(index);
    await hold.release();
    await nodes.nothingLeft(lock);
  });
});

it('forceUnlock() also frees the lock on a master that is still being connected', async () => {
  await using holder = await LateMasters.start(3, []);
  const name = uniqueName();
  const hold = await holder.client.lock(name).acquire();
  const [first, second, third] = nodes.servers;
  await using late = await startProxy(third!.port);
  late.blackhole('downstream');
  await using forcer = new RedClient([first!.url, second!.url, late.url]);
  await Promise.all([0, 1].map((index) => forcer.members[index]!.getLock('connected').isLocked()));
  const forcing = forcer.lock(name, PATIENT).forceUnlock();
  setTimeout(() => {
    late.heal();
  }, 200);
  expect(await forcing).toBe(true);
  expect((await nodes.owners({ name })).slice(0, 3)).toEqual(['', '', '']);
  await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  await nodes.nothingLeft({ name });
});
