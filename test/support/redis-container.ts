// A Redis server as a Docker container, by testcontainers.
import { spawnSync } from 'node:child_process';
import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers';
import { Redis } from 'ioredis';
import { expectOutages } from './expected-warnings.js';
import { freePort } from './free-port.js';
import type { RedisServer, RedisServerOptions } from './redis-server.js';

/** Starts a container on a fixed loopback port, so that it can come back there; tries further ports. */
export async function startRedisContainer(options: RedisServerOptions): Promise<RedisServer> {
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    try {
      const container = await redisContainer(port, options.args ?? []).start();
      started.add(container.getId());
      return await controlled(container.getId(), container.getHost(), port);
    } catch (error) {
      if (attempt === 3) throw error;
      doWithoutRyuk(error);
    }
  }
}

function redisContainer(port: number, args: readonly string[]): GenericContainer {
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
