// The worker processes, as the main process sees them.

import { fork, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { CLIENT_ID, type LockKind, type Order, type Report, type Task } from './messages.js';

type WorkerState = 'starts' | 'transfers' | 'waits' | 'holds' | 'paused' | 'rests' | 'killed';

export class Worker {
  readonly name: string;
  /** The id of the worker's client, with which its owner ids begin. */
  readonly clientId: string = randomUUID();
  state: WorkerState = 'starts';
  /** Since when it has been in this state, on the monotonic clock. */
  sinceMs: number = performance.now();
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;

  constructor(name: string, env: NodeJS.ProcessEnv, onReport: (report: Report) => void) {
    this.name = name;
    this.#process = fork(fileURLToPath(new URL('../worker.ts', import.meta.url)), {
      execArgv: ['--import', 'tsx'],
      env: { ...process.env, ...env, [CLIENT_ID]: this.clientId },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#process.on('message', (message) => {
      if (!this.isAlive) return; // sent before it was killed
      const report = message as Report;
      this.#follow(report);
      onReport(report);
    });
    this.#exited = once(this.#process, 'exit').then(() => {
      if (this.state !== 'killed') onReport({ type: 'failed', message: 'the process ended' });
    });
  }

  get isAlive(): boolean {
    return this.state !== 'killed';
  }

  order(order: Order): void {
    this.#process.send(order);
  }

  become(state: WorkerState): void {
    this.state = state;
    this.sinceMs = performance.now();
  }

  /** SIGSTOP, while it holds the lock: the process stops without noticing. */
  pause(): void {
    this.#process.kill('SIGSTOP');
    this.become('paused');
  }

  /** SIGCONT: the process continues, and still believes that it holds the lock. */
  resume(): void {
    this.become('holds');
    this.#process.kill('SIGCONT');
  }

  /** SIGKILL: it gets no chance to release anything. */
  async kill(): Promise<void> {
    this.become('killed');
    this.#process.kill('SIGKILL');
    await this.#exited;
  }

  #follow({ type }: Report): void {
    if (type === 'waits' || type === 'holds') this.become(type);
    if (type === 'stopped') this.become('rests');
    // Without a lock there is no rest: the worker is always in some transfer.
    const isOver = type === 'transferred' || type === 'refused' || type === 'read';
    if (isOver && this.state === 'holds') this.become('rests');
  }
}

interface CrewEvents {
  report: [worker: Worker, report: Report];
}

/** Starts workers and passes on their reports. */
export class Crew extends EventEmitter<CrewEvents> implements AsyncDisposable {
  readonly workers: readonly Worker[];
  /** Rejects when a worker fails. */
  readonly failure: Promise<never>;

  constructor(size: number, env: NodeJS.ProcessEnv) {
    super();
    let fail!: (error: Error) => void;
    this.failure = new Promise<never>((_, reject) => (fail = reject));
    this.failure.catch(() => undefined); // handled where the crew is awaited
    this.workers = Array.from({ length: size }, (_, index) => {
      const worker: Worker = new Worker(`worker ${index + 1}`, env, (report) => {
        if (report.type === 'failed') fail(new Error(`${worker.name}: ${report.message}`));
        this.emit('report', worker, report);
      });
      return worker;
    });
  }

  get living(): readonly Worker[] {
    return this.workers.filter(({ isAlive }) => isAlive);
  }

  /** The worker with this owner id. */
  withOwner(ownerId: string): Worker | undefined {
    return this.workers.find(({ clientId }) => ownerId.startsWith(`${clientId}-`));
  }

  /** All workers work under this kind of lock from now on, each at its task. */
  work(lock: LockKind, taskOf: (worker: Worker) => Task): void {
    for (const worker of this.living) {
      worker.become('transfers');
      worker.order({ type: 'work', lock, task: taskOf(worker) });
    }
  }

  /** Resolves when all workers have ended their last transfer. */
  async stop(): Promise<void> {
    const stopped = this.all('stopped');
    for (const worker of this.living) worker.order({ type: 'stop' });
    await stopped;
  }

  /** Resolves when every live worker has reported this. */
  async all(type: Report['type']): Promise<void> {
    const missing = new Set(this.living);
    await Promise.race([
      this.failure,
      new Promise<void>((resolve) => {
        const listener = (worker: Worker, report: Report): void => {
          if (report.type === type) missing.delete(worker);
          if (missing.size > 0) return;
          this.off('report', listener);
          resolve();
        };
        this.on('report', listener);
      }),
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.living.map((worker) => worker.kill()));
  }
}
