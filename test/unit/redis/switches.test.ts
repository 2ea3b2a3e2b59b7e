// What a client does when Sentinels tell that another server is the master.
import { expect, it } from 'vitest';
import type { Events } from '../../../src/api/events.js';
import { RedisClient } from '../../../src/redis/client.js';
import { LostError } from '../../../src/redis/failure.js';
import { textOf, type Address, type Heard, type Library } from '../../../src/redis/port.js';
import { PROCESS_CLOCK, type Clock } from '../../../src/runtime/clock.js';

const SENTINEL: Address = { host: 'sentinel', port: 1 };

/** One Sentinel that answers, and names a master at which nobody can be reached. */
class DeadMaster {
  /** The masters that were tried, in order. */
  readonly tried: string[] = [];
  #master = 'old';
  #sentinel: Heard | undefined;

  readonly library: Library = {
    target: {
      kind: 'sentinel',
      name: 'it',
      database: 0,
      sentinels: [SENTINEL],
      isFixed: true,
      remap: () => undefined,
    },
    keyPrefix: '',
    open: (address, purpose, heard) => {
      if (purpose === 'sentinel') this.#sentinel = heard;
      else this.tried.push(textOf(address));
      queueMicrotask(() => {
        if (purpose === 'sentinel') heard.ready();
        else heard.ended(new LostError());
      });
      return {
        bytesRead: 0,
        isTls: false,
        send: (_command, _args, read) => Promise.resolve(read([this.#master, '1'])),
        subscribe: () => undefined,
        unsubscribe: () => undefined,
        gather: () => undefined,
        flush: () => undefined,
        close: () => Promise.resolve(),
      };
    },
  };

  tells(master: string): void {
    this.#master = master;
    this.#sentinel?.message('+switch-master', `it old 1 ${master} 1`);
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it('a client that pauses between attempts connects to the new master at once', async () => {
  const dead = new DeadMaster();
  // No pause ever ends by itself.
  const clock: Clock = { ...PROCESS_CLOCK, setTimer: () => setTimeout(() => undefined) };
  const events = { emit: () => true, outage: () => undefined } as Partial<Events> as Events;
  const client = new RedisClient(
    {
      library: { ...dead.library, clock },
      silenceLimitMs: 1_000,
      commandTimeoutMs: 1_000,
      replicas: 0,
    },
    events,
  );
  await turn();
  expect(dead.tried).toEqual(['old:1']);
  dead.tells('new');
  await turn();
  expect(dead.tried).toEqual(['old:1', 'new:1']);
  await client.close();
});
