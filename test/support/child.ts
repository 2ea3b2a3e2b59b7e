// Starts TypeScript child processes for tests, and talks with them by messages.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ChildMessage } from './child-messages.js';
import { runnable } from './compiled.js';

/** Starts test/support/children/<file>, or the program at a URL, which gets `env` on top of this process's environment. */
export function startChild(program: string | URL, env: Record<string, string> = {}): Child {
  return new Child(
    typeof program === 'string' ? new URL(`children/${program}`, import.meta.url) : program,
    env,
  );
}

/** What a child prints that loses its connection with no listener for errors, and nothing else. */
export const ONE_WARNING =
  /^\(node:\d+\) HoldfastWarning: the commands connection to Redis \(.*\) failed: .*\n\(Use .*\)\n$/;

export class Child implements AsyncDisposable {
  /** Everything the child printed. */
  output = '';
  readonly #file: string;
  readonly #process: ChildProcess;
  readonly #exit: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #received: ChildMessage[] = [];
  #onMessage: () => void = () => undefined;

  constructor(program: URL, env: Record<string, string>) {
    this.#file = basename(program.pathname);
    const { url, imports } = runnable(program);
    this.#process = fork(fileURLToPath(url), {
      execArgv: [...imports, '--import', runnable(LIBRARY).url.href],
      env: { ...process.env, ...OUTSIDE_VITEST, ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    running.add(this.#process);
    this.#exit = once(this.#process, 'exit').then(([code, signal]) => {
      running.delete(this.#process);
      this.#onMessage();
      return { code: code as number | null, signal: signal as NodeJS.Signals | null };
    });
    this.#process.stdout?.on('data', (text: Buffer) => (this.output += text.toString()));
    this.#process.stderr?.on('data', (text: Buffer) => (this.output += text.toString()));
    this.#process.on('message', (message) => {
      this.#received.push(message as ChildMessage);
      this.#onMessage();
    });
  }

  get pid(): number {
    return this.#process.pid!;
  }

  send(message: ChildMessage): void {
    this.#process.send(message);
  }

  /** The next message of this type, leaving others in place; throws when none comes or the child ended. */
  async next(type: string, timeoutMs = 20_000): Promise<ChildMessage> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const index = this.#received.findIndex((message) => message.type === type);
      if (index !== -1) return this.#received.splice(index, 1)[0]!;
      const hasEnded = this.#process.exitCode !== null || this.#process.signalCode !== null;
      if (hasEnded || performance.now() >= deadline) {
        const why = hasEnded ? 'the child ended' : `${timeoutMs} ms went by`;
        throw new Error(`no "${type}" from ${this.#file}: ${why}\n${this.output}`);
      }
      await this.#messageOr(deadline);
    }
  }

  /** Resolves when the child has ended. */
  exited(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    return this.#exit;
  }

  /** Ends it with this signal and waits until it is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#process.kill(signal);
    await this.#exit;
  }

  /** Freezes it (SIGSTOP). */
  pause(): void {
    this.#process.kill('SIGSTOP');
  }

  resume(): void {
    this.#process.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #messageOr(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, deadline - performance.now());
      this.#onMessage = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** In a process with this variable vitest's configuration chooses the client library; in a child LIBRARY does. */
export const OUTSIDE_VITEST = { VITEST: '' };

/** The same client library as in this process. */
const LIBRARY = new URL('library-under-test.mjs', import.meta.url);

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
