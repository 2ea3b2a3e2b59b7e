// The worker processes of the hand-over benchmarks, seen from the benchmark.

import { Redis } from 'ioredis';
import type { Order, Result } from './hand-over-messages.js';
import { WorkerProcess } from './worker-process.js';

/** That waiters of a process wait for one another is what is measured; on a busy machine one waits long enough for a warning. */
const EXPECTED = ['--disable-warning=HoldfastWarning'];

export class HandOverCrew implements Disposable {
  readonly #workers: readonly WorkerProcess<Order, Result>[];
  readonly #redis: Redis;
  readonly #keyPrefix: string;
  #lastSlice = 0;

  private constructor(
    workers: readonly WorkerProcess<Order, Result>[],
    url: string,
    keyPrefix: string,
  ) {
    this.#workers = workers;
    this.#redis = new Redis(url);
    this.#keyPrefix = keyPrefix;
  }

  /** Starts the processes and waits until they are connected. */
  static async start(size: number, url: string, keyPrefix: string): Promise<HandOverCrew> {
    const start = (): Promise<WorkerProcess<Order, Result>> =>
      WorkerProcess.start('hand-over-worker.ts', url, EXPECTED);
    const workers = await Promise.all(Array.from({ length: size }, start));
    return new HandOverCrew(workers, url, keyPrefix);
  }

  /** All of them at the same time, on a lock that was never used before. */
  async work(order: Omit<Order, 'name'>): Promise<Result> {
    const name = `${this.#keyPrefix}${order.guard}:${++this.#lastSlice}`;
    if (order.guard === 'token') await this.#redis.rpush(`${name}:token`, 1);
    const results = await Promise.all(
      this.#workers.map((worker) => worker.ask({ ...order, name })),
    );
    await this.#redis.del(`${name}:inside`, `${name}:number`, `${name}:token`);
    const stays = results
      .flatMap((result, process) =>
        result.stays.map((stay) => ({ ...stay, waiter: process * order.waiters + stay.waiter })),
      )
      .sort((one, other) => one.number - other.number);
    const inVainMs = results.flatMap((result) => result.inVainMs);
    const intrusions = results.reduce((sum, { violations }) => sum + violations, 0);
    // Two that read the same number: one of them wrote over the other.
    const lostWrites = stays.length - new Set(stays.map(({ number }) => number)).size;
    return { stays, inVainMs, violations: intrusions + lostWrites };
  }

  [Symbol.dispose](): void {
    for (const worker of this.#workers) worker[Symbol.dispose]();
    this.#redis.disconnect();
  }
}
