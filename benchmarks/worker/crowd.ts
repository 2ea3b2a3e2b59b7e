// Callers of one process that all want one lock, again and again, and their work inside.
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { connected, type PeerClient, type Release } from '../peers/peer.js';
import { monotonicMs } from '../support/figures.js';
import type { Crowd as Outcome, CrowdOrder } from './messages.js';

/** How long after the end a caller may still wait before it counts as stuck: a poller that sleeps polls once more. */
const GRACE_MS = 1_000;

interface Ask {
  readonly caller: number;
  readonly askedMs: number;
  readonly writes: boolean;
}

interface Stay extends Ask {
  readonly enteredMs: number;
  /** The number that it found inside. */
  found: Found;
}

/** Nothing was read. */
const NOTHING: Found = { number: -1, isIntrusion: false };

export class Crowd {
  readonly #client: PeerClient;
  readonly #order: CrowdOrder;
  readonly #stays: Stay[] = [];
  readonly #inside = new Set<Promise<void>>();
  /** What each waiting caller waits for. */
  readonly #waiting = new Map<number, Ask>();
  #counter: Counter | undefined;
  #isOver = false;
  #trouble: Error | undefined;
  readonly #callers: Promise<unknown>;

  constructor(client: PeerClient, order: CrowdOrder) {
    this.#client = client;
    this.#order = order;
    this.#callers = this.#run();
  }

  /** The results of the callers; waits until all have stopped, or are stuck. */
  async disband(): Promise<Outcome> {
    const { fromMs, toMs } = this.#order;
    await sleep(Math.max(toMs - monotonicMs(), 0));
    const grace = new AbortController();
    await Promise.race([
      this.#callers,
      sleep(GRACE_MS, undefined, { signal: grace.signal }).catch(() => undefined),
    ]);
    grace.abort();
    this.#isOver = true;
    await Promise.allSettled(this.#inside);
    if (this.#trouble) throw this.#trouble;
    const counted = this.#stays.filter(({ enteredMs }) => enteredMs < toMs);
    const late = this.#stays.filter(
      ({ askedMs, enteredMs }) => askedMs < toMs && enteredMs >= toMs,
    );
    const inVain = [...late, ...this.#waiting.values()];
    const waits = [
      ...counted.map(({ askedMs, enteredMs, writes }) => ({ ms: enteredMs - askedMs, writes })),
      ...inVain.map(({ askedMs, writes }) => ({ ms: toMs - Math.max(askedMs, fromMs), writes })),
    ];
    return {
      callers: counted.map(({ caller }) => caller),
      numbers: counted.map(({ found }) => found.number),
      waitsMs: waits.map(({ ms }) => ms),
      writerWaitsMs: waits.filter(({ writes }) => writes).map(({ ms }) => ms),
      entries: this.#stays.length,
      writes: this.#stays.filter(({ writes }) => writes).length,
      intrusions: this.#stays.filter(({ found }) => found.isIntrusion).length,
      stuck: this.#waiting.size,
    };
  }

  /** How many stays begin from now on until then. */
  async tally(durationMs: number): Promise<number> {
    const before = this.#stays.length;
    await sleep(durationMs);
    if (this.#trouble) throw this.#trouble;
    return this.#stays.length - before;
  }

  async #run(): Promise<void> {
    const { name, callers, fromMs, counterUrl, permits } = this.#order;
    if (counterUrl !== undefined) this.#counter = await Counter.open(counterUrl, name, permits);
    await sleep(Math.max(fromMs - monotonicMs(), 0));
    await Promise.all(Array.from({ length: callers }, (_, caller) => this.#call(caller))).catch(
      (error: unknown) => {
        if (!this.#isOver) this.#trouble = error as Error;
      },
    );
  }

  async #lookInside(counter: Counter, stay: Stay): Promise<void> {
    const looked = counter.stay(stay.writes).then((found) => {
      stay.found = found;
    });
    this.#inside.add(looked);
    await looked;
    this.#inside.delete(looked);
  }

  async #call(caller: number): Promise<void> {
    const { name, toMs, writeEvery = 1, restMs } = this.#order;
    let askedMs = monotonicMs();
    // Each from a number of its own, so that not all write at the same time.
    for (let number = caller; toMs < 0 || askedMs < toMs; number++) {
      const ask = { caller, askedMs, writes: number % writeEvery === 0 };
      this.#waiting.set(caller, ask);
      const release = await this.#acquire(name, ask.writes);
      this.#waiting.delete(caller);
      if (!this.#isOver) {
        const stay = { ...ask, enteredMs: monotonicMs(), found: NOTHING };
        this.#stays.push(stay);
        if (this.#counter) await this.#lookInside(this.#counter, stay);
      }
      await release();
      if (restMs !== undefined) await sleep(Math.random() * restMs);
      askedMs = monotonicMs();
    }
  }

  #acquire(name: string, writes: boolean): Promise<Release> {
    const client = this.#client;
    return !writes && client.acquireToRead ? client.acquireToRead(name) : client.acquire(name);
  }
}

// The work inside a lock, always two round trips. A caller that must be alone reads a number, awaits and writes it: two at a time overwrite
// each other, so the number is behind the count of the stays from then on. A reader reads it twice: it must not change. A holder of a
// permit counts up and down again: the number must never exceed the permits.

/** What a caller found inside. */
interface Found {
  readonly number: number;
  /** Whether that must never happen. */
  readonly isIntrusion: boolean;
}

class Counter {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #permits: number | undefined;

  private constructor(redis: Redis, key: string, permits: number | undefined) {
    this.#redis = redis;
    this.#key = key;
    this.#permits = permits;
  }

  static readonly #connections = new Map<string, Promise<Redis>>();

  /** On a connection that all counters of this process share; `permits`: of a semaphore. */
  static async open(url: string, name: string, permits?: number): Promise<Counter> {
    let connection = Counter.#connections.get(url);
    if (!connection) Counter.#connections.set(url, (connection = connected(url)));
    return new Counter(await connection, `${name}:counter`, permits);
  }

  /** One stay; `writes`: the caller must be alone. */
  async stay(writes: boolean): Promise<Found> {
    if (this.#permits !== undefined) return await this.#passThrough(this.#permits);
    const number = await this.#read();
    if (!writes) return { number, isIntrusion: (await this.#read()) !== number };
    await this.#redis.set(this.#key, number + 1);
    return { number, isIntrusion: false };
  }

  async #passThrough(permits: number): Promise<Found> {
    const number = await this.#redis.incr(this.#key);
    await this.#redis.decr(this.#key);
    return { number, isIntrusion: number > permits };
  }

  async #read(): Promise<number> {
    return Number(await this.#redis.get(this.#key));
  }
}
