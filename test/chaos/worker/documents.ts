// What fenced locks guard, a document for each, on a server where nothing goes wrong; and what the masters of a Redlock know of
// their tokens.
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { LockKeys } from '../../../src/redis/keys.js';

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

// The masters of a Redlock that gives tokens, asked past all proxies: what each knows as the last token.

/** A master that stands still, or is down, says nothing. */
const LIMIT_MS = 200;

export class Witnesses {
  readonly #masters: readonly Redis[];

  constructor(urls: readonly string[]) {
    this.#masters = urls.map((url) => {
      const options = { commandTimeout: LIMIT_MS, maxRetriesPerRequest: 0 };
      const master = new Redis(url, { ...options, enableOfflineQueue: false });
      master.on('error', () => undefined); // it is down
      return master;
    });
  }

  /** undefined: it did not say. */
  async ask(lock: string): Promise<(string | undefined)[]> {
    const key = new LockKeys(lock).counter(false);
    const answers = this.#masters.map(async (master) => (await master.get(key)) ?? '0');
    return await Promise.all(answers.map((answer) => answer.catch(() => undefined)));
  }

  /** Resolves when they keep the process from ending no more. */
  async close(): Promise<void> {
    await Promise.all(
      this.#masters.map(async (master) => {
        if (master.status === 'end') return;
        const ended = once(master, 'end');
        master.disconnect();
        await ended;
      }),
    );
  }
}
