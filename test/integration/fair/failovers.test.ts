// A failover under the line of a fair lock: a waiter that still listens at the former master is passed over, ignores its messages, and
// follows its commands to the new master.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { connectedClient } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import { loadScripts } from '../../support/lock-commands.js';
import { subscribersAt } from '../../support/recorded-commands.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startPair, type Pair } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';

/** Clients would find out by renewals only after 20 s. */
const LEASE_MS = 60_000;
const SOON_MS = 5_000;

describe.skipIf(topologiesUnavailable)('a first waiter that listens at the former master', () => {
  let pair: Pair;
  let redis: Redis;
  let newMaster: Redis;
  /** Connects to the master of the moment, as a name or a load balancer would. */
  let ofFirst: TcpProxy;
  let ofOthers: TcpProxy;
  let holder: Holdfast;
  let first: Holdfast;
  let second: Holdfast;
  let line: FairLine;
  let hold: Hold;

  beforeEach(async () => {
    pair = await startPair();
    await loadScripts(pair.master.url);
    [redis, newMaster] = [new Redis(pair.master.url), new Redis(pair.replica.url)];
    [ofFirst, ofOthers] = [await startProxy(pair.master.port), await startProxy(pair.master.port)];
    const options = { lockWatchdogTimeout: LEASE_MS, commandTimeout: 10_000 };
    const connect = ({ url }: TcpProxy): Promise<Holdfast> =>
      connectedClient({ ...options, redis: url });
    [holder, first, second] = [
      await connect(ofOthers),
      await connect(ofFirst),
      await connect(ofOthers),
    ];
    line = new FairLine(redis);
    hold = await line.lockOf(holder).acquire();
  }, 60_000);

  afterEach(async () => {
    await Promise.all([holder, first, second].map((client) => client.close()));
    await Promise.all([ofFirst, ofOthers].map((proxy) => proxy[Symbol.asyncDispose]()));
    for (const connection of [redis, newMaster]) connection.disconnect();
    await pair[Symbol.asyncDispose]();
  });

  /** The other clients reach the new master at once; the connections of the first stay where they are. */
  async function failover(how: 'REPLICAOF' | 'FAILOVER'): Promise<void> {
    await pair.swap(how);
    await loadScripts(pair.replica.url);
    for (const proxy of [ofFirst, ofOthers]) proxy.retarget(pair.replica.port);
    ofOthers.cut();
    await eventually(() => holder.getLock('connected').isLocked());
    await listening(1);
  }

  /** Waits until `count` clients listen for their grants at the new master. */
  async function listening(count: number): Promise<void> {
    await eventually(async () => {
      const channels = await newMaster.pubsub('CHANNELS', `holdfast_grants:{${line.name}}*`);
      expect(channels).toHaveLength(count);
    }, SOON_MS);
  }

  it('stays at the new master when its subscription gets there before its commands', async () => {
    const one = await line.joinAndStay(first, 'first');
    await pair.swap('REPLICAOF');
    await loadScripts(pair.replica.url);
    for (const proxy of [ofFirst, ofOthers]) proxy.retarget(pair.replica.port);
    await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await listening(1);
    const before = await subscribersAt(newMaster);
    ofOthers.cut();
    await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    for (const client of [holder, first])
      await eventually(() => client.getLock('connected').isLocked());
    await sleep(1_500); // also for later messages
    expect(await subscribersAt(newMaster)).toEqual(before);
    await hold.release();
    await line.hasTurn('first');
    await one.end();
  });

  it('follows its commands to the new master when only its subscription is moved once more', async () => {
    const one = await line.joinAndStay(first, 'first');
    await eventually(async () => {
      expect(await newMaster.exists(...line.keys)).toBe(line.keys.length);
    });
    await newMaster.replicaof('NO', 'ONE'); // and the former master continues as if nothing had happened
    await loadScripts(pair.replica.url);
    for (const proxy of [ofFirst, ofOthers]) {
      proxy.retarget(pair.replica.port);
      proxy.cut();
    }
    await listening(1);
    for (const client of [holder, first])
      await eventually(() => client.getLock('connected').isLocked());
    ofFirst.retarget(pair.master.port);
    await newMaster.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually(async () => {
      expect(await redis.pubsub('CHANNELS', `holdfast_grants:{${line.name}}*`)).toHaveLength(1);
    }, SOON_MS);
    ofFirst.retarget(pair.replica.port);
    await listening(1);
    await hold.release();
    await line.hasTurn('first');
    await one.end();
  });

  describe.each(['REPLICAOF', 'FAILOVER'] as const)('after a switch by %s', (how) => {
    it('is passed over: the second in line acquires the lock alone', async () => {
      const one = await line.joinAndStay(first, 'first');
      const two = await line.joinAndStay(second, 'second');
      await failover(how);
      await hold.release();
      await line.hasTurn('second');
      await sleep(500);
      expect(line.turns).toEqual(['second']);
      await Promise.all([two.end(), one.end()]);
    });

    it('hears its grant at the new master as soon as one of its commands is refused at the old one', async () => {
      const one = await line.joinAndStay(first, 'first');
      const two = await line.joinAndStay(second, 'second');
      await failover(how);
      await first.getLock('other').withLock(() => undefined);
      await listening(2);
      await hold.release();
      const releasedAt = performance.now();
      await line.hasTurn('first');
      expect(performance.now() - releasedAt).toBeLessThan(SOON_MS);
      await Promise.all([one.end(), two.end()]);
      expect(line.turns).toEqual(['first', 'second']);
    });
  });
});
