// The ticks of real schedulers: croner, node-cron, the schedule of NestJS (the package cron), and timers.
import { Cron as NestCron, ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { Cron } from 'croner';
import cron, { type RunCoordinator, type TaskContext } from 'node-cron';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { cronerTick, onePerTick, runCoordinator } from '../../../src/adapters/cron.js';
import { Holdfast, UnavailableError } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { sharedConnection } from '../../support/clients.js';
import { deleteLeftoverKeys } from '../../support/leftovers.js';
import { Occupancy } from '../../support/occupancy.js';
import { uniqueName } from '../../support/unique-name.js';

const EACH_SECOND = '* * * * * *';

const redis = sharedConnection();

/** As those of three processes. */
let clients: Holdfast[];
let name: string;
/** The ticks that were run, in order. */
let ticks: number[];
let occupancy: Occupancy;

beforeEach(() => {
  clients = [1, 2, 3].map(() => new Holdfast({ redis: inject('redisUrl') }));
  [name, ticks, occupancy] = [uniqueName('ticks'), [], new Occupancy()];
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await deleteLeftoverKeys(redis); // the ticks, which stay taken
});

async function run(tick: Date): Promise<void> {
  ticks.push(tick.getTime());
  await occupancy.inside('', () => sleep(50));
}

async function expectEachOnce(): Promise<void> {
  await expect.poll(() => ticks.length, { timeout: 15_000 }).toBeGreaterThanOrEqual(4);
  expect(new Set(ticks).size).toBe(ticks.length);
  for (const tick of ticks) expect(tick % 1_000).toBe(0);
  expect(occupancy.most).toBe(1);
}

describe('croner', () => {
  it('has each tick run by one process', async () => {
    const failed = vi.fn();
    const jobs = clients.map((client) => {
      const onTick = onePerTick(client, name, { tick: cronerTick }, (_hold, tick) => run(tick));
      return new Cron(EACH_SECOND, { catch: failed }, onTick);
    });
    try {
      await expectEachOnce();
      expect(failed).not.toHaveBeenCalled();
    } finally {
      for (const job of jobs) job.stop();
      await expect.poll(() => jobs.some((job) => job.isBusy())).toBe(false);
    }
  });
});

describe('node-cron', () => {
  it('has each tick of a distributed task run by one process, and tells the others', async () => {
    const skipped: TaskContext[] = [];
    const tasks = clients.map((client) => {
      const coordinator: RunCoordinator = runCoordinator(client);
      const options = { name, distributed: true, runCoordinator: coordinator };
      const task = cron.schedule(EACH_SECOND, ({ date }) => run(date), options);
      task.on('execution:skipped', (context) => void skipped.push(context));
      return task;
    });
    try {
      await expectEachOnce();
      expect(skipped.length).toBeGreaterThanOrEqual(ticks.length);
      expect(new Set(skipped.map(({ reason }) => reason))).toEqual(new Set(['not-elected']));
    } finally {
      for (const task of tasks) await task.destroy();
      await expect.poll(() => occupancy.now).toBe(0);
    }
  });

  it('runs no distributed task while Redis is down, and tells why', async () => {
    const server = new MemoryRedis();
    await using client = new Holdfast({ redis: server });
    client.on('error', () => undefined);
    await client.getLock(name).isLocked();
    server.down();
    const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn(), debug: vi.fn() };
    cron.setRunCoordinator(runCoordinator(client));
    const task = cron.schedule(EACH_SECOND, ({ date }) => run(date), {
      name,
      distributed: true,
      logger,
    });
    const skipped: TaskContext[] = [];
    task.on('execution:skipped', (context) => void skipped.push(context));
    try {
      await expect.poll(() => skipped.length, { timeout: 15_000 }).toBeGreaterThan(0);
      expect(skipped[0]!.reason).toBe('coordinator-error');
      expect(logger.error.mock.calls[0]![1]).toBeInstanceOf(UnavailableError);
      expect(ticks).toEqual([]);
    } finally {
      cron.setRunCoordinator(undefined);
      await task.destroy();
      server.up();
    }
  });

  it('has each tick run by one process under a lock', async () => {
    const tasks = clients.map((client) =>
      cron.schedule(
        EACH_SECOND,
        onePerTick(client, name, { tick: ({ date }: TaskContext) => date }, (_hold, tick) =>
          run(tick),
        ),
      ),
    );
    try {
      await expectEachOnce();
    } finally {
      for (const task of tasks) await task.destroy();
      await expect.poll(() => tasks.some((task) => task.isBusy())).toBe(false);
    }
  });
});

describe('the schedule of NestJS', () => {
  it('has one process run a job while its lock stays taken', async () => {
    const onSkip = vi.fn();
    const apps = clients.map(async (client) => {
      class Jobs {
        readonly #onTick = onePerTick(client, name, { lockAtLeastFor: 60_000, onSkip }, () =>
          run(new Date(0)),
        );

        async nightly(): Promise<void> {
          await this.#onTick();
        }
      }
      const { prototype } = Jobs;
      const descriptor = Object.getOwnPropertyDescriptor(prototype, 'nightly')!;
      NestCron(EACH_SECOND)(prototype, 'nightly', descriptor);
      const module = { imports: [ScheduleModule.forRoot()], providers: [Jobs] };
      return await (await Test.createTestingModule(module).compile()).init();
    });
    try {
      await expect.poll(() => onSkip.mock.calls.length, { timeout: 15_000 }).toBeGreaterThan(4);
      expect(ticks).toHaveLength(1);
    } finally {
      for (const app of await Promise.all(apps)) await app.close();
      await expect.poll(() => occupancy.now).toBe(0);
    }
  });
});

describe('timers', () => {
  it('that fire in all processes have one of them run, while its lock stays taken', async () => {
    const onSkip = vi.fn();
    const timers = clients.map((client) => {
      const onTick = onePerTick(client, name, { lockAtLeastFor: 60_000, onSkip }, () =>
        run(new Date(0)),
      );
      return setInterval(() => void onTick(), 50);
    });
    try {
      await expect.poll(() => onSkip.mock.calls.length, { timeout: 15_000 }).toBeGreaterThan(20);
      expect(ticks).toHaveLength(1);
    } finally {
      timers.forEach(clearInterval);
      await sleep(200);
    }
  });
});
