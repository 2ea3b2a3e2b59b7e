// Callers of one process that all want one lock, again and again.

import { setTimeout as sleep } from 'node:timers/promises';
import type { PeerClient } from '../peers/peer.js';
import { monotonicMs } from '../support/clock.js';
import { Counter } from './counter.js';
import type { Crowd as Outcome, CrowdOrder } from './messages.js';

/** How long after the end somebody may still wait before it counts as stuck: a poller that sleeps looks once more. */
const GRACE_MS = 1_000;

interface Stay {
  readonly caller: number;
  readonly askedMs: number;
  readonly enteredMs: number;
  /** What it found inside. */
  number: number;
}

export class Crowd {
  readonly #client: PeerClient;
  readonly #order: CrowdOrder;
  readonly #stays: Stay[] = [];
  readonly #inside = new Set<Promise<void>>();
  /** Since when each caller waits, of those who do. */
  readonly #waiting = new Map<number, number>();
  #counter: Counter | undefined;
  #isOver = false;
  #trouble: Error | undefined;
  readonly #callers: Promise<unknown>;

  constructor(client: PeerClient, order: CrowdOrder) {
    this.#client = client;
    this.#order = order;
    this.#callers = this.#run();
  }

  /** What became of them; waits until all have stopped, or are stuck. */
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
    const inVain = [...late.map(({ askedMs }) => askedMs), ...this.#waiting.values()];
    return {
      callers: counted.map(({ caller }) => caller),
      numbers: counted.map(({ number }) => number),
      waitsMs: [
        ...counted.map(({ askedMs, enteredMs }) => enteredMs - askedMs),
        ...inVain.map((askedMs) => toMs - Math.max(askedMs, fromMs)),
      ],
      entries: this.#stays.length,
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
    const { name, callers, fromMs, counterUrl } = this.#order;
    if (counterUrl !== undefined) this.#counter = await Counter.open(counterUrl, name);
    await sleep(Math.max(fromMs - monotonicMs(), 0));
    await Promise.all(Array.from({ length: callers }, (_, caller) => this.#call(caller))).catch(
      (error: unknown) => {
        if (!this.#isOver) this.#trouble = error as Error;
      },
    );
  }

  async #countUp(counter: Counter, stay: Stay): Promise<void> {
    const counted = counter.countUp().then((number) => {
      stay.number = number;
    });
    this.#inside.add(counted);
    await counted;
    this.#inside.delete(counted);
  }

  async #call(caller: number): Promise<void> {
    const { name, toMs } = this.#order;
    let askedMs = monotonicMs();
    while (toMs < 0 || askedMs < toMs) {
      this.#waiting.set(caller, askedMs);
      const release = await this.#client.acquire(name);
      this.#waiting.delete(caller);
      if (!this.#isOver) {
        const stay = { caller, askedMs, enteredMs: monotonicMs(), number: -1 };
        this.#stays.push(stay);
        if (this.#counter) await this.#countUp(this.#counter, stay);
      }
      await release();
      askedMs = monotonicMs();
    }
  }
}
