// Waiters of several processes acquire the fair lock in the order in which they joined.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Holdfast, type Hold } from '../../../src/index.js';
import { FairLine } from '../../support/fair-line.js';
import {
  endingsOf,
  orderOf,
  startFairProcesses,
  type FairProcesses,
  type ProcessCall,
  type Turn,
} from '../../support/fair-processes.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

const PROCESSES = 8;
const WAITERS_EACH = 16;
const WAITERS = PROCESSES * WAITERS_EACH;
const TIMEOUT_MS = 90_000;

let server: RedisServer;
let redis: Redis;
let processes: FairProcesses;
let holder: Holdfast;
let hold: Hold;
let line: FairLine;
/** One process after the other, again and again. */
let calls: ProcessCall[];

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  processes = await startFairProcesses(PROCESSES, server.url);
  calls = Array.from({ length: WAITERS }, (_, index) => ({
    process: processes.all[index % PROCESSES]!,
    label: String(index),
  }));
}, TIMEOUT_MS);

afterAll(async () => {
  await processes[Symbol.asyncDispose]();
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(async () => {
  line = new FairLine(redis);
  holder = new Holdfast({ redis: server.url });
  hold = await line.lockOf(holder).acquire();
});

afterEach(async () => {
  await line.isGone();
  await holder.close();
});

it(
  `${WAITERS} waiters of ${PROCESSES} processes acquire the lock in the order in which they joined`,
  async () => {
    await joinOneAfterAnother();
    await hold.release();
    expect(orderOf(await turnsOf(calls))).toEqual(labels(calls));
  },
  TIMEOUT_MS,
);

it(
  'waiters that join at the same time acquire the lock in the order of their tickets',
  async () => {
    for (const { process, label } of calls) process.call(line, label, { holdMs: 1 });
    await line.hasLength(WAITERS);
    const owners = await line.owners();
    await hold.release();
    const turns = await turnsOf(calls);
    const labelOfOwner = new Map(turns.map(({ ownerId, label }) => [ownerId, label]));
    expect(orderOf(turns)).toEqual(owners.map((owner) => labelOfOwner.get(owner)));
  },
  TIMEOUT_MS,
);

it(
  'when every third waiter aborts during the turns, the others acquire the lock in order',
  async () => {
    await joinOneAfterAnother();
    await hold.release();
    for (const { process, label } of leaving().reverse()) {
      process.abort(label);
      await sleep(1);
    }
    const endings = await endingsOf(calls);
    // A waiter whose turn came before its abort has had the lock as well.
    const served = calls.filter((_, index) => typeof endings[index] !== 'string');
    expect(orderOf(endings.filter((ending) => typeof ending !== 'string'))).toEqual(labels(served));
    expect(served).toEqual(expect.arrayContaining(staying()));
    expect(served.length).toBeLessThan(WAITERS);
  },
  TIMEOUT_MS,
);

async function joinOneAfterAnother(): Promise<void> {
  for (const { process, label } of calls) await process.join(line, label, { holdMs: 1 });
}

function leaving(): ProcessCall[] {
  return calls.filter((_, index) => index % 3 === 0);
}

function staying(): ProcessCall[] {
  return calls.filter((_, index) => index % 3 !== 0);
}

function labels(of: readonly ProcessCall[]): string[] {
  return of.map(({ label }) => label);
}

async function turnsOf(of: readonly ProcessCall[]): Promise<Turn[]> {
  const endings = await endingsOf(of);
  const turns = endings.filter((ending) => typeof ending !== 'string');
  expect(turns).toHaveLength(of.length);
  expect(new Set(turns.map(({ code }) => code))).toEqual(new Set([undefined]));
  return turns;
}
