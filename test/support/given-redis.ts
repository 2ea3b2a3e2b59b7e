// The Redis that HOLDFAST_REDIS_URL names, or else a throwaway one, and plain commands to it: for the demo, the benchmarks and
// the tests.
import { startRedis } from './redis-server.js';
import { NEVER, settledWithin } from './time.js';

interface GivenRedis extends AsyncDisposable {
  readonly url: string;
}

/** How long the server that was named may take to answer. */
const ANSWER_LIMIT_MS = 5_000;

/** The server that was named cannot be used: the message says all that there is to say. */
export class UnusableRedisError extends Error {}

/** Starts a server that ends with this process at the latest, unless the environment names one, which is left running. */
export async function givenRedis(): Promise<GivenRedis> {
  const url = process.env['HOLDFAST_REDIS_URL'];
  if (!url) return startRedis();
  await assertUsable(url);
  return { url, [Symbol.asyncDispose]: () => Promise.resolve() };
}

export function withoutPassword(url: string): string {
  return url.replace(/\/\/.*@/, '//');
}

/** @throws {@link UnusableRedisError} it does not answer, or does not let us in */
async function assertUsable(url: string): Promise<void> {
  let trouble: Error | undefined;
  let redis: PlainRedis | undefined;
  try {
    redis = plainRedis(url, (error) => (trouble ??= error));
    const answer = await settledWithin(redis.send('PING'), ANSWER_LIMIT_MS);
    if (answer === NEVER) trouble ??= new Error(`no answer within ${ANSWER_LIMIT_MS} ms`);
  } catch (error) {
    trouble ??= error as Error;
  } finally {
    redis?.disconnect();
  }
  if (!trouble) return;
  throw new UnusableRedisError(
    `the Redis at ${withoutPassword(url)}, which HOLDFAST_REDIS_URL names, cannot be used: ${inPlainWords(trouble)}`,
  );
}

function inPlainWords({ message }: Error): string {
  if (/^(NOAUTH|WRONGPASS|NOPERM)/.test(message))
    return `it wants another user or password (redis://user:password@host:port): ${message}`;
  return message;
}

// Plain commands to Redis by the client library that is installed: ioredis, or else node-redis, as holdfast itself chooses.

const ioredis = await import('ioredis').catch(() => undefined);
const nodeRedis = ioredis ? undefined : await import('redis');

type Command = readonly [name: string, ...args: (string | number)[]];

interface Connection {
  send(...command: Command): Promise<unknown>;
  disconnect(): void;
}

export interface PlainRedis extends Connection {
  /** MULTI, these commands, EXEC; resolves to the reply to each of them. */
  transaction(...commands: readonly Command[]): Promise<unknown[]>;
}

/** One connection, not made again once it is lost: what is sent then rejects. `onError` hears why. */
export function plainRedis(
  url: string,
  onError: (error: Error) => void = () => undefined,
): PlainRedis {
  const connection = ioredis ? byIoredis(url, onError) : byNodeRedis(url, onError);
  return {
    ...connection,
    async transaction(...commands) {
      const all: readonly Command[] = [['MULTI'], ...commands, ['EXEC']];
      const replies = await Promise.all(all.map((command) => connection.send(...command)));
      return replies.at(-1) as unknown[];
    },
  };
}

function byIoredis(url: string, onError: (error: Error) => void): Connection {
  const redis = new ioredis!.Redis(url, { retryStrategy: () => null });
  redis.on('error', onError);
  return {
    send: (...command) => redis.call(...command),
    disconnect() {
      // Once more would keep the process for as long as ioredis waits for the end of a connection: 2 s.
      if (redis.status !== 'end') redis.disconnect();
    },
  };
}

function byNodeRedis(url: string, onError: (error: Error) => void): Connection {
  const redis = nodeRedis!.createClient({ url, socket: { reconnectStrategy: false } });
  redis.on('error', onError);
  const connected = redis.connect();
  connected.catch(() => undefined); // whoever sends something learns it
  return {
    async send(...command) {
      await connected;
      return await redis.sendCommand(command.map(String));
    },
    disconnect() {
      if (redis.isOpen) redis.destroy();
    },
  };
}
