// Starts real Redis servers for tests, as processes or as Docker containers, behind one interface.
import { startRedisProcess } from './redis-process.js';

export interface RedisServer extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Ends it at once, as a crash does (SIGKILL). */
  kill(): Promise<void>;
  /** Ends it in order (SIGTERM). */
  stop(): Promise<void>;
  /** Freezes it: connections stay open and nothing answers (SIGSTOP). */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Starts it again on the same port after kill() or stop(), with nothing in it. */
  start(): Promise<void>;
}

export interface RedisServerOptions {
  /** Further arguments for redis-server, such as ['--requirepass', 'secret']. */
  readonly args?: readonly string[];
  /** The port to listen on; a free one by default. */
  readonly port?: number;
}

/** Starts a server that keeps nothing on disk and ends with this process at the latest. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  switch (process.env['HOLDFAST_TEST_BACKEND'] ?? 'process') {
    case 'process':
      return startRedisProcess(options);
    case 'docker':
      // Loaded only here: testcontainers takes a second to load.
      return (await import('./redis-container.js')).startRedisContainer(options);
    default:
      throw new Error(
        'this starts a Redis of its own, which takes redis-server on the PATH or a Docker engine',
      );
  }
}

/** Why Sentinel and cluster tests cannot run here, or undefined: they need servers that see each other's ports. */
export const topologiesUnavailable: string | undefined =
  process.env['HOLDFAST_TEST_BACKEND'] === 'docker' && !process.env['HOLDFAST_REDIS_SERVER']
    ? 'needs redis-server on the PATH: containers do not see each other under the ports that clients see'
    : undefined;
