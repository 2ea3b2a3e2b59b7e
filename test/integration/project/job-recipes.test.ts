// The recipes for job queues: one job of a customer at a time, or some; none is lost to a busy customer, or to an outage of the locks' Redis.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectionOptions, Queue, type Worker } from 'bullmq';
import { Logger, makeWorkerUtils, run, type Runner, type Task } from 'graphile-worker';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { customerWorker, groupWorker } from '../../recipes/bullmq.js';
import { perCustomer } from '../../recipes/graphile-worker.js';
import { type Child, startChild } from '../../support/child.js';

/** Counts the jobs that run at the same time. */
class Jobs {
  done = 0;
  mostOfOne = 0;
  most = 0;
  readonly #running = new Map<string, number>();

  readonly run = async (customer: string): Promise<void> => {
    const count = (this.#running.get(customer) ?? 0) + 1;
    this.#running.set(customer, count);
    this.mostOfOne = Math.max(this.mostOfOne, count);
    this.most = Math.max(this.most, [...this.#running.values()].filter((n) => n > 0).length);
    await sleep(50);
    this.#running.set(customer, this.#running.get(customer)! - 1);
    this.done++;
  };
}

/** Runs `test` with a queue of its own, and the worker that is made of it. */
async function withQueue(
  makeWorker: (name: string, connection: ConnectionOptions) => Worker,
  test: (queue: Queue<{ customer: string }>) => Promise<void>,
): Promise<void> {
  const { hostname: host, port } = new URL(inject('redisUrl'));
  const connection = { host, port: Number(port) };
  const name = randomUUID();
  const queue = new Queue<{ customer: string }>(name, { connection });
  const worker = makeWorker(name, connection);
  try {
    await worker.waitUntilReady();
    await test(queue);
  } finally {
    await worker.close();
    await queue.obliterate({ force: true });
    await queue.close();
  }
}

describe('the BullMQ recipe for groups', () => {
  it('runs up to two jobs of a customer at a time', async () => {
    await using holdfast = new Holdfast({ redis: new MemoryRedis() });
    const jobs = new Jobs();
    const worker = (name: string, connection: ConnectionOptions): Worker =>
      groupWorker(holdfast, name, connection, 2, ({ data }) => jobs.run(data.customer));
    await withQueue(worker, async (queue) => {
      const customers = ['x', 'y'].flatMap((customer) => Array<string>(6).fill(customer));
      await queue.addBulk(customers.map((customer) => ({ name: 'job', data: { customer } })));
      await expect.poll(() => jobs.done, { timeout: 20_000 }).toBe(12);
    });
    expect(jobs.mostOfOne).toBe(2);
  });
});

describe('the BullMQ recipe, while the Redis of the locks is down', () => {
  it('puts jobs back until Redis is up, and counts no failed attempt', async () => {
    const redis = new MemoryRedis();
    redis.down();
    await using holdfast = new Holdfast({ redis });
    holdfast.on('error', () => undefined);
    const jobs = new Jobs();
    const worker = (name: string, connection: ConnectionOptions): Worker =>
      customerWorker(holdfast, name, connection, ({ data }) => jobs.run(data.customer));
    await withQueue(worker, async (queue) => {
      await queue.add('job', { customer: 'x' });
      await expect.poll(() => queue.getDelayedCount()).toBe(1);
      expect(jobs.done).toBe(0);
      redis.up();
      await expect.poll(() => jobs.done).toBe(1);
      expect(await queue.getFailedCount()).toBe(0);
    });
  });
});

describe('the recipe for graphile-worker', () => {
  let postgres: Child;
  const options = {
    connectionString: '',
    noPreparedStatements: true, // all connections to PGlite share one session, and so their names
    logger: new Logger(() => () => undefined),
  };

  beforeAll(async () => {
    postgres = startChild('postgres.ts');
    options.connectionString = String((await postgres.next('ready', 120_000))['url']);
    const utils = await makeWorkerUtils(options);
    await utils.migrate();
    await utils.release();
  }, 180_000);
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]();
  });

  /** Runs `test` while workers do the task `job`. */
  async function withWorkers(tasks: readonly Task[], test: () => Promise<void>): Promise<void> {
    const runners: Runner[] = [];
    try {
      for (const job of tasks) {
        const settings = { concurrency: 4, pollInterval: 100, noHandleSignals: true };
        const taskList = { job };
        runners.push(await run({ ...options, ...settings, taskList, parsedCronItems: [] }));
      }
      await test();
    } finally {
      await Promise.all(runners.map((runner) => runner.stop()));
    }
  }

  async function sql(text: string): Promise<unknown> {
    postgres.send({ type: 'sql', text });
    return (await postgres.next('rows'))['rows'];
  }
  const add = (customer: string, maxAttempts = 25): Promise<unknown> =>
    sql(
      `select graphile_worker.add_job('job', '{"customer":"${customer}"}', max_attempts := ${maxAttempts})`,
    );
  const left = (): Promise<unknown> => sql('select id from graphile_worker._private_jobs');

  it('runs the jobs of one customer one at a time, and those of others meanwhile', async () => {
    const redis = new MemoryRedis();
    await using one = new Holdfast({ redis });
    await using other = new Holdfast({ redis });
    const jobs = new Jobs();
    const tasks = [one, other].map((holdfast) => perCustomer(holdfast, jobs.run));
    await withWorkers(tasks, async () => {
      for (const customer of ['x', 'y', 'x', 'y', 'x', 'y']) await add(customer);
      await expect.poll(() => jobs.done).toBe(6);
      await expect.poll(left).toEqual([]);
    });
    expect(jobs.mostOfOne).toBe(1);
  });

  it('puts a job back until Redis is up, with the attempts that it has left', async () => {
    const redis = new MemoryRedis();
    redis.down();
    await using holdfast = new Holdfast({ redis });
    holdfast.on('error', () => undefined);
    const jobs = new Jobs();
    await withWorkers([perCustomer(holdfast, jobs.run)], async () => {
      await add('x', 1);
      const putBack = `select max_attempts, attempts from graphile_worker._private_jobs
        where run_at > created_at + interval '100 ms' and attempts = 0`;
      await expect.poll(() => sql(putBack)).toEqual([{ max_attempts: 1, attempts: 0 }]);
      expect(jobs.done).toBe(0);
      redis.up();
      await expect.poll(() => jobs.done).toBe(1);
      await expect.poll(left).toEqual([]);
    });
  });

  it("leaves the job's own error to graphile-worker", async () => {
    await using holdfast = new Holdfast({ redis: new MemoryRedis() });
    const task = perCustomer(holdfast, () => Promise.reject(new Error('no such customer')));
    await withWorkers([task], async () => {
      await add('x', 1);
      const failed = 'select last_error from graphile_worker._private_jobs';
      await expect
        .poll(() => sql(failed))
        .toEqual([{ last_error: expect.stringContaining('no such customer') as string }]);
      await sql('delete from graphile_worker._private_jobs');
    });
  });
});
