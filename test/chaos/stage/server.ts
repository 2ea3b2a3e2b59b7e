// One server of a round, and a way to it past all proxies.
import { Redis } from 'ioredis';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedisProcess, type RedisServer } from '../../support/redis-server.js';
import { ServerClock } from './server-clock.js';

export interface StageServerOptions {
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
