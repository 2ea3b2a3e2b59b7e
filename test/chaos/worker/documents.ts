// What fenced locks guard: a document for each, on a server where nothing goes wrong, which refuses who comes with an older token.
import { once } from 'node:events';
import { Redis } from 'ioredis';

const WRITE = `
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and tonumber(seen) > tonumber(ARGV[1]) then return seen end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'text', ARGV[2])
return false`;

export class Documents {
  readonly #redis: Redis;

  constructor(url: string) {
    this.#redis = new Redis(url);
  }

  /** Returns the larger token that it has seen, if it refuses this one. */
  async write(lock: string, token: bigint, text: string): Promise<string | undefined> {
    const seen = await this.#redis.eval(WRITE, 1, lock, String(token), text);
    return (seen as string | null) ?? undefined;
  }

  /** Resolves when it keeps the process from ending no more. */
  async close(): Promise<void> {
    const ended = once(this.#redis, 'end');
    this.#redis.disconnect();
    await ended;
  }
}
