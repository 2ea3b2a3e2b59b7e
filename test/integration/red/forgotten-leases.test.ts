// Part 8, crash recovery: a master that restarted empty forgot a lease that is longer than any its asker knows of. The other
// masters remember it.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { QuorumError, type Hold } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { RedNodes, type RedClient } from '../../support/red-nodes.js';
import { RedOracle } from '../../support/red-oracle.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** Far longer than any lease that the contender knows of, and than the masters have been up. */
const LEASE_MS = 8_000;

/** Whose longest lease, and so whose guard, is far shorter than that. */
const SHORT = { lockWatchdogTimeout: 1_000, commandTimeout: 2_000 };

interface Stage {
  readonly nodes: RedNodes;
  /** Between the holder and each master. */
  readonly proxies: readonly TcpProxy[];
  readonly holder: RedClient;
  readonly contender: RedClient;
}

/** Five masters who may all vote, as far as the contender knows. */
async function onStage(
  play: (stage: Stage) => Promise<void>,
  watchdogMs = SHORT.lockWatchdogTimeout,
): Promise<void> {
  await using servers = await startMasters(5);
  const nodes = new RedNodes(servers);
  const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)));
  const urls = proxies.map(({ url }) => url);
  try {
    await using holder = await nodes.client({ ...SHORT, lockWatchdogTimeout: watchdogMs }, urls);
    await using contender = await nodes.client(SHORT);
    await sleep(2_500);
    await play({ nodes, proxies, holder, contender });
  } finally {
    await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
  }
}

/** The holder can be reached by nobody any more, and one of its masters comes back empty. */
async function cutOffAndRestart(
  { nodes, proxies, contender }: Stage,
  index: number,
): Promise<void> {
  for (const proxy of proxies) proxy.blackhole();
  await nodes.servers[index]!.kill();
  await nodes.servers[index]!.start();
  await eventually(() => contender.members[index]!.getLock('connected').isLocked());
}

/** Gets the lock after all, but not while the holder could rely on it. */
async function getsItAfter(hold: Hold, { contender }: Stage, name: string): Promise<void> {
  const oracle = new RedOracle();
  oracle.begin('holder', hold);
  const wanted = contender.lock(name, { restartGuard: undefined });
  const other = await wanted.acquire({ wait: 40_000 });
  oracle.begin('contender', other);
  expect(oracle.overlaps).toEqual([]);
  expect(hold.remaining()).toBe(0);
  await other.release();
}

describe('a master that restarted empty while its holder was cut off does not let another in', () => {
  it('when the masters that did not vote for the holder had been asked, too', async () => {
    await onStage(async (stage) => {
      const lock = stage.holder.lock(uniqueName());
      await stage.nodes.holdBy('somebody:1', lock, [3, 4]);
      const hold = await lock.acquire({ lease: LEASE_MS });
      await stage.nodes.remove(lock, [3, 4]);
      await cutOffAndRestart(stage, 2);
      await getsItAfter(hold, stage, lock.name);
    });
  });

  it('when the holder could not reach those', async () => {
    await onStage(async (stage) => {
      const lock = stage.holder.lock(uniqueName());
      for (const index of [3, 4]) stage.proxies[index]!.blackhole();
      const hold = await lock.acquire({ lease: LEASE_MS });
      await cutOffAndRestart(stage, 2);
      await getsItAfter(hold, stage, lock.name);
    });
  });

  it('when it had extended its lease', async () => {
    await onStage(async (stage) => {
      const lock = stage.holder.lock(uniqueName());
      await stage.nodes.holdBy('somebody:1', lock, [3, 4]);
      const hold = await lock.acquire({ lease: 2_000 });
      await hold.extend(LEASE_MS);
      await stage.nodes.remove(lock, [3, 4]);
      await cutOffAndRestart(stage, 2);
      await getsItAfter(hold, stage, lock.name);
    });
  });

  it('when its watchdog had renewed it, by more than others use', async () => {
    await onStage(async (stage) => {
      const lock = stage.holder.lock(uniqueName());
      await stage.nodes.holdBy('somebody:1', lock, [3, 4]);
      const hold = await lock.acquire();
      await sleep(LEASE_MS * 1.4); // what it asked for first is over
      await stage.nodes.remove(lock, [3, 4]);
      await cutOffAndRestart(stage, 2);
      await getsItAfter(hold, stage, lock.name);
    }, LEASE_MS);
  });
}, 60_000);

it('a master that restarted does not make up for those that cannot be asked, though nobody else knows of a lock', async () => {
  await onStage(async (stage) => {
    const { nodes, proxies, holder } = stage;
    // 3 and 4 seem to have been up for long: nobody can wait for that in a test.
    const others = await Promise.all(nodes.servers.map(({ port }) => startProxy(port)));
    for (const index of [3, 4]) makeOld(others[index]!);
    const urls = others.map(({ url }, index) => (index === 2 ? nodes.urls[2]! : url));
    await using other = await nodes.client(SHORT, urls);
    const lock = holder.lock(uniqueName());
    for (const index of [3, 4]) proxies[index]!.blackhole();
    const hold = await lock.acquire({ lease: LEASE_MS });
    for (const index of [0, 1]) others[index]!.refuse();
    for (const index of [0, 1]) others[index]!.cut();
    await cutOffAndRestart({ ...stage, contender: other }, 2);

    const wanted = other.lock(lock.name, { restartGuard: undefined });
    const error = await rejectionOf(wanted.acquire({ wait: Math.round(hold.remaining()) + 500 }));
    expect(hold.remaining()).toBe(0);
    expect(error).toBeInstanceOf(QuorumError);
    const { nodes: answers, message } = error as QuorumError;
    expect(answers.map(({ answer }) => answer)).toEqual([
      'unreachable',
      'unreachable',
      'guarded',
      'acquired',
      'acquired',
    ]);
    expect(answers[2]).toMatchObject({ waitsForOthers: true });
    expect(message).toMatch(
      /votes in \d+\.\d s, or when those answer that may know what it forgot/,
    );

    for (const index of [0, 1]) await others[index]!.accept();
    await using own = await wanted.acquire({ wait: 20_000 });
    expect(own.remaining()).toBeGreaterThan(0);
    await Promise.all(others.map((proxy) => proxy[Symbol.asyncDispose]()));
  });
}, 60_000);

it('masters that may not be asked for their age do not count as a majority that restarted, though all connections are young', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  const denied = ['on', 'nopass', '~*', '&*', '+@all', '-info'] as const;
  const makeUser = (): Promise<unknown> =>
    nodes.ask((redis) => redis.acl('SETUSER', 'unaware', ...denied));
  await makeUser();
  const unawareUrls = nodes.urls.map((url) => url.replace('redis://', 'redis://unaware:any@'));
  await using aware = await nodes.client(SHORT);
  await using unaware = await nodes.client(SHORT, unawareUrls);
  await sleep(2_500); // longer than the guard of both
  await servers[2]!.kill();
  const name = uniqueName();
  const options = { restartGuard: undefined };
  const error = await rejectionOf(unaware.lock(name, options).tryLock());
  expect(error).toBeInstanceOf(QuorumError);
  const guarded = { answer: 'guarded', waitsForOthers: true };
  expect((error as QuorumError).nodes).toMatchObject([guarded, guarded, { answer: 'unreachable' }]);
  // Who may ask learns that they are new indeed.
  await aware.lock(name, options).withLock(() => undefined);
  await servers[2]!.start();
  await makeUser();
  await unaware.lock(name, options).withLock({ wait: 20_000 }, () => undefined);
});

/** Whoever connects by this proxy is told that the server has been up for a year. */
function makeOld(proxy: TcpProxy): void {
  for (let upS = 0; upS < 100; upS++) {
    const told = `uptime_in_seconds:${upS}\r\nuptime_in_days:0`;
    const name = 'uptime_in_seconds:';
    proxy.rewrite(told, name + '31536000'.padStart(told.length - name.length, '0'));
  }
}
