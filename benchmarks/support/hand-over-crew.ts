// The worker processes of the hand-over benchmark, seen from the benchmark.

import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Order, Result } from './hand-over-messages.js';

export class HandOverCrew implements Disposable {
  readonly #processes: readonly ChildProcess[];

  private constructor(processes: readonly ChildProcess[]) {
    this.#processes = processes;
  }

  /** Starts the processes and waits until they are connected. */
  static async start(size: number, url: string): Promise<HandOverCrew> {
    const file = fileURLToPath(new URL('../hand-over-worker.ts', import.meta.url));
    const processes = Array.from({ length: size }, () => fork(file, [url]));
    await Promise.all(processes.map(nextMessage));
    return new HandOverCrew(processes);
  }

  /** All of them at the same time. */
  async work(order: Order): Promise<Result> {
    const results = await Promise.all(
      this.#processes.map((worker) => {
        const result = nextMessage(worker);
        worker.send(order);
        return result as Promise<Result>;
      }),
    );
    return {
      stays: results.flatMap(({ stays }) => stays).sort((one, other) => one.number - other.number),
      violations: results.reduce((sum, { violations }) => sum + violations, 0),
    };
  }

  [Symbol.dispose](): void {
    for (const worker of this.#processes) worker.kill('SIGKILL');
  }
}

async function nextMessage(worker: ChildProcess): Promise<unknown> {
  const over = new AbortController();
  const { signal } = over;
  try {
    const [message] = (await Promise.race([
      once(worker, 'message', { signal }),
      once(worker, 'exit', { signal }).then(() => {
        throw new Error('a worker process of the hand-over benchmark ended');
      }),
    ])) as unknown[];
    return message;
  } finally {
    over.abort();
  }
}
