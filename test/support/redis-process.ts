// A Redis server as a process of this machine.
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { expectOutages } from './expected-warnings.js';
import { freePort } from './free-port.js';
import type { RedisServer, RedisServerOptions } from './redis-server.js';

export interface RedisProcessOptions extends RedisServerOptions {
  /** A sentinel starts out watching nothing. */
  readonly mode?: 'server' | 'sentinel';
  /** On top of this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts redis-server on a loopback port; tries further ports when somebody else was faster. */
export async function startRedisProcess(options: RedisProcessOptions): Promise<RedisServer> {
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    const server = new RedisProcess(port, options);
    try {
      await server.start();
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      if (attempt === 5) throw error;
    }
  }
}

// The shell between us and the server reads a pipe that only we hold open: when this process ends,
// in whatever way, the read ends too and the server is killed. Once the server is gone, so is its folder.
const GUARD = `
  trap "" HUP INT TERM
  "$@" </dev/null 2>&1 & server=$!
  echo "pid $server"
  exec 2>/dev/null 3<&0
  (read -r line <&3; kill -KILL $server) & watcher=$!
  wait $server
  kill -KILL $watcher
  rm -rf "$PWD"
`;

class RedisProcess implements RedisServer {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly #options: RedisProcessOptions;
  #guard: ChildProcessByStdio<Writable, Readable, null> | undefined;
  /** undefined until the server that runs now has told it. */
  #pid: number | undefined;

  constructor(port: number, options: RedisProcessOptions) {
    this.port = port;
    this.#options = options;
  }

  get url(): string {
    return `redis://${this.host}:${this.port}`;
  }

  async start(): Promise<void> {
    if (this.#guard) return;
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-redis-'));
    const program = process.env['HOLDFAST_REDIS_SERVER'] ?? 'redis-server';
    const args = await this.#arguments(folder);
    const guard = spawn('sh', ['-c', GUARD, 'sh', program, ...args], {
      cwd: folder,
      env: { ...process.env, ...this.#options.env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#guard = guard;
    this.#pid = undefined;
    guard.once('exit', () => (this.#guard = undefined));
    await this.#ready(guard);
  }

  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  async stop(): Promise<void> {
    await this.resume();
    await this.#end('SIGTERM');
  }

  pause(): Promise<void> {
    this.#signal('SIGSTOP');
    return Promise.resolve();
  }

  resume(): Promise<void> {
    this.#signal('SIGCONT');
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  async #arguments(folder: string): Promise<string[]> {
    const listen = ['--port', String(this.port), '--bind', this.host];
    const further = this.#options.args ?? [];
    if (this.#options.mode !== 'sentinel') {
      return ['--save', '', '--appendonly', 'no', ...listen, ...further];
    }
    const config = join(folder, 'sentinel.conf');
    await writeFile(config, '');
    return [config, '--sentinel', ...listen, ...further];
  }

  // The log tells that it is our server which listens; an answered PING would not.
  async #ready(guard: ChildProcessByStdio<Writable, Readable, null>): Promise<void> {
    const log: string[] = [];
    let isListening = false;
    for await (const line of createInterface(guard.stdout)) {
      log.push(line);
      if (line.startsWith('pid ')) this.#pid = Number(line.slice('pid '.length));
      isListening ||= /Ready to accept connections|Sentinel ID is/.test(line);
      // The guard tells the one and the server the other, in either order: without its pid it could not be paused.
      if (!isListening || this.#pid === undefined) continue;
      guard.stdout.resume();
      return;
    }
    throw new Error(`redis-server on port ${this.port} ended:\n${log.slice(-5).join('\n')}`);
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const guard = this.#guard;
    if (!guard) return;
    const exited = once(guard, 'exit');
    if (this.#pid === undefined) guard.stdin.end();
    else this.#signal(signal);
    await exited;
  }

  // The guard is there as long as the server is, so the pid cannot have become somebody else's.
  #signal(signal: NodeJS.Signals): void {
    expectOutages();
    if (!this.#guard || this.#pid === undefined) return;
    try {
      process.kill(this.#pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
