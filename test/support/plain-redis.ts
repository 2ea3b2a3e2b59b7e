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
