// Contended MultiLocks leave nothing: no key, no subscription, no listener, no timer.
import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import { activeTimers } from '../../support/leftovers.js';
import { eventually } from '../../support/time.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { nameToken, uniqueName } from '../../support/unique-name.js';

// Callers wait for their own client, which holds the lock outside any run.
expectWarnings(/^lock ".*" has been waited for /);

const CYCLES = 1_000;
const CALLERS = 20;

const redis = sharedConnection();

/** Three of the names at a time, the middle one fair. */
function multiOf(client: Holdfast, names: readonly string[], cycle: number): Lock {
  const [a, b, c] = [0, 1, 3].map((step) => names[(cycle + step) % names.length]!);
  return client.getMultiLock(client.getLock(a!), client.getFairLock(b!), client.getLock(c!));
}

it(`${CYCLES} contended cycles leave no key, no subscription, no listener and no timer`, async () => {
  const clients = [newClient({ lockWatchdogTimeout: 30_000, commandTimeout: 20_000 })];
  clients.push(newClient({ lockWatchdogTimeout: 30_000, commandTimeout: 20_000 }));
  const names = Array.from({ length: 30 }, () => uniqueName());
  await Promise.all(clients.map((client) => client.getLock(uniqueName()).isLocked()));
  const { signal } = new AbortController();
  const timersBefore = new Set(activeTimers().keys());
  let cycle = 0;
  const outcomes = { held: 0, 'given up': 0 };
  const caller = async (client: Holdfast): Promise<void> => {
    while (cycle < CYCLES) {
      const lock = multiOf(client, names, cycle++);
      const hold = await lock.tryAcquire({ wait: cycle % 10 === 0 ? 0 : 20_000, signal });
      outcomes[hold ? 'held' : 'given up']++;
      await hold?.release();
    }
  };
  await Promise.all(
    Array.from({ length: CALLERS }, (_, index) => caller(clients[index % clients.length]!)),
  );
  expect(outcomes.held).toBeGreaterThan(CYCLES / 2);
  expect(outcomes['given up']).toBeGreaterThan(0);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  await eventually(async () => {
    expect(await redis.keys(`*${nameToken}*`)).toEqual([]);
    expect(await redis.pubsub('CHANNELS', `*${nameToken}*`)).toEqual([]);
    const timers = [...activeTimers()].filter(([timer]) => !timersBefore.has(timer));
    expect(timers.filter(([, origin]) => !isOfConnections(origin))).toEqual([]);
  });
  await Promise.all(clients.map((client) => client.close()));
  // 10 s on an idle machine, 35 s where every core has seven processes to run.
}, 180_000);

/** Open connections check themselves by timers. */
function isOfConnections(origin: string): boolean {
  return /ioredis|\/src\/redis\//.test(origin);
}
