// One Redis as the fair locks of one client see it, without Redis: tests answer each script, and say what is published.
import { afterEach, beforeEach, vi } from 'vitest';
import type { AcquireReply, LockRequest } from '../../src/core/protocol.js';
import { Listeners } from '../../src/core/events.js';
import { FairLockBackend } from '../../src/locks/fair.js';
import { FairPlace } from '../../src/queue/place.js';
import { PROCESS_CLOCK } from '../../src/runtime/clock.js';
import { Schedule } from '../../src/runtime/schedule.js';
import { Server } from '../../src/core/server.js';
import type { RedisClient } from '../../src/redis/client.js';
import { LostError } from '../../src/redis/failure.js';
import { LockKeys } from '../../src/redis/keys.js';
import type { Connection, Heard, Library, Sender } from '../../src/redis/port.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import { expectOutages } from './expected-warnings.js';
import { settle } from './occupancy.js';

/** How long a place in line is kept. */
export const PLACE_LEASE_MS = 30_000;

/** What a join is told of a holder whose lease ends after all that a test waits for. */
export const HELD = ['other:1', 600_000, '1000'];

/** A script that was sent, or a command. */
export interface Sent {
  readonly script: string;
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
  /** Resolves when all that follows at once has happened. */
  answer(reply: unknown): Promise<void>;
  /** By default the connection is lost before the answer comes. */
  fail(error?: Error): Promise<void>;
}

/** With fake timers, for each test of the file that this is called in; returns the present test's. */
export function fakeFairRedisPerTest(): () => FakeFairRedis {
  expectOutages();
  let redis: FakeFairRedis;
  beforeEach(() => {
    vi.useFakeTimers();
    redis = new FakeFairRedis();
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  return () => redis;
}

export class FakeFairRedis {
  readonly server: Server;
  readonly lock: FairLockBackend;
  readonly keys = new LockKeys('orders');
  readonly sent: Sent[] = [];
  /** Every SUBSCRIBE and UNSUBSCRIBE: `subscribe <channel>`. */
  readonly subscriptions: string[] = [];
  #subscriber: Heard | undefined;
  #unconfirmed: (() => void)[] = [];
  #lastOwnerNumber = 0;

  constructor(clientId = 'me') {
    const options = {
      library: this.#library(),
      lockWatchdogTimeoutMs: PLACE_LEASE_MS,
      keyPrefix: '',
      silenceLimitMs: 10_000,
      hasClassicUnlockChannels: false,
      replicas: 0,
      commandTimeoutMs: 10_000,
    };
    this.server = new Server(options, new Listeners(), new Schedule());
    const { connection } = this.server;
    const run: RedisClient['run'] = async (script, keys, args, read) =>
      read(await this.#send(nameOf(script), keys, args));
    const send: Sender['send'] = async (command, args, read) =>
      read(await this.#send(command, [], args));
    vi.spyOn(connection, 'run').mockImplementation(run);
    vi.spyOn(connection, 'senderFor').mockReturnValue({ send } as Partial<Sender> as Sender);
    const newOwnerId = (): string => `${clientId}:${String(++this.#lastOwnerNumber)}`;
    this.lock = new FairLockBackend(this.server, '', this.keys.lock, newOwnerId);
  }

  /** All that were sent of one script, or command, in order. */
  all(script: keyof typeof scripts | 'pubsub'): Sent[] {
    return this.sent.filter((sent) => sent.script === script);
  }

  last(script: keyof typeof scripts | 'pubsub'): Sent {
    const last = this.all(script).at(-1);
    if (!last) throw new Error(`${script} was not sent`);
    return last;
  }

  /** A caller that has not tried yet. */
  place(wanted: Partial<LockRequest> = {}, lock = this.lock, keys = this.keys): FairPlace {
    const defaults = { leaseMs: PLACE_LEASE_MS, isWatched: true, waitMs: Infinity };
    return new FairPlace(lock.serverLine, keys, lock.newOwnerId(), { ...defaults, ...wanted });
  }

  /** Tries, and waits if the join is answered with a holder, as an acquisition does. */
  async join(place: FairPlace, reply: unknown = HELD): Promise<AcquireReply> {
    const triedAtMs = performance.now();
    const trying = place.try();
    await this.last('join').answer(reply);
    const found = await trying;
    if (found.outcome === 'held') place.wait(found, triedAtMs);
    return found;
  }

  /** One that stands in line, behind a holder. */
  async waiting(wanted: Partial<LockRequest> = {}): Promise<FairPlace> {
    const place = this.place(wanted);
    await this.join(place);
    return place;
  }

  /** The lock is handed to `place`, which had this nonce then; resolves when that was heard. */
  async grant(nonce: number, { ownerId }: { ownerId: string }): Promise<void> {
    await this.publish(this.grantChannel, `${String(nonce)} ${ownerId}`);
  }

  get grantChannel(): string {
    return this.keys.grants + this.server.listensAt;
  }

  async publish(channel: string, payload: string): Promise<void> {
    this.#subscriber?.message(channel, payload);
    await settle();
  }

  /** The server confirms all that was subscribed so far. */
  async confirmSubscriptions(): Promise<void> {
    for (const confirm of this.#unconfirmed.splice(0)) confirm();
    await settle();
  }

  /** The subscriber's connection is lost, and there is a new one, on which everything is subscribed anew. */
  reconnectSubscriber(): void {
    this.#subscriber?.ended(new LostError());
    this.#unconfirmed = [];
    vi.advanceTimersByTime(LONGEST_FIRST_PAUSE_MS);
    this.#subscriber?.ready();
  }

  #send(script: string, keys: Sent['keys'], args: Sent['args']): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const answer = (reply: unknown): Promise<void> => {
        resolve(reply);
        return settle();
      };
      const fail = (error: Error = new LostError()): Promise<void> => {
        reject(error);
        return settle();
      };
      this.sent.push({ script, keys, args, answer, fail });
    });
  }

  /** The connection for commands stays on its way; that for subscriptions is ready at once. */
  #library(): Library {
    return {
      target: { kind: 'single', address: { host: 'nowhere', port: 1 }, database: 0 },
      keyPrefix: '',
      clock: { ...PROCESS_CLOCK, setTimer: setTimerOfConnection },
      open: (_address, purpose, heard) => {
        if (purpose === 'commands') return IDLE;
        this.#subscriber = heard;
        queueMicrotask(() => {
          heard.ready();
        });
        return this.#subscriberConnection();
      },
    };
  }

  #subscriberConnection(): Connection {
    return {
      ...IDLE,
      subscribe: (channels, _isSharded, answered) => {
        this.subscriptions.push(...channels.map((channel) => `subscribe ${channel}`));
        this.#unconfirmed.push(() => {
          answered(undefined);
        });
      },
      unsubscribe: (channel) => {
        this.subscriptions.push(`unsubscribe ${channel}`);
      },
      send: (command, [echo], read) =>
        new Promise((resolve) => {
          if (command === 'ping')
            this.#unconfirmed.push(() => {
              resolve(read(echo));
            });
        }),
    };
  }
}

function nameOf(script: unknown): string {
  return Object.entries(scripts).find(([, known]) => known === script)?.[0] ?? 'unknown';
}

const realSetTimeout = setTimeout;

/**
 * Only pauses between connections, and how long a channel lingers, are of the tests' time: how long a connection may be silent is not what
 * they are about.
 */
function setTimerOfConnection(callback: () => void, delayMs: number): NodeJS.Timeout {
  return delayMs <= LONGEST_FIRST_PAUSE_MS || LINGERS_MS.includes(delayMs)
    ? setTimeout(callback, delayMs)
    : realSetTimeout(callback, delayMs).unref();
}

/** How long a lost connection is waited for at most. */
const LONGEST_FIRST_PAUSE_MS = 63;

/** How long a channel stays subscribed when nobody listens, and after how long that is looked at again. */
const LINGERS_MS = [2_000, 500];

/** A connection that never comes about. */
const IDLE: Connection = {
  bytesRead: 0,
  isTls: false,
  send: () => new Promise(() => undefined),
  gather: () => undefined,
  flush: () => undefined,
  subscribe: () => undefined,
  unsubscribe: () => undefined,
  close: () => Promise.resolve(),
};
