// Redlocks as members of a MultiLock: several names, each on a majority of several masters, all of them or none.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LockTimeoutError, QuorumError, type Hold, type Lock } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { countCommands } from '../../support/recorded-commands.js';
import { redNodes, RedNodes, type RedClient } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));
const LONG = { lockWatchdogTimeout: 30_000, commandTimeout: 5_000 };

interface Pair {
  readonly a: Lock;
  readonly b: Lock;
  readonly multi: Lock;
}

/** Two Redlocks of one program, and both at once. */
function pairOf(client: RedClient, [first, second]: readonly [string, string]): Pair {
  const [a, b] = [client.lock(first), client.lock(second)];
  return { a, b, multi: client.holdfast.getMultiLock(a, b) };
}

function twoNames(): [string, string] {
  return [uniqueName('a'), uniqueName('b')];
}

async function nothingLeft(masters: RedNodes, names: readonly string[]): Promise<void> {
  for (const name of names) await masters.nothingLeft({ name });
}

describe('a MultiLock of Redlocks', () => {
  it('holds each on all masters by one owner, and releases all', async () => {
    await using client = await nodes.client(LONG);
    const names = twoNames();
    const { multi } = pairOf(client, names);
    const hold = await multi.acquire();
    for (const name of names) {
      await eventually(async () => {
        expect(await nodes.owners({ name })).toEqual(Array(3).fill(hold.ownerId));
      });
    }
    expect(await multi.isLocked()).toBe(true);
    expect(await multi.remainTimeToLive()).toBeGreaterThan(20_000);
    await hold.release();
    await nothingLeft(nodes, names);
  });

  it('excludes its Redlocks, and they exclude it', async () => {
    await using client = await nodes.client(LONG);
    await using other = await nodes.client(LONG);
    const names = twoNames();
    const { multi } = pairOf(client, names);
    const others = pairOf(other, names);
    await multi.withLock(async () => {
      expect(await others.a.tryLock()).toBe(false);
      expect(await others.b.tryLock()).toBe(false);
      expect(await others.multi.tryLock()).toBe(false);
    });
    await others.b.withLock(async () => {
      expect(await multi.tryLock()).toBe(false);
      const error = await rejectionOf(multi.acquire({ wait: 200 }));
      expect(error).toBeInstanceOf(LockTimeoutError);
      expect((error as Error).message).toContain(`"${names[1]}"`);
    });
    await nothingLeft(nodes, names);
  });

  it('may have other members as well, and acquires all or none', async () => {
    await using client = await nodes.client(LONG);
    const plain = newClient(LONG);
    const elsewhere = newClient(LONG);
    const name = uniqueName('red');
    const [plainName, fairName] = [uniqueName('plain'), uniqueName('fair')];
    const multi = plain.getMultiLock(
      plain.getLock(plainName),
      client.lock(name),
      plain.getFairLock(fairName),
    );
    await multi.withLock(async () => {
      expect(await elsewhere.getLock(plainName).tryLock()).toBe(false);
      expect(await client.lock(name).isLocked()).toBe(true);
    });
    await elsewhere.getLock(fairName).withLock(async () => {
      expect(await multi.tryLock()).toBe(false);
      await nodes.nothingLeft({ name });
      expect(await elsewhere.getLock(plainName).isLocked()).toBe(false);
    });
    await Promise.all([plain.close(), elsewhere.close()]);
  });

  it('holds nothing while it waits for a Redlock that is taken, and then has one owner on all', async () => {
    await using client = await nodes.client(LONG);
    await using other = await nodes.client(LONG);
    for (const inTheWay of ['a', 'b'] as const) {
      const names = twoNames();
      const { multi } = pairOf(client, names);
      const others = pairOf(other, names);
      const free = inTheWay === 'a' ? others.b : others.a;
      const held = await others[inTheWay].acquire();
      const waiting = multi.acquire({ wait: 20_000 });
      await sleep(300);
      // Meanwhile another caller may have only the other one.
      for (let count = 0; count < 5; count++) await free.withLock({ wait: 5_000 }, () => undefined);
      await held.release();
      const hold = await waiting;
      for (const name of names) {
        await eventually(async () => {
          expect(await nodes.owners({ name })).toEqual(Array(3).fill(hold.ownerId));
        });
      }
      await hold.release();
      await nothingLeft(nodes, names);
    }
  });
});

describe('losing one Redlock of a MultiLock', () => {
  it('releases a member of another kind that is still held', async () => {
    await using client = await nodes.client({ lockWatchdogTimeout: 1_500, commandTimeout: 5_000 });
    const plain = newClient(LONG);
    const [name, plainName] = [uniqueName('red'), uniqueName('plain')];
    const multi = plain.getMultiLock(plain.getLock(plainName), client.lock(name));
    const hold = await multi.acquire();
    await nodes.remove({ name }, [0, 1, 2]);
    await expectLost(hold, multi.name, name);
    await eventually(async () => {
      expect(await plain.getLock(plainName).isLocked()).toBe(false);
    });
    await plain.close();
  });

  async function expectLost(hold: Hold, multiName: string, memberName: string): Promise<void> {
    await eventually(() => {
      expect(hold.signal.aborted).toBe(true);
    });
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST', lockName: multiName });
    expect((hold.signal.reason as Error).cause).toMatchObject({ lockName: memberName });
    expect(hold.remaining()).toBe(0);
    expect(await rejectionOf(hold.release())).toBe(hold.signal.reason);
  }
});

describe('masters that do not answer', () => {
  it('do not matter while they are a minority, dead or silent', async () => {
    await using servers = await startMasters(5);
    const own = new RedNodes(servers);
    await using proxy = await startProxy(servers[3]!.port);
    const options = { ...LONG, commandTimeout: 2_000 };
    await using client = await own.client(options, own.urls.with(3, proxy.url));
    await using other = await own.client(options, own.urls.with(3, proxy.url));
    const names = twoNames();
    await servers[4]!.kill();
    proxy.blackhole();
    const { multi } = pairOf(client, names);
    const others = pairOf(other, [names[1], names[0]]);
    let inside = 0;
    const work = async (): Promise<void> => {
      expect(++inside).toBe(1);
      await sleep(5);
      inside--;
    };
    const turns = Array.from({ length: 5 }, async () => {
      await multi.withLock({ wait: 20_000 }, work);
      await others.multi.withLock({ wait: 20_000 }, work);
    });
    await Promise.all(turns);
    proxy.heal();
    await nothingLeft(own, names);
  });

  it('cause a QuorumError if they are a majority of one member, and none of the others is held', async () => {
    await using servers = await startMasters(3);
    const own = new RedNodes(servers);
    await using client = await nodes.client(LONG);
    await using cut = await own.client({ ...LONG, commandTimeout: 2_000 });
    const names = twoNames();
    const multi = client.holdfast.getMultiLock(client.lock(names[0]), cut.lock(names[1]));
    await Promise.all([servers[0]!.kill(), servers[1]!.kill()]);
    for (const wait of [0, 500]) {
      const error = await rejectionOf(multi.acquire({ wait }));
      expect(error).toBeInstanceOf(QuorumError);
      expect(error).toMatchObject({ lockName: names[1] });
    }
    await nothingLeft(nodes, names);
    await own.nothingLeft({ name: names[1] });
  });

  it('are waited for if they are a majority, and nothing is held meanwhile', async () => {
    await using servers = await startMasters(3);
    const own = new RedNodes(servers);
    await using client = await nodes.client(LONG);
    await using cut = await own.client({ ...LONG, commandTimeout: 2_000 });
    const names = twoNames();
    const free = client.lock(names[0]);
    const multi = client.holdfast.getMultiLock(free, cut.lock(names[1]));
    await Promise.all([servers[0]!.kill(), servers[1]!.kill()]);
    // Only one of three masters answers the query: the client knows that the others are gone.
    await eventually(async () => {
      for (const index of [0, 1])
        await expect(cut.members[index]!.getLock('gone').isLocked()).rejects.toThrow(
          /ECONNREFUSED/,
        );
    });
    let waiting: Promise<Hold> | undefined;
    const asked = await countCommands(nodes.urls[0]!, async () => {
      waiting = multi.acquire({ wait: 25_000 });
      await sleep(500);
    });
    expect(asked['evalsha']).toBeUndefined();
    await free.withLock({ wait: 5_000 }, () => undefined);
    await Promise.all([servers[0]!.start(), servers[1]!.start()]);
    const hold = await waiting!;
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
    await nothingLeft(nodes, names);
    await own.nothingLeft({ name: names[1] });
  });

  it('are waited for as well if the majority is connected and silent', async () => {
    await using client = await nodes.client(LONG);
    await using cut = await nodes.proxied(LONG);
    const names = twoNames();
    const free = client.lock(names[0]);
    const multi = client.holdfast.getMultiLock(free, cut.lock(names[1], { nodeTimeout: 200 }));
    for (const index of [0, 1]) cut.proxies[index]!.blackhole();
    const waiting = multi.acquire({ wait: 25_000 });
    await sleep(700);
    await free.withLock({ wait: 5_000 }, () => undefined);
    for (const proxy of cut.proxies) proxy.heal();
    const hold = await waiting;
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
    await nothingLeft(nodes, names);
  });
});
