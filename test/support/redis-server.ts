// Starts real Redis servers for tests, as processes or as Docker containers, behind one interface.
import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import type { GenericContainer } from 'testcontainers';
import { expectOutages } from './expected-warnings.js';

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

interface RedisServerOptions {
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
      return startRedisContainer(options);
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

// A Redis server as a process of this machine.

interface RedisProcessOptions extends RedisServerOptions {
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

// A Redis server as a Docker container, by testcontainers.

/** Starts a container on a fixed loopback port, so that it can come back there; tries further ports. */
async function startRedisContainer(options: RedisServerOptions): Promise<RedisServer> {
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    try {
      const container = await (await redisContainer(port, options.args ?? [])).start();
      started.add(container.getId());
      return await controlled(container.getId(), container.getHost(), port);
    } catch (error) {
      if (attempt === 3) throw error;
      doWithoutRyuk(error);
    }
  }
}

/** What it takes is loaded only here, which takes a second. */
async function redisContainer(port: number, args: readonly string[]): Promise<GenericContainer> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const inMemory = ['--save', '', '--appendonly', 'no', '--protected-mode', 'no'];
  return (
    new GenericContainer(process.env['HOLDFAST_REDIS_IMAGE'] ?? 'redis:7.4-alpine')
      // Options alone: the images of Redis and Valkey put their server's name in front.
      .withCommand([...inMemory, ...args])
      .withExposedPorts({ container: 6379, host: port })
      .withWaitStrategy(Wait.forLogMessage('Ready to accept connections'))
  );
}

// Ryuk, testcontainers' own container that removes the others after a crash, needs an image of its own
// and privileges that not every engine gives. Without it, we remove them when this process exits.
function doWithoutRyuk(error: unknown): void {
  if (process.env['TESTCONTAINERS_RYUK_DISABLED']) return;
  process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';
  console.warn(`containers are started without Ryuk from now on: ${String(error)}`);
}

const started = new Set<string>();
process.once('exit', () => {
  if (started.size > 0) spawnSync('docker', ['rm', '--force', ...started], { stdio: 'ignore' });
});

async function controlled(id: string, hostName: string, port: number): Promise<RedisServer> {
  const { getContainerRuntimeClient } = await import('testcontainers');
  const client = await getContainerRuntimeClient();
  const container = client.container.getById(id);
  const host = hostName === 'localhost' ? '127.0.0.1' : hostName;

  const isRunning = async (): Promise<boolean> => (await container.inspect()).State.Running;
  return {
    url: `redis://${host}:${port}`,
    host,
    port,
    async kill() {
      expectOutages();
      if (!(await isRunning())) return;
      await container.kill({ signal: 'SIGKILL' });
      await container.wait();
    },
    async stop() {
      expectOutages();
      if (await isRunning()) await container.stop({ t: 5 });
    },
    async pause() {
      expectOutages();
      await container.pause();
    },
    async resume() {
      await container.unpause();
    },
    async start() {
      if (await isRunning()) return;
      await container.start();
      await waitUntilReady(host, port);
    },
    async [Symbol.asyncDispose]() {
      await container.remove({ force: true, v: true });
      started.delete(id);
    },
  };
}

async function waitUntilReady(host: string, port: number): Promise<void> {
  const { Redis } = await import('ioredis');
  const redis = new Redis({ host, port, retryStrategy: () => 20 });
  redis.on('error', () => undefined);
  try {
    await redis.ping();
  } catch (error) {
    if (!String(error).includes('NOAUTH')) throw error; // whoever asks for a password is ready
  } finally {
    redis.disconnect();
  }
}

// Finds free loopback ports for servers that have to come back on the same port.

// Below the range from which systems take the local ports of outgoing connections, so that a server
// can be stopped and started again on its port; the ports 10,000 above are for the buses of clusters.
const LOWEST_PORT = 10_000;
const PORTS_EACH = 1_000;

/** Each worker of vitest has ports of its own: nobody takes one that is left free for a moment on purpose. 0: no worker. */
const WORKER = Number(process.env['VITEST_POOL_ID'] ?? 0) % 10;

/** In a row from anywhere: what was handed out is not handed out again soon. */
let next = Math.floor(Math.random() * PORTS_EACH);

/** A port that is free now; somebody may still be faster, so callers retry. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST_PORT + WORKER * PORTS_EACH + (next++ % PORTS_EACH);
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => {
      resolve(false);
    });
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      server.close(() => {
        resolve(true);
      });
    });
  });
}
