// A worker process as the benchmarks see it: Node.js, or Java with the real Redisson.
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import type { AnswerTo, Order, Reply } from './messages.js';

/** Many waiters of one process are intended: some libraries warn of them. */
const EXPECTED = ['HoldfastWarning', 'MaxListenersExceededWarning'].map(
  (name) => `--disable-warning=${name}`,
);

/** The client library of this process. */
const LIBRARY = [
  '--import',
  new URL('../../test/support/library-under-test.mjs', import.meta.url).href,
];

/** Made when the first is started. */
let program: string | undefined;

/** A slice is far shorter; keeping 100,000 locks takes the slowest longest. */
const ANSWERED_WITHIN_MS = 240_000;

interface Pending {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

export class WorkerProcess implements Disposable {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #end: Error | undefined;

  private constructor(program: string, args: readonly string[]) {
    this.#process = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#process.stdin.on('error', () => undefined); // it ended, which is reported
    this.#process.on('error', (error) => {
      this.#ended(error);
    });
    this.#process.on('exit', (code, signal) => {
      this.#ended(new Error(`a worker process (${program}) ended: ${signal ?? String(code)}`));
    });
    createInterface(this.#process.stdout).on('line', (line) => {
      this.#answered(JSON.parse(line) as Reply);
    });
  }

  /** A process of Node.js, on the client library of this one. */
  static node(...options: string[]): WorkerProcess {
    program ??= plainWorker();
    return new WorkerProcess(process.execPath, [...LIBRARY, ...EXPECTED, ...options, program]);
  }

  static java(args: readonly string[]): WorkerProcess {
    return new WorkerProcess('java', args);
  }

  async ask<O extends Order>(order: O): Promise<AnswerTo<O>> {
    if (this.#end) throw this.#end;
    const id = ++this.#lastId;
    let limit: NodeJS.Timeout | undefined;
    try {
      const answer = await new Promise((resolve, reject) => {
        this.#pending.set(id, { resolve, reject });
        limit = setTimeout(() => {
          this.#pending.delete(id);
          reject(new Error(`no answer to "${order.do}" within ${ANSWERED_WITHIN_MS / 1_000} s`));
        }, ANSWERED_WITHIN_MS);
        this.#process.stdin.write(`${JSON.stringify({ id, order })}\n`);
      });
      return answer as AnswerTo<O>;
    } finally {
      clearTimeout(limit);
    }
  }

  /** It is suspended until `resume()`. */
  pause(): void {
    this.#process.kill('SIGSTOP');
  }

  resume(): void {
    this.#process.kill('SIGCONT');
  }

  [Symbol.dispose](): void {
    this.#process.kill('SIGKILL');
  }

  #answered({ id, answer, error }: Reply): void {
    const reply = this.#pending.get(id);
    this.#pending.delete(id);
    if (error === undefined) reply?.resolve(answer);
    else reply?.reject(new Error(error));
  }

  #ended(why: Error): void {
    this.#end = why;
    for (const reply of this.#pending.values()) reply.reject(why);
    this.#pending.clear();
  }
}

// The program of a worker as plain JavaScript. With tsx a process needs most of a second of a core to start, and a run starts dozens.

/** The source files of a worker. */
const FOLDERS = ['peers', 'support', 'worker'];

/** As deep as benchmarks/, from where dist/ is found. */
const SOURCES = new URL('../', import.meta.url);
const PLAIN = new URL('../../dist-bench/', import.meta.url);

const compilerOptions = { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext };

/** Writes it to dist-bench/, and returns the path of the program. */
function plainWorker(): string {
  for (const folder of FOLDERS) {
    mkdirSync(new URL(folder, PLAIN), { recursive: true });
    const files = readdirSync(new URL(folder, SOURCES)).filter((file) =>
      /(?<!\.d)\.ts$/.test(file),
    );
    for (const file of files) {
      const source = readFileSync(new URL(`${folder}/${file}`, SOURCES), 'utf8');
      const { outputText } = ts.transpileModule(source, { compilerOptions });
      writeFileSync(new URL(`${folder}/${file.replace('.ts', '.js')}`, PLAIN), outputText);
    }
  }
  return fileURLToPath(new URL('worker/worker.js', PLAIN));
}
