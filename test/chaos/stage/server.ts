// One server of a round, a way to it past all proxies, and its wall clock, which can be stepped or stopped.
import { Redis } from 'ioredis';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startRedisProcess, type RedisServer } from '../../support/redis-server.js';

interface StageServerOptions {
  readonly index: number;
  /** Whether everything is on disk before it is answered. */
  readonly isDurable: boolean;
  /** Whether its wall clock can step, where that can be had. */
  readonly canStep: boolean;
  readonly args?: readonly string[];
}

export class StageServer implements AsyncDisposable {
  readonly index: number;
  readonly redis: RedisServer;
  readonly clock: ServerClock | undefined;
  readonly #folder: string | undefined;
  readonly #direct: Redis;

  static async start(options: StageServerOptions): Promise<StageServer> {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-chaos-'));
    const clock = options.canStep ? await ServerClock.create(folder) : undefined;
    const durable = options.isDurable ? ['--appendonly', 'yes', '--appendfsync', 'always'] : [];
    // Its folder outlives it, so that it can come back with its file.
    const args = ['--dir', folder, ...durable, ...debugging(), ...(options.args ?? [])];
    const redis = await startRedisProcess({ args, env: clock?.env ?? {} });
    return new StageServer(options.index, redis, clock, folder);
  }

  /** A server that has been started already. */
  constructor(index: number, redis: RedisServer, clock?: ServerClock, folder?: string) {
    this.index = index;
    this.redis = redis;
    this.clock = clock;
    this.#folder = folder;
    this.#direct = this.connection();
  }

  /** Sends a command past all proxies; fails at once while the server is down. */
  async call(command: string, ...args: (string | Buffer)[]): Promise<unknown> {
    return await this.#direct.call(command, ...args);
  }

  /** Whether it is a master, by its own word; undefined: it says nothing. */
  async isMaster(): Promise<boolean | undefined> {
    const role = (await this.call('ROLE').catch(() => undefined)) as [string] | undefined;
    return role === undefined ? undefined : role[0] === 'master';
  }

  /** A connection past all proxies. */
  connection(): Redis {
    const connection = new Redis({
      host: this.redis.host,
      port: this.redis.port,
      retryStrategy: () => 20,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
    });
    connection.on('error', () => undefined); // it is known to be down at times
    return connection;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#direct.disconnect();
    await this.redis[Symbol.asyncDispose]();
    if (this.#folder) await rm(this.#folder, { recursive: true, force: true });
  }
}

/** DEBUG SLEEP wants this from Redis 7 on; older servers allow it, and do not know the option. */
export function debugging(): readonly string[] {
  if (!debugOption) {
    const program = process.env['HOLDFAST_REDIS_SERVER'] ?? 'redis-server';
    const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
    debugOption = stdout.includes('v=6.') ? [] : ['--enable-debug-command', 'yes'];
  }
  return debugOption;
}

let debugOption: readonly string[] | undefined;

// The wall clock of a server that can be stepped, or stopped: a small library, built here, that is preloaded into it.

export class ServerClock {
  readonly env: Readonly<Record<string, string>>;
  readonly #file: string;

  /** undefined where the library cannot be built: it takes a C compiler, and Linux. */
  static async create(folder: string): Promise<ServerClock | undefined> {
    const library = (built ??= build());
    if (library.path === undefined) return undefined;
    const file = join(folder, 'clock');
    await writeFile(file, Buffer.alloc(16));
    return new ServerClock(library.path, file);
  }

  /** Why servers' clocks cannot be stepped here; undefined when they can. */
  static get unavailable(): string | undefined {
    return (built ??= build()).trouble;
  }

  private constructor(library: string, file: string) {
    this.#file = file;
    this.env = { LD_PRELOAD: library, HOLDFAST_CLOCK: file };
  }

  /** From now on it is so much ahead of the true time. */
  step(ms: number): Promise<void> {
    return this.#write(ms, 0);
  }

  /** From now on it stands there, and the monotonic one as well; in microseconds since 1970. Called before the server starts for the first time. */
  stand(atUs: number): Promise<void> {
    return this.#write(atUs, 8);
  }

  async #write(number: number, position: number): Promise<void> {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(number));
    await using file = await open(this.#file, 'r+');
    await file.write(bytes, 0, 8, position); // in place: the server has mapped it
  }
}

interface Built {
  readonly path?: string;
  readonly trouble?: string;
}

let built: Built | undefined;

function build(): Built {
  if (process.platform !== 'linux') return { trouble: 'LD_PRELOAD of a clock takes Linux' };
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-clock-'));
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
  const path = join(folder, 'stepped-clock.so');
  const source = fileURLToPath(new URL('stepped-clock.c', import.meta.url));
  const { status, stderr, error } = spawnSync('cc', [
    '-shared',
    '-fPIC',
    '-O2',
    '-o',
    path,
    source,
  ]);
  if (status === 0) return { path };
  return { trouble: `it takes a C compiler: ${error?.message ?? String(stderr).split('\n')[0]!}` };
}
