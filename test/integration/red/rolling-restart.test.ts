// Masters restarted empty, one after another, under a holder and many contenders: the holder keeps the lock, and no contender gets it.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { eventually } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { RedNodes } from '../../support/red-nodes.js';
import { RedOracle } from '../../support/red-oracle.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

/** Shorter than the lease, so that contenders soon vote on masters that are back: only repairs keep them out. */
const GUARD = { restartGuard: 1_500, nodeTimeout: 1_000 } as const;

/** So long that a machine that is busy for a second or two does not end it. */
const LEASE_MS = 4_500;

it('a quorum that decays as nodes restart one by one is restored by repairs, and 20 contenders wait', async () => {
  await using servers = await startMasters(5);
  const nodes = new RedNodes(servers);
  const options = { lockWatchdogTimeout: LEASE_MS };
  await using holder = await nodes.client(options);
  await using one = await nodes.client(options);
  await using two = await nodes.client(options);
  await using three = await nodes.client(options);
  const name = uniqueName();
  const oracle = new RedOracle();
  const hold = await holder.lock(name, { restartGuard: false }).acquire();
  const startedAtMs = performance.now();
  const end = oracle.begin('holder', hold);
  const contenders = Array.from({ length: 20 }, async (_, index) => {
    const lock = [one, two, three][index % 3]!.lock(name, GUARD);
    const own = await lock.acquire();
    const over = oracle.begin(`contender ${index}`, own);
    await sleep(2);
    over();
    await own.release();
  });
  for (const [index, server] of servers.entries()) {
    await server.kill();
    await server.start();
    await sleep(2_000);
    oracle.look();
    expect(hold.signal.reason).toBeUndefined();
    // The next one only when this one counts again: a minority is down at any time.
    await eventually(async () => {
      expect((await nodes.owners({ name }))[index]).toBe(hold.ownerId);
    });
  }
  expect(performance.now() - startedAtMs).toBeGreaterThan(2 * LEASE_MS);
  expect(oracle.begun).toBe(1);
  await eventually(async () => {
    expect(await nodes.owners({ name })).toEqual(Array(5).fill(hold.ownerId));
  });
  end();
  await hold.release();
  await Promise.all(contenders);
  expect(oracle.begun).toBe(21);
  expect(oracle.overlaps).toEqual([]);
  await nodes.nothingLeft({ name });
}, 60_000);
