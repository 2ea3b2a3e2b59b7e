// A Redis server as a Docker container, by testcontainers.
import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers';
import { Redis } from 'ioredis';
import { freePort } from './free-port.js';
import type { RedisServer, RedisServerOptions } from './redis-server.js';

/** Starts a container on a fixed loopback port, so that it can come back there; tries further ports. */
export async function startRedisContainer(options: RedisServerOptions): Promise<RedisServer> {
  const image = process.env['HOLDFAST_REDIS_IMAGE'] ?? 'redis:7.4-alpine';
  const inMemory = ['--save', '', '--appendonly', 'no', '--protected-mode', 'no'];
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    try {
      const container = await new GenericContainer(image)
        .withCommand(['redis-server', ...inMemory, ...(options.args ?? [])])
        .withExposedPorts({ container: 6379, host: port })
        .withWaitStrategy(Wait.forLogMessage('Ready to accept connections'))
        .start();
      return await controlled(container.getId(), container.getHost(), port);
    } catch (error) {
      if (attempt === 3) throw error;
    }
  }
}

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
      if (!(await isRunning())) return;
      await container.kill({ signal: 'SIGKILL' });
      await container.wait();
    },
    async stop() {
      if (await isRunning()) await container.stop({ t: 5 });
    },
    async pause() {
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
    },
  };
}

async function waitUntilReady(host: string, port: number): Promise<void> {
  const redis = new Redis({ host, port, retryStrategy: () => 20 });
  redis.on('error', () => undefined);
  await redis.ping();
  redis.disconnect();
}
