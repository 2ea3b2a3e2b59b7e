// Redisson itself, in a Java process of its own, driven by test/redisson/src/main/java/holdfast/RedissonDriver.java.
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { inject } from 'vitest';
import { RedissonClient } from './redisson-lock.js';

/** Why these tests cannot run here, or undefined. */
export const redissonUnavailable: string | undefined =
  inject('redissonClasspath') === '' ? 'needs java and mvn' : undefined;

export interface RedissonOptions {
  /** Redisson’s `lockWatchdogTimeout`; so long by default that nothing but a message wakes a waiter. */
  readonly watchdogMs?: number;
  /** Redisson’s `shardedSubscriptionMode` OFF. */
  readonly hasClassicChannels?: boolean;
}

/** Fast to start, small: tests run a few of them. */
const JVM = ['-Xmx192m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

export function startRedisson(): Redisson {
  return new Redisson();
}

/** A Java process with any number of Redisson clients. */
export class Redisson implements AsyncDisposable {
  readonly #process: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #exit: Promise<unknown>;
  readonly #answers = new Map<number, (answer: Answer) => void>();
  #log = '';
  #lastId = 0;
  #clientCount = 0;

  constructor() {
    const args = [...JVM, '-cp', inject('redissonClasspath'), 'holdfast.RedissonDriver'];
    this.#process = spawn('java', args, { stdio: 'pipe' });
    this.#exit = once(this.#process, 'exit').then(() => {
      for (const id of [...this.#answers.keys()])
        this.#answered({ id, error: 'Ended', message: `the Java process ended\n${this.#log}` });
    });
    this.#process.stdin.on('error', () => undefined); // it was killed
    this.#process.stderr.on('data', (text: Buffer) => (this.#log += text.toString()));
    createInterface(this.#process.stdout).on('line', (line) => {
      this.#answered(JSON.parse(line) as Answer);
    });
  }

  /** A client of a server, or of a cluster if several nodes are given. */
  async connect(
    nodes: readonly { host: string; port: number }[],
    { watchdogMs = 60_000, hasClassicChannels = false }: RedissonOptions = {},
  ): Promise<RedissonClient> {
    const client = `c${++this.#clientCount}`;
    const addresses = nodes.map(({ host, port }) => `redis://${host}:${port}`);
    const isCluster = nodes.length > 1;
    const where = { client, nodes: addresses, isCluster, hasClassicChannels, watchdogMs };
    const id = await this.ask('main', 'connect', where);
    return new RedissonClient(this, client, id as string);
  }

  /** Has one thread of the Java process do something. */
  async ask(thread: string, op: string, rest: object): Promise<unknown> {
    const id = ++this.#lastId;
    const answer = await new Promise<Answer>((resolve) => {
      this.#answers.set(id, resolve);
      this.#process.stdin.write(`${JSON.stringify({ id, thread, op, ...rest })}\n`);
    });
    if (answer.error === undefined) return answer.result;
    throw new RedissonError(answer.error, answer.message ?? '');
  }

  /** Ends it at once, as a crash does (SIGKILL). */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #answered(answer: Answer): void {
    this.#answers.get(answer.id)?.(answer);
    this.#answers.delete(answer.id);
  }
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
  readonly message?: string;
}

/** What a Java call threw; `name` is the exception’s class. */
class RedissonError extends Error {
  override readonly name: string;

  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}
