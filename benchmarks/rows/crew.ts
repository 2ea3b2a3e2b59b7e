// The worker processes of a contended lock. Each contender has its own, which stand still while it is not its turn: what the callers
// of one go on to do who never got the lock must not slow down the others.

import type { WorkerProcess } from '../worker/worker-process.js';
import type { Contender } from './contenders.js';
import type { Party } from './section.js';

export class Crew implements Disposable {
  readonly #size: number;
  readonly #workers = new Map<string, WorkerProcess[]>();

  /** `size`: how many processes each contender has. */
  constructor(size: number) {
    this.#size = size;
  }

  /** Has its processes run, each with so many callers, of a semaphore with so many `permits`, until the function that is called with them is done. */
  async on<T>(
    one: Contender,
    urls: readonly string[],
    callers: number,
    work: (parties: Party[]) => Promise<T>,
    permits?: number,
  ): Promise<T> {
    const workers = this.#workersOf(one);
    for (const worker of workers) worker.resume();
    try {
      await Promise.all(workers.map((worker) => worker.ask({ do: 'usage' }))); // they are there
      const target = { peer: one.id, urls, ...(permits !== undefined && { permits }) };
      return await work(workers.map((worker) => ({ worker, target, callers })));
    } finally {
      for (const worker of workers) worker.pause();
    }
  }

  #workersOf(one: Contender): WorkerProcess[] {
    const known = this.#workers.get(one.id);
    const workers = known ?? Array.from({ length: this.#size }, () => one.start());
    this.#workers.set(one.id, workers);
    return workers;
  }

  [Symbol.dispose](): void {
    for (const worker of [...this.#workers.values()].flat()) worker[Symbol.dispose]();
  }
}
