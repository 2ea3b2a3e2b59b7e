// A fair lock under everything at once: processes that are stopped and killed, connections that are lost, calls that
// give up. One at a time, and all who wait on get their turn.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { FairLine } from '../../support/fair-line.js';
import {
  endingsOf,
  orderOf,
  startFairProcesses,
  type FairProcess,
  type ProcessCall,
} from '../../support/fair-processes.js';
import { startRedis } from '../../support/redis-server.js';

const LEASE_MS = 1_500;
const CHAOS_MS = 8_000;

it('a line of five processes in turmoil is served, one at a time', async () => {
  await using server = await startRedis();
  const redis = new Redis(server.url);
  await using processes = await startFairProcesses(5, server.url, {
    lockWatchdogTimeout: LEASE_MS,
    commandTimeout: 10_000,
  });
  const line = new FairLine(redis);
  const patient: ProcessCall[] = [];
  const impatient: ProcessCall[] = [];
  const victim = processes.all[4];
  const alive = [...processes.all];
  const endMs = performance.now() + CHAOS_MS;
  let count = 0;

  const calling = async (process: FairProcess): Promise<void> => {
    while (performance.now() < endMs && alive.includes(process)) {
      const call = { process, label: String(count++) };
      const holdMs = random(10);
      if (random(3) < 1) {
        impatient.push(call);
        process.call(line, call.label, {
          holdMs,
          wait: 1 + random(500),
          lease: 50 + random(1_000),
        });
      } else {
        patient.push(call);
        process.call(line, call.label, { holdMs });
      }
      await sleep(random(150));
    }
  };
  const disturbing = async (): Promise<void> => {
    while (performance.now() < endMs) {
      await sleep(random(600));
      const process = alive[Math.floor(random(alive.length))]!;
      const kind = Math.floor(random(4));
      if (kind < 2) await redis.call('CLIENT', 'KILL', 'TYPE', kind === 0 ? 'normal' : 'pubsub');
      else {
        process.child.pause();
        await sleep(random(kind === 2 ? 300 : 2 * LEASE_MS));
        process.child.resume();
      }
    }
  };
  const killing = sleep(CHAOS_MS / 2).then(() => {
    alive.pop();
    return victim.child.kill();
  });
  await Promise.all([...processes.all.map(calling), disturbing(), killing]);

  const left = (calls: ProcessCall[]): ProcessCall[] =>
    calls.filter(({ process }) => process !== victim);
  const endings = await endingsOf(left([...patient, ...impatient]));
  const turns = endings.filter((ending) => typeof ending !== 'string');
  expect(orderOf(turns).length).toBeGreaterThan(0);
  const patientEndings = endings.slice(0, left(patient).length);
  expect(patientEndings.filter((ending) => typeof ending === 'string')).toEqual([]);
  await line.isGone();
  redis.disconnect();
}, 120_000);

function random(below: number): number {
  return Math.random() * below;
}
