// A process that works for a benchmark, as the benchmark sees it: each order gets one answer.

import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export class WorkerProcess<Order extends object, Answer> implements Disposable {
  readonly #file: string;
  readonly #process: ChildProcess;

  private constructor(file: string, url: string, nodeOptions: readonly string[]) {
    this.#file = file;
    const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
    this.#process = fork(path, [url], { execArgv: [...process.execArgv, ...nodeOptions] });
  }

  /** Starts benchmarks/`file`, which works on the Redis at `url`, and waits until it is ready. */
  static async start<Order extends object, Answer>(
    file: string,
    url: string,
    nodeOptions: readonly string[] = [],
  ): Promise<WorkerProcess<Order, Answer>> {
    const worker = new WorkerProcess<Order, Answer>(file, url, nodeOptions);
    await worker.#nextMessage();
    return worker;
  }

  async ask(order: Order): Promise<Answer> {
    const answer = this.#nextMessage();
    this.#process.send(order);
    return (await answer) as Answer;
  }

  [Symbol.dispose](): void {
    this.#process.kill('SIGKILL');
  }

  async #nextMessage(): Promise<unknown> {
    const over = new AbortController();
    const { signal } = over;
    try {
      const [message] = (await Promise.race([
        once(this.#process, 'message', { signal }),
        once(this.#process, 'exit', { signal }).then(() => {
          throw new Error(`the process of benchmarks/${this.#file} ended`);
        }),
      ])) as unknown[];
      return message;
    } finally {
      over.abort();
    }
  }
}
