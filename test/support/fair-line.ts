// The line of a fair lock as the server has it, callers that join it and note their turns, and clients for each test.
import type { Redis } from 'ioredis';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect } from 'vitest';
import type { AcquireOptions, FairLock, Hold, Holdfast } from '../../src/index.js';
import { newClient } from './clients.js';
import { gate } from './occupancy.js';
import { eventually } from './time.js';
import { uniqueName } from './unique-name.js';

export interface Caller {
  readonly ownerId: string;
  /** Settles as its `withLock` does. */
  readonly done: Promise<void>;
}

/** A caller that keeps the lock until it is told to let go. */
export interface Stayer {
  /** Lets go, now or as soon as it is its turn; resolves when that is done. */
  end(): Promise<void>;
}

interface CallerOptions extends AcquireOptions {
  /** What it does while it holds the lock. */
  readonly body?: (hold: Hold) => unknown;
}

export class FairLine {
  readonly name: string;
  /** Lock, line and places. */
  readonly keys: readonly [string, string, string];
  /** Who has had the lock, in order. */
  readonly turns: string[] = [];
  readonly #redis: Redis;
  #inside = 0;

  constructor(redis: Redis, name = uniqueName('fair')) {
    this.#redis = redis;
    this.name = name;
    this.keys = [name, `holdfast_line:{${name}}`, `holdfast_places:{${name}}`];
  }

  lockOf(client: Holdfast): FairLock {
    return client.getFairLock(this.name);
  }

  /** Those in line, by their tickets. */
  async owners(): Promise<string[]> {
    return await this.#redis.zrange(this.keys[1], '0', '-1');
  }

  async holder(): Promise<string | undefined> {
    return (await this.#redis.hkeys(this.name))[0];
  }

  /** Milliseconds that are left of lock, line and places. */
  async ttls(): Promise<number[]> {
    return await Promise.all(this.keys.map((key) => this.#redis.pttl(key)));
  }

  /** Waits until so many stand in line; thousands take a while on a busy machine. */
  async hasLength(length: number): Promise<void> {
    await eventually(async () => {
      expect(await this.#redis.zcard(this.keys[1])).toBe(length);
    }, 25_000);
  }

  /** Resolves when the caller stands in line, which takes that the lock is held. */
  async join(client: Holdfast, label: string, options: CallerOptions = {}): Promise<Caller> {
    let done!: Promise<void>;
    const ownerId = await this.joined(client.clientId, () => {
      done = this.call(client, label, options);
    });
    return { ownerId, done };
  }

  /** The same, with a caller that keeps the lock. */
  async joinAndStay(client: Holdfast, label: string): Promise<Stayer> {
    const { opened, open } = gate();
    const { done } = await this.join(client, label, { body: () => opened });
    return {
      end: async () => {
        open();
        await done;
      },
    };
  }

  /** Resolves when this caller has the lock, or has had it. */
  async hasTurn(label: string): Promise<void> {
    await eventually(() => {
      expect(this.turns).toContain(label);
    });
  }

  /** Resolves to the owner that this client has in line since `start` was called, when it would hear its grant. */
  async joined(clientId: string, start: () => void): Promise<string> {
    const before = new Set(await this.owners());
    start();
    return await eventually(async () => {
      const own = (await this.owners()).filter((owner) => owner.startsWith(`${clientId}:`));
      const added = own.filter((owner) => !before.has(owner));
      expect(added).toHaveLength(1);
      const place = (await this.#redis.hget(this.keys[2], added[0]!)) ?? '';
      expect(place).toMatch(/^\d+ \d+ \d 1 /); // it listens
      return added[0]!;
    });
  }

  /** One turn: nobody else is inside meanwhile. */
  call(
    client: Holdfast,
    label: string,
    { body = nextTurn, ...request }: CallerOptions = {},
  ): Promise<void> {
    const done = this.lockOf(client).withLock(request, async (hold) => {
      this.turns.push(label);
      this.#inside++;
      try {
        expect(this.#inside).toBe(1);
        await body(hold);
      } finally {
        this.#inside--;
      }
    });
    done.catch(() => undefined); // who awaits it learns it
    return done;
  }

  /** Fails unless lock, line and places are gone, now or soon. */
  async isGone(): Promise<void> {
    await eventually(async () => {
      expect(await this.ttls()).toEqual([-2, -2, -2]);
    }, 2_000);
  }
}

// The line of one fair lock and the clients that use it, new for each test.

/**
 * For each test of the file, or of the `describe`, that this is called in; returns the present test's. A test fails if it
 * leaves anything of the line behind.
 */
export function fairClientsPerTest<Clients extends Record<string, Holdfast>>(
  redis: Redis,
  connect: () => Clients | Promise<Clients>,
): () => Clients & { readonly line: FairLine } {
  let line: FairLine;
  let clients: Clients;
  beforeEach(async () => {
    line = new FairLine(redis);
    clients = await connect();
  });
  afterEach(async () => {
    await line.isGone();
    await Promise.all(Object.values(clients).map((client) => client.close()));
  });
  return () => ({ ...clients, line });
}

interface TwoFairClients {
  readonly line: FairLine;
  readonly client: Holdfast;
  readonly other: Holdfast;
  /** The client's, and the other's. */
  readonly lock: FairLock;
  readonly others: FairLock;
}

/** The same with two of them, whose leases are longer than a test. */
export function twoFairClientsPerTest(redis: Redis): () => TwoFairClients {
  const clients = fairClientsPerTest(redis, () => ({
    client: newClient({ lockWatchdogTimeout: 30_000 }),
    other: newClient({ lockWatchdogTimeout: 30_000 }),
  }));
  return () => {
    const { line, client, other } = clients();
    return { line, client, other, lock: line.lockOf(client), others: line.lockOf(other) };
  };
}
