// The worker processes of a contended lock: as many of Node.js, which serve all libraries of npm in turn, and, for Redisson, as
// many of Java.

import type { WorkerProcess } from '../worker/worker-process.js';
import type { Contender } from './contenders.js';
import type { Party } from './section.js';

export class Crew implements Disposable {
  readonly #workers = new Map<Contender['runtime'], WorkerProcess[]>();

  constructor(contenders: readonly Contender[], size: number) {
    for (const one of contenders) {
      if (this.#workers.has(one.runtime)) continue;
      this.#workers.set(
        one.runtime,
        Array.from({ length: size }, () => one.start()),
      );
    }
  }

  /** Each process with so many callers. */
  parties({ id, runtime }: Contender, urls: readonly string[], callers: number): Party[] {
    return this.#workers
      .get(runtime)!
      .map((worker) => ({ worker, target: { peer: id, urls }, callers }));
  }

  [Symbol.dispose](): void {
    for (const worker of [...this.#workers.values()].flat()) worker[Symbol.dispose]();
  }
}
