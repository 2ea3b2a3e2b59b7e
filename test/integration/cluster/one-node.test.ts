// A client of one server, which is one node of a cluster: it locks what is there, and is told at once of what is not.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, PermitHold } from '../../../src/index.js';
import { slotOf } from '../../../src/redis/slots.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/settled-within.js';
import { SlotMover } from '../../support/slot-mover.js';
import { uniqueName } from '../../support/unique-name.js';

expectOutages();

/** Far longer than any of it takes: without an end each of them would wait for ever. */
const NEVER_MS = 15_000;

/** The first slot of each master, as `startCluster` has it. */
const SECOND_FROM = 5_461;
const THIRD_FROM = 10_923;

type Acquire = (client: Holdfast, name: string) => Promise<Hold | PermitHold>;

const KINDS: Record<string, Acquire> = {
  lock: (client, name) => client.getLock(name).acquire(),
  'fair lock': (client, name) => client.getFairLock(name).acquire(),
  'fenced lock': (client, name) => client.getFencedLock(name).acquire(),
  'fair fenced lock': (client, name) => client.getFencedLock(name, { fair: true }).acquire(),
  semaphore: (client, name) => client.getSemaphore(name, { permits: 1 }).acquire(),
  'read lock': (client, name) => client.getReadWriteLock(name).readLock().acquire(),
  'write lock': (client, name) => client.getReadWriteLock(name).writeLock().acquire(),
  MultiLock: (client, name) => client.getMultiLock(client.getLock(name)).acquire(),
};

const OTHER_CALLS: Record<string, (client: Holdfast, name: string) => Promise<unknown>> = {
  'tryLock()': (client, name) => client.getLock(name).tryLock(),
  'tryAcquire() with a wait': (client, name) => client.getLock(name).tryAcquire({ wait: 60_000 }),
  'isLocked()': (client, name) => client.getLock(name).isLocked(),
  'forceUnlock()': (client, name) => client.getLock(name).forceUnlock(),
  'getWaiters()': (client, name) => client.getFairLock(name).getWaiters(),
  'availablePermits()': (client, name) =>
    client.getSemaphore(name, { permits: 1 }).availablePermits(),
};

describe.skipIf(topologiesUnavailable)('a client of one node of a cluster', () => {
  let servers: Servers;
  let mover: SlotMover;
  let client: Holdfast;
  let other: Holdfast;

  beforeAll(async () => {
    servers = await startCluster();
    mover = await SlotMover.of(servers.masters);
  }, 60_000);

  afterAll(async () => {
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(() => {
    const options = { redis: servers.masters[0]!.url, lockWatchdogTimeout: 3_000 };
    [client, other] = [newClient(options), newClient(options)];
  });

  afterEach(async () => {
    await Promise.all([client.close(), other.close()]);
  });

  const nameHere = (): string => nameIn((slot) => slot < SECOND_FROM);
  const nameElsewhere = (): string => nameIn((slot) => slot >= SECOND_FROM && slot < THIRD_FROM);

  /** What it is told in place of waiting for ever. */
  async function told(call: Promise<unknown>): Promise<unknown> {
    return await settledWithin(rejectionOf(call), NEVER_MS);
  }

  function refusal(lockName: string): unknown {
    const { host, port } = servers.masters[0]!;
    const words = new RegExp(
      `^lock "${lockName}".*${host}:${String(port)} is one node of a cluster.*\\((MOVED|ASK) \\d+ .*new Cluster\\(`,
    );
    return expect.objectContaining({
      code: 'REDIS_UNAVAILABLE',
      lockName,
      message: expect.stringMatching(words) as string,
    });
  }

  describe.each(Object.entries(KINDS))('that wants a %s', (kind, acquire) => {
    it('is told at once that it is on another node', async () => {
      const name = nameElsewhere();
      expect(await told(acquire(client, name))).toEqual(refusal(name));
    });

    it('gets it, and waits for it, where it is on this node', async () => {
      const name = nameHere();
      const hold = await acquire(client, name);
      const waiting = nextEvent(other, 'waiting');
      const theirs = acquire(other, name);
      if (kind !== 'read lock') await waiting;
      await hold.release();
      await (await theirs).release();
    });
  });

  it.each(Object.entries(OTHER_CALLS))('%s is told the same', async (_, call) => {
    const name = nameElsewhere();
    expect(await told(call(client, name))).toEqual(refusal(name));
  });

  it('calls that go together are each told the same, and those for locks of this node are not', async () => {
    const away = Array.from({ length: 10 }, nameElsewhere);
    const here = Array.from({ length: 10 }, nameHere);
    await client.ping();
    const holds = Promise.all(here.map((name) => client.getLock(name).acquire()));
    const errors = away.map((name) => told(client.getLock(name).acquire()));
    expect(await Promise.all(errors)).toEqual(away.map(refusal));
    for (const hold of await holds) await hold.release();
  });

  it('is ready, and its server answers', async () => {
    expect(await client.ping()).toBeGreaterThan(0);
    expect(client.status).toBe('ready');
  });

  describe.each(['lock', 'fair lock', 'semaphore', 'write lock'])('whose %s moves away', (kind) => {
    const acquire = KINDS[kind]!;

    it('is told so while it holds it, before it is lost', async () => {
      const name = nameHere();
      await acquire(client, name);
      const lost = nextEvent(client, 'lost');
      const errors = eventsOf(client, 'error');
      await mover.moveBy(1, slotOf(name));
      expect(await lost).toMatchObject({ lockName: name, lossReason: 'unreachable' });
      expect(errors.map(({ error }) => error.message)).toEqual([
        expect.stringMatching(/^renewal of 1 leases .*is one node of a cluster.*new Cluster\(/),
      ]);
    });

    it('is told so while it waits', async () => {
      const name = nameHere();
      await acquire(client, name);
      const waiting = nextEvent(other, 'waiting');
      const theirs = told(acquire(other, name));
      await waiting;
      await mover.moveBy(1, slotOf(name));
      expect(await theirs).toEqual(refusal(name));
    });

    it('is told so when it releases it', async () => {
      const name = nameHere();
      const hold = await acquire(client, name);
      await mover.moveBy(1, slotOf(name));
      expect(await told(hold.release())).toMatchObject({
        code: expect.stringMatching(/^(REDIS_UNAVAILABLE|LOCK_LOST)$/) as string,
      });
    });
  });

  it('a Redlock counts it as a master that refuses', async () => {
    const clients = servers.masters.map(({ url }) => newClient({ redis: url }));
    const name = nameHere();
    const [first] = clients as [Holdfast];
    const redlock = first.getRedLock(...clients.map((each) => each.getLock(name)), {
      restartGuard: false,
    });
    const error = (await told(redlock.acquire())) as Error;
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: name });
    expect(error.message).toMatch(/is one node of a cluster.*new Cluster\(/);
    await Promise.all(clients.map((each) => each.close()));
  });
});

function nameIn(isRight: (slot: number) => boolean): string {
  for (;;) {
    const name = uniqueName();
    if (isRight(slotOf(name))) return name;
  }
}
