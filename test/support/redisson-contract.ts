// What holds between holdfast and Redisson on the same servers, as one suite: each sees, excludes, wakes and outlives the other.
import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest';
import type { Holdfast, HoldfastOptions, Lock } from '../../src/index.js';
import { topologiesUnavailable } from './redis-server.js';
import { endTests } from './redisson-contract-ends.js';
import { waitingTests } from './redisson-contract-waiting.js';
import { SharedServers } from './redisson-topologies.js';
import type { RedissonClient, RedissonLock } from './redisson-lock.js';
import {
  redissonUnavailable,
  startRedisson,
  type Redisson,
  type RedissonOptions,
} from './redisson.js';
import { uniqueName } from './unique-name.js';

/** What the tests of the suite share. Only messages wake anybody: all leases are a minute long. */
export interface RedissonContext {
  readonly servers: SharedServers;
  readonly client: Holdfast;
  readonly redisson: RedissonClient;
  readonly name: string;
  /** The lock of that name, as we see it. */
  readonly ours: Lock;
  /** The same, as Redisson sees it. */
  readonly theirs: RedissonLock;
}

export interface Setting {
  readonly isCluster: boolean;
  /** Only the part that says who wakes whom. */
  readonly isAboutWaiting?: boolean;
  readonly ours?: Partial<HoldfastOptions>;
  readonly theirs?: RedissonOptions;
}

/** Runs the suite. */
export function besideRedisson(where: string, setting: Setting): void {
  const unavailable =
    redissonUnavailable ?? (setting.isCluster ? topologiesUnavailable : undefined);
  if (unavailable !== undefined) console.log(`beside Redisson, ${where}: skipped: ${unavailable}`);

  describe.skipIf(unavailable)(`beside Redisson, ${where}`, () => {
    let servers: SharedServers;
    let java: Redisson;
    let redisson: RedissonClient;
    let context: RedissonContext;
    const current = (): RedissonContext => context;

    beforeAll(async () => {
      servers = await SharedServers.start(setting.isCluster);
      java = startRedisson();
      redisson = await java.connect(servers.nodes, setting.theirs);
    });

    beforeEach(async () => {
      const client = servers.newHoldfast(setting.ours);
      const name = uniqueName();
      const ours = client.getLock(name);
      context = { servers, client, redisson, name, ours, theirs: redisson.getLock(name) };
      await ours.isLocked();
    });

    afterEach(async () => {
      await context.client.close();
    });

    afterAll(async () => {
      await java.kill();
      await servers[Symbol.asyncDispose]();
    });

    waitingTests(current, setting);
    if (!setting.isAboutWaiting) endTests(current);
  });
}
