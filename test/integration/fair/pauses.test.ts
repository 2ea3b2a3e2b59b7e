// A process that is suspended while it waits for a fair lock is passed over, and has its turn after it continues.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { eventually, machineMs } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import {
  joinAll,
  orderOf,
  startFairProcesses,
  turnsOneByOne,
  type FairProcesses,
} from '../../support/fair-processes.js';

const LEASE_MS = 3_000;
const TIMEOUT_MS = 60_000;

const redis = sharedConnection();
let line: FairLine;
let holder: Holdfast;
let hold: Hold;

beforeEach(async () => {
  line = new FairLine(redis);
  holder = newClient({ lockWatchdogTimeout: 30_000 });
  hold = await line.lockOf(holder).acquire();
});

afterEach(async () => {
  await line.isGone();
  await holder.close();
});

describe('the first in line', () => {
  it(
    'is suspended when it is given the lock: it is passed over within one lease, and has its turn later',
    async () => {
      await using processes = await startProcesses(3);
      const [first, second, third] = await joinAll(line, processes);
      const [firstOwner, secondOwner, thirdOwner] = await line.owners();

      first!.process.child.pause();
      const pausedAtMs = machineMs();
      await hold.release();
      expect(await line.holder()).toBe(firstOwner); // it is connected, after all
      const acquiredAtMs = await second!.process.acquiredAtMs(second!.label);
      expect(acquiredAtMs - pausedAtMs).toBeLessThan(LEASE_MS + 1_000);

      first!.process.child.resume();
      await eventually(async () => {
        expect(await line.owners()).toEqual([firstOwner, thirdOwner]);
      });
      await sleep(300); // the messages from the suspension have come by now
      expect(await line.holder()).toBe(secondOwner);
      expect(orderOf(await turnsOneByOne([second!, first!, third!]))).toEqual(['1', '0', '2']);
    },
    TIMEOUT_MS,
  );

  it(
    'was suspended for longer than its lease when the lock is released: the next one gets it',
    async () => {
      await using processes = await startProcesses(3);
      const [first, second, third] = await joinAll(line, processes);
      const [firstOwner, secondOwner] = await line.owners();
      first!.process.child.pause();
      await sleep(LEASE_MS + 100);
      await hold.release();
      expect(await line.holder()).toBe(secondOwner);
      first!.process.child.resume();
      await eventually(async () => {
        expect((await line.owners())[0]).toBe(firstOwner);
      });
      expect(orderOf(await turnsOneByOne([second!, first!, third!]))).toEqual(['1', '0', '2']);
    },
    TIMEOUT_MS,
  );
});

describe('a grant to a suspended process', () => {
  it.each([LEASE_MS / 3, 2 * LEASE_MS])(
    'for %i ms: never do two callers believe that they hold the lock, and all get their turn',
    async (pausedMs) => {
      await using processes = await startProcesses(2);
      const [paused, next] = processes.all;
      await paused.join(line, 'paused', { holdMs: 200 });
      await next.join(line, 'next', { holdMs: LEASE_MS });
      await sleep(Math.random() * LEASE_MS);
      paused.child.pause();
      await hold.release();
      await sleep(pausedMs);
      paused.child.resume();
      const turns = [await paused.turn('paused'), await next.turn('next')];
      const order = pausedMs > LEASE_MS ? ['next', 'paused'] : ['paused', 'next'];
      expect(orderOf(turns)).toEqual(order);
    },
    TIMEOUT_MS,
  );
});

function startProcesses(count: number): Promise<FairProcesses> {
  return startFairProcesses(count, inject('redisUrl'), { lockWatchdogTimeout: LEASE_MS });
}
