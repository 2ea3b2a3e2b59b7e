// One Redis in memory, with just the scripts that reentrant locks and Redlocks send, and a clock that jumps from timer to timer.
import { setImmediate } from 'node:timers';
import { replyError } from '../../src/redis/failure.js';
import type { Argument, Connection, Heard, Library } from '../../src/redis/port.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import { PROCESS_CLOCK, type Clock, type Timer } from '../../src/runtime/clock.js';

interface Held {
  owner: string;
  count: number;
  endsAtMs: number;
}

export class TinyRedis {
  /** All commands, in the order in which they came: `<time> <command> <arguments>`. */
  readonly log: string[] = [];
  /** Whether it refuses scripts for now. */
  isLoading = false;
  readonly #id: string;
  readonly #clock: Clock;
  readonly #held = new Map<string, Held>();
  readonly #listeners = new Map<string, Set<Heard>>();

  constructor(id: string, clock: Clock = PROCESS_CLOCK) {
    this.#id = id;
    this.#clock = clock;
  }

  /** A client's way to it; `own`: its time and its random numbers. */
  library(own: Pick<Library, 'clock' | 'random'> = {}): Library {
    return {
      ...own,
      target: { kind: 'single', address: { host: this.#id, port: 1 }, database: 0 },
      keyPrefix: '',
      open: (_address, _purpose, heard) => this.#open(heard),
    };
  }

  #open(heard: Heard): Connection {
    let bytesRead = 0;
    let isOpen = true;
    const later = (tell: () => void): void => {
      queueMicrotask(() => {
        bytesRead++;
        if (isOpen) tell();
      });
    };
    later(heard.ready);
    return {
      get bytesRead() {
        return bytesRead;
      },
      isTls: false,
      send: (command, args, read, failed) => {
        const isRefused = this.isLoading && command === 'evalsha';
        const reply = isRefused ? undefined : this.#execute(command, args);
        const answered = new Promise<void>(later);
        return answered.then(() => (isRefused ? failed(replyError('LOADING')) : read(reply)));
      },
      gather: () => undefined,
      flush: () => undefined,
      subscribe: (channels, _isSharded, answered) => {
        for (const channel of channels) this.#listenersOf(channel).add(heard);
        later(() => {
          answered(undefined);
        });
      },
      unsubscribe: (channel) => {
        this.#listenersOf(channel).delete(heard);
      },
      close: () => {
        if (isOpen)
          queueMicrotask(() => {
            heard.ended(undefined);
          });
        isOpen = false;
        for (const listeners of this.#listeners.values()) listeners.delete(heard);
        return Promise.resolve();
      },
    };
  }

  #execute(command: string, args: readonly Argument[]): unknown {
    if (command === 'script') return 'OK';
    if (command === 'info')
      return `redis_version:7.2.0\r\nrun_id:${this.#id}\r\nuptime_in_seconds:90000\r\n`;
    if (command === 'ping') return args[0] ?? 'PONG';
    const [sha1, keyCount, ...rest] = args;
    const script = Object.values(scripts).find((known) => known.sha1 === sha1);
    const what = script ? [script.name, ...rest] : [command, ...args];
    this.log.push([Math.round(this.#clock.nowMs()), ...what].join(' '));
    if (command === 'hget') return this.#heldBy(String(args[0]), args[1])?.count.toString() ?? null;
    if (command === 'exists') return Number(this.#live(String(args[0])) !== undefined);
    const keys = rest.slice(0, Number(keyCount)).map(String);
    return this.#run(String(what[0]), keys, rest.slice(Number(keyCount)));
  }

  #run(name: string, keys: readonly string[], args: readonly Argument[]): unknown {
    const [lock = ''] = keys;
    const [first, second, third] = args;
    switch (name) {
      case 'acquire':
        return this.#acquire(lock, String(first), Number(second)) ?? 1;
      case 'vote':
        return [0, ...(this.#acquire(lock, String(first), Number(second)) ?? [])];
      case 'gather':
        return Array<null>(String(first).length).fill(null); // each is sent alone then
      case 'renew': {
        const locks = keys.filter((_, index) => index % 2 === 0);
        const kept = locks.map((key, index) => this.#keep(key, args[index + 1], Number(first)));
        return kept.every((reply) => reply === 'kept') ? 'kept' : kept;
      }
      case 'reenter':
        return this.#keep(lock, first, Number(third));
      case 'release':
        return this.#heldBy(lock, first) ? this.#free(lock, String(second), third !== '') : 0;
      case 'remember':
        return keys.length;
      default:
        throw new Error(`not here: ${name}`);
    }
  }

  #acquire(lock: string, owner: string, leaseMs: number): [string, number] | undefined {
    const nowMs = this.#clock.nowMs();
    const held = this.#live(lock);
    if (held && held.owner !== owner) return [held.owner, Math.ceil(held.endsAtMs - nowMs)];
    this.#held.set(lock, { owner, count: 1, endsAtMs: nowMs + leaseMs });
    return undefined;
  }

  #keep(lock: string, owner: Argument | undefined, leaseMs: number): string {
    const held = this.#heldBy(lock, owner);
    if (!held) return this.#live(lock) ? 'taken' : 'deleted';
    held.endsAtMs = Math.max(held.endsAtMs, this.#clock.nowMs() + leaseMs);
    return 'kept';
  }

  #free(lock: string, channel: string, isTold: boolean): number {
    this.#held.delete(lock);
    const listeners = isTold ? this.#listenersOf(channel) : [];
    for (const { message } of listeners)
      queueMicrotask(() => {
        message(channel, '0');
      });
    return 1 + [...listeners].length;
  }

  #live(lock: string): Held | undefined {
    const held = this.#held.get(lock);
    return held && held.endsAtMs > this.#clock.nowMs() ? held : undefined;
  }

  #heldBy(lock: string, owner: Argument | undefined): Held | undefined {
    const held = this.#live(lock);
    return held?.owner === owner ? held : undefined;
  }

  #listenersOf(channel: string): Set<Heard> {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners);
    return listeners;
  }
}

// A clock that jumps from timer to timer, as soon as nothing else can happen: hours take no time, and each run is the same.

/** After so many turns of the event loop in which no time passes, nothing more happens without a timer. */
const TURNS = 10;

interface Pending {
  readonly atMs: number;
  readonly callback: () => void;
}

export class JumpingClock implements Clock {
  #nowMs = 0;
  /** In the order in which they were set. */
  readonly #timers = new Map<object, Pending>();

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Date.UTC(2030) + this.#nowMs;
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const timer: Timer = { ref: () => timer, unref: () => timer };
    this.#timers.set(timer, { callback, atMs: this.#nowMs + Math.max(delayMs, 1) });
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    if (timer) this.#timers.delete(timer);
  }

  get timerCount(): number {
    return this.#timers.size;
  }

  /** Lets time pass until the promise is settled. */
  async until<T>(promise: Promise<T>): Promise<T> {
    const settled = promise.then(Boolean, Boolean).then(() => true);
    while (!(await Promise.race([turns(), settled])))
      if (!this.#jump(Infinity)) throw new Error('nothing is left to happen');
    return await promise;
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    do await turns();
    while (this.#jump(untilMs));
    this.#nowMs = untilMs;
  }

  /** Jumps to the next timer that is due by `untilMs`. Returns whether there was one. */
  #jump(untilMs: number): boolean {
    const [first] = [...this.#timers].sort(([, one], [, other]) => one.atMs - other.atMs);
    if (!first || first[1].atMs > untilMs) return false;
    const [timer, { atMs, callback }] = first;
    this.#timers.delete(timer);
    this.#nowMs = Math.max(this.#nowMs, atMs);
    callback();
    return true;
  }
}

/** Numbers from 0 to 1 that are the same in every run. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647;
}

async function turns(): Promise<false> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
  return false;
}
