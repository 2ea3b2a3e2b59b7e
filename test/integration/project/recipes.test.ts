// The README's recipes do what they say, with the real Express, croner and BullMQ.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, UnrecoverableError } from 'bullmq';
import { Redis } from 'ioredis';
import { describe, expect, inject, it, vi } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { customerWorker } from '../../recipes/bullmq.js';
import { runSchedule } from '../../recipes/cron-leader.js';
import { bank } from '../../recipes/express.js';
import { newClient, nextEvent } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

describe('the Express recipe', () => {
  it('runs the transfers of one account one after another, in all processes', async () => {
    const keyPrefix = `${uniqueName('recipe')}:`;
    await using one = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    await using other = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    let balance = 0;
    const transfer = async (): Promise<number> => {
      const before = balance;
      await sleep(10);
      return (balance = before + 1);
    };
    const servers = [one, other].map((holdfast) => bank(holdfast, transfer).listen(0));
    try {
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, i) => post(servers[i % 2]!.address() as AddressInfo)),
      );
      expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
      expect(balance).toBe(10);
    } finally {
      await Promise.all(servers.map((server) => once(server.close(), 'close')));
    }
  });

  it('answers 409 while another request holds the lock for too long', async () => {
    const keyPrefix = `${uniqueName('recipe')}:`;
    await using holdfast = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    await using other = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const server = bank(holdfast, () => Promise.resolve(1)).listen(0);
    try {
      await using hold = await other.getLock('account:7').acquire();
      expect(hold.remaining()).toBeGreaterThan(0);
      const { status, body } = await post(server.address() as AddressInfo);
      expect(status).toBe(409);
      expect(JSON.parse(body)).toEqual({ error: 'another transfer is under way' });
      expect(told.mock.calls.flat().join()).toContain('not acquired within 2000 ms');
    } finally {
      told.mockRestore();
      await once(server.close(), 'close');
    }
  });
});

describe('the Express recipe, when the lock is lost meanwhile', () => {
  it('answers with the balance if the transfer was made nevertheless', async () => {
    const { status, body, told } = await lose(() => Promise.resolve(5));
    expect({ status, body }).toEqual({ status: 200, body: { balance: 5 } });
    expect(told).toContain('made, but perhaps beside another transfer');
  });

  it.each<[string, Transfer]>([
    ['by the reason of its signal', (_, { signal }) => Promise.reject(signal.reason as Error)],
    ['by an AbortError', (_, { signal }) => sleep(10_000, 5, { signal })],
  ])('reports that the outcome of a step that ended %s is unknown', async (_, transfer) => {
    const { status, body, told } = await lose(transfer);
    expect(told).not.toBe('');
    expect(status).toBe(500);
    expect(body).toEqual({ error: 'not known whether it was made: look before you try again' });
  });

  it('does not write after the event loop was blocked for longer than the lease', async () => {
    let isWritten = false;
    const { status } = await answerOf(
      newClient({ keyPrefix: `${uniqueName('recipe')}:` }),
      (_, hold) => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
        hold.assertHeld();
        isWritten = true;
        return Promise.resolve(5);
      },
    );
    expect({ status, isWritten }).toEqual({ status: 500, isWritten: false });
  });

  type Transfer = Parameters<typeof bank>[1];

  /** The answer to a transfer that continues without its lock. */
  async function lose(transfer: Transfer): ReturnType<typeof answerOf> {
    const holdfast = newClient({ keyPrefix: `${uniqueName('recipe')}:` });
    return await answerOf(holdfast, async (account, hold) => {
      await holdfast.getLock(`account:${account}`).forceUnlock();
      return await transfer(account, hold);
    });
  }

  async function answerOf(
    client: Holdfast,
    transfer: Transfer,
  ): Promise<{ status: number; body: unknown; told: string }> {
    await using holdfast = client;
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const server = bank(holdfast, transfer).listen(0);
    try {
      const { status, body } = await post(server.address() as AddressInfo);
      return { status, body: JSON.parse(body) as unknown, told: told.mock.calls.flat().join() };
    } finally {
      told.mockRestore();
      await once(server.close(), 'close');
    }
  }
});

describe('the cron recipe', () => {
  it('runs the schedule in one process, and in another when that one stops', async () => {
    const keyPrefix = `${uniqueName('recipe')}:`;
    const ticks: string[] = [];
    const processes = ['a', 'b', 'c'].map((name) => {
      const holdfast = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
      const stop = new AbortController();
      const task = (): Promise<void> => Promise.resolve(void ticks.push(name));
      return {
        name,
        holdfast,
        stop,
        done: runSchedule(holdfast, '* * * * * *', task, stop.signal),
      };
    });
    try {
      await expect.poll(() => ticks.length).toBeGreaterThanOrEqual(2);
      const leader = ticks[0]!;
      expect(new Set(ticks)).toEqual(new Set([leader]));
      const first = processes.find(({ name }) => name === leader)!;
      first.stop.abort();
      await first.done;
      const before = ticks.length;
      await expect.poll(() => ticks.length).toBeGreaterThan(before + 1);
      const later = new Set(ticks.slice(before));
      expect(later.size).toBe(1);
      expect(later.has(leader)).toBe(false);
    } finally {
      for (const { stop } of processes) stop.abort();
      await Promise.all(processes.map(({ done }) => done));
      await Promise.all(processes.map(({ holdfast }) => holdfast.close()));
    }
  });
});

describe('the cron recipe, with a slow task', () => {
  it('releases the lock only when the current run has ended', async () => {
    const keyPrefix = `${uniqueName('recipe')}:`;
    const begun: string[] = [];
    let [inside, most] = [0, 0];
    const processes = ['a', 'b'].map((name) => {
      const holdfast = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
      const stop = new AbortController();
      const task = async (): Promise<void> => {
        begun.push(name);
        most = Math.max(most, ++inside);
        await sleep(2_500);
        inside--;
      };
      const done = runSchedule(holdfast, '* * * * * *', task, stop.signal);
      return { name, holdfast, stop, done };
    });
    try {
      await expect.poll(() => begun.length, { timeout: 10_000 }).toBeGreaterThan(0);
      processes.find(({ name }) => name === begun[0])!.stop.abort();
      await expect.poll(() => new Set(begun).size, { timeout: 20_000 }).toBe(2);
      expect(most).toBe(1);
    } finally {
      for (const { stop } of processes) stop.abort();
      await Promise.all(processes.map(({ done }) => done));
      await expect.poll(() => inside, { timeout: 10_000 }).toBe(0);
      await Promise.all(processes.map(({ holdfast }) => holdfast.close()));
    }
  });

  it('begins no run after the event loop was blocked for longer than the lease', async () => {
    const lockWatchdogTimeout = 3_000;
    const keyPrefix = `${uniqueName('recipe')}:`;
    await using holdfast = new Holdfast({
      redis: inject('redisUrl'),
      keyPrefix,
      lockWatchdogTimeout,
    });
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const stop = new AbortController();
    let runs = 0;
    const task = (): Promise<void> => {
      runs++;
      return Promise.resolve();
    };
    const done = runSchedule(holdfast, '* * * * * *', task, stop.signal);
    try {
      await expect.poll(() => runs, { timeout: 10_000, interval: 10 }).toBeGreaterThan(0);
      const lost = nextEvent(holdfast, 'lost').then(() => runs);
      const before = runs;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lockWatchdogTimeout + 500);
      expect(await lost).toBe(before);
    } finally {
      stop.abort();
      await done;
      told.mockRestore();
    }
  });

  it('reports a failed run, and continues with the next', async () => {
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    const keyPrefix = `${uniqueName('recipe')}:`;
    await using holdfast = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    const stop = new AbortController();
    let runs = 0;
    const task = (): Promise<void> => {
      runs++;
      return Promise.reject(new Error('the database is away'));
    };
    const done = runSchedule(holdfast, '* * * * * *', task, stop.signal);
    try {
      await expect.poll(() => runs, { timeout: 10_000 }).toBeGreaterThanOrEqual(2);
      expect(told).toHaveBeenCalledWith('the task failed:', expect.any(Error));
    } finally {
      stop.abort();
      await done;
      process.off('unhandledRejection', unhandled);
      told.mockRestore();
    }
    expect(unhandled).not.toHaveBeenCalled();
  });
});

describe('the BullMQ recipe', () => {
  it('runs the jobs of one customer one at a time, and those of others meanwhile', async () => {
    const { hostname: host, port } = new URL(inject('redisUrl'));
    const connection = { host, port: Number(port) };
    const name = randomUUID();
    await using holdfast = new Holdfast({
      redis: inject('redisUrl'),
      keyPrefix: `${uniqueName('recipe')}:`,
    });
    const queue = new Queue<{ customer: string }>(name, { connection });
    const busy = new Map<string, number>();
    let [most, mostOfOne, done] = [0, 0, 0];
    const worker = customerWorker(holdfast, name, connection, async ({ data: { customer } }) => {
      busy.set(customer, (busy.get(customer) ?? 0) + 1);
      const counts = [...busy.values()];
      most = Math.max(most, counts.filter((count) => count > 0).length);
      mostOfOne = Math.max(mostOfOne, ...counts);
      await sleep(50);
      busy.set(customer, busy.get(customer)! - 1);
      done++;
    });
    try {
      await worker.waitUntilReady();
      const customers = ['x', 'y', 'z'].flatMap((customer) => Array<string>(4).fill(customer));
      await queue.addBulk(customers.map((customer) => ({ name: 'job', data: { customer } })));
      await expect.poll(() => done, { timeout: 15_000 }).toBe(12);
      expect(mostOfOne).toBe(1);
      expect(most).toBeGreaterThan(1);
    } finally {
      await worker.close();
      await queue.obliterate({ force: true });
      await queue.close();
    }
  });
});

describe('the BullMQ recipe, with a job that fails when its lock is lost', () => {
  it('leaves the error of the job to BullMQ', async () => {
    const { hostname: host, port } = new URL(inject('redisUrl'));
    const connection = { host, port: Number(port) };
    const name = randomUUID();
    const keyPrefix = `${uniqueName('recipe')}:`;
    await using holdfast = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    const redis = new Redis(inject('redisUrl'));
    const queue = new Queue<{ customer: string }>(name, { connection });
    const errors: string[] = [];
    const worker = customerWorker(holdfast, name, connection, async ({ data: { customer } }) => {
      await holdfast.getLock(`customer:${customer}`).forceUnlock();
      await redis.del(`holdfast_forced:{${keyPrefix}customer:${customer}}`); // a mark that nobody needs
      throw new UnrecoverableError('no such customer');
    });
    worker.on('failed', (_job, error) => errors.push(error.message));
    try {
      await worker.waitUntilReady();
      await queue.add('job', { customer: 'x' }, { attempts: 3 });
      await expect.poll(() => errors.length, { timeout: 15_000 }).toBeGreaterThan(0);
      expect(errors).toEqual(['no such customer']);
      expect(await queue.getFailedCount()).toBe(1); // it was not tried again
    } finally {
      await worker.close();
      await queue.obliterate({ force: true });
      await queue.close();
      await redis.quit();
    }
  });
});

async function post({ port }: AddressInfo): Promise<{ status: number; body: string }> {
  const url = `http://127.0.0.1:${port}/accounts/7/transfers`;
  const response = await fetch(url, { method: 'POST', headers: { connection: 'close' } });
  return { status: response.status, body: await response.text() };
}
