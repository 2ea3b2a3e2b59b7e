// A process for each contender: what one library does to its process is nothing to the others.

import type { WorkerProcess } from '../worker/worker-process.js';
import type { Contender } from './contenders.js';

export class Soloists implements Disposable {
  readonly #workers: ReadonlyMap<Contender, WorkerProcess>;

  constructor(contenders: readonly Contender[]) {
    this.#workers = new Map(contenders.map((one) => [one, one.start()]));
  }

  get contenders(): Contender[] {
    return [...this.#workers.keys()];
  }

  of(one: Contender): WorkerProcess {
    return this.#workers.get(one)!;
  }

  [Symbol.dispose](): void {
    for (const worker of this.#workers.values()) worker[Symbol.dispose]();
  }
}
