// The masters of a Redlock that gives tokens, asked past all proxies: what each knows as the last token.
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { LockKeys } from '../../../src/redis/keys.js';

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
