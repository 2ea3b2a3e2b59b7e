// Locks on a server that exists only in memory: unit tests decide when it answers, and what.
import type {
  AcquireReply,
  Heir,
  KeepReply,
  LockBackend,
  Renewable,
  Renewer,
} from '../../src/core/protocol.js';
import { type ContestedLock, Contests, ReentrantWaiter } from '../../src/locks/plain.js';
import type { Clock } from '../../src/runtime/clock.js';
import type { Schedule } from '../../src/runtime/schedule.js';
import { LostError, UnsentError } from '../../src/redis/failure.js';
import { LockKeys } from '../../src/redis/keys.js';
import type { Line } from '../../src/waiting/line.js';
import type { ChannelListener, Subscription } from '../../src/waiting/channels.js';
import { Watchdog } from '../../src/core/watchdog.js';

interface Held {
  owner: string;
  count: number;
  endsAtMs: number;
}

/** What becomes of one command. */
export type Fate = 'answered' | 'lost reply' | 'lost command' | 'unsent';

export class FakeServer {
  /** What was executed, in order: `acquire orders me:1`. */
  readonly commands: string[] = [];
  /** Awaited on the way to the server and on the way back; at once by default. */
  travel: () => Promise<void> = () => Promise.resolve();
  /** Decides on each command; `answered` by default. */
  fate: (command: string) => Fate = () => 'answered';
  readonly #held = new Map<string, Held>();
  readonly #forced = new Map<string, string>();
  readonly #listeners = new Map<string, Set<ChannelListener>>();
  /** As on one connection: commands arrive in the order in which they were sent, and so do replies. */
  #lastArrival: Promise<unknown> = Promise.resolve();
  #lastReply: Promise<unknown> = Promise.resolve();

  /** Who holds a lock, and how often. */
  holder(name: string): { owner: string; count: number } | undefined {
    const held = this.#live(name);
    return held && { owner: held.owner, count: held.count };
  }

  /** The names of the locks that are held. */
  get heldNames(): string[] {
    return [...this.#held.keys()].filter((name) => this.#live(name));
  }

  /** How many listen for a lock's releases. */
  listenerCount(name: string): number {
    return this.#listeners.get(name)?.size ?? 0;
  }

  isListening(name: string, listener: ChannelListener | undefined): boolean {
    return listener !== undefined && this.#listeners.get(name)?.has(listener) === true;
  }

  /** Somebody else takes it, also from a holder. */
  hold(name: string, owner = 'somebody-else:1', leaseMs = 30_000): void {
    this.#held.set(name, { owner, count: 1, endsAtMs: performance.now() + leaseMs });
  }

  /** It becomes free, whoever had it. */
  free(name: string): void {
    this.#held.delete(name);
    for (const listener of [...(this.#listeners.get(name) ?? [])]) listener.message('0');
  }

  /** Its key goes, and nobody hears of it. */
  delete(name: string): void {
    this.#held.delete(name);
  }

  async ask<T>(command: string, execute: () => T): Promise<T> {
    const arrival = Promise.all([this.#lastArrival, this.travel()]);
    this.#lastArrival = arrival;
    await arrival;
    const fate = this.fate(command);
    if (fate === 'unsent') throw new UnsentError('not connected');
    if (fate === 'lost command') throw new LostError();
    this.commands.push(command);
    const reply = execute();
    const answer = Promise.all([this.#lastReply, this.travel()]);
    this.#lastReply = answer;
    await answer;
    if (fate === 'lost reply') throw new LostError();
    return reply;
  }

  acquire(name: string, owner: string, leaseMs: number): AcquireReply {
    const held = this.#live(name);
    if (held && held.owner !== owner) {
      const holderTtlMs = held.endsAtMs - performance.now();
      return { outcome: 'held', holder: held.owner, holderTtlMs };
    }
    this.#held.set(name, { owner, count: 1, endsAtMs: performance.now() + leaseMs });
    return { outcome: 'acquired' };
  }

  keep(name: string, owner: string, count: number | undefined, leaseMs: number): KeepReply {
    const held = this.#live(name);
    if (held?.owner !== owner) return this.#gone(name, owner);
    held.count = count ?? held.count;
    held.endsAtMs = Math.max(held.endsAtMs, performance.now() + leaseMs);
    return 'kept';
  }

  release(name: string, owner: string): boolean {
    if (this.#live(name)?.owner !== owner) return false;
    this.free(name);
    return true;
  }

  force(name: string): string | undefined {
    const owner = this.#live(name)?.owner;
    if (owner === undefined) return undefined;
    this.#forced.set(name, owner);
    this.free(name);
    return owner;
  }

  remainTimeToLive(name: string): number {
    const held = this.#live(name);
    return held ? held.endsAtMs - performance.now() : -2;
  }

  subscribe(name: string, listener: ChannelListener): Subscription {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners);
    listeners.add(listener);
    let subscribedAtMs: number | undefined;
    void this.travel().then(() => {
      subscribedAtMs = performance.now();
      if (listeners.has(listener)) listener.subscribed();
    });
    return {
      get isSubscribed() {
        return subscribedAtMs !== undefined;
      },
      mayHaveMissed: (sinceMs) => subscribedAtMs !== undefined && subscribedAtMs > sinceMs,
      close: () => listeners.delete(listener),
    };
  }

  #live(name: string): Held | undefined {
    const held = this.#held.get(name);
    return held && held.endsAtMs > performance.now() ? held : undefined;
  }

  #gone(name: string, owner: string): KeepReply {
    if (this.#forced.get(name) === owner) return 'forced';
    return this.#live(name) ? 'taken' : 'deleted';
  }
}

/** What the locks of one client share. */
export class FakeNode {
  readonly server: FakeServer;
  readonly clientId: string;
  readonly #watchdog: Watchdog;
  readonly #renewer: Renewer<LockKeys>;
  readonly #contests = new Contests();
  readonly #lookEveryMs: number;
  readonly #clock: Clock;
  #lastOwnerNumber = 0;

  constructor(
    server: FakeServer,
    clientId: string,
    lockWatchdogTimeoutMs: number,
    schedule: Schedule,
  ) {
    this.server = server;
    this.#clock = schedule.clock;
    this.#lookEveryMs = lockWatchdogTimeoutMs / 3;
    this.clientId = clientId;
    this.#watchdog = new Watchdog({
      schedule,
      leaseMs: lockWatchdogTimeoutMs,
      failed: () => undefined,
    });
    this.#renewer = {
      kind: 'hold',
      batchKey: () => '',
      renew: (batch, leaseMs) =>
        server.ask('renew', () =>
          batch.map(({ lease, target: { lock } }) =>
            server.keep(lock, lease.ownerId, undefined, leaseMs),
          ),
        ),
    };
  }

  lock(name: string): LockBackend {
    const { server, clientId } = this;
    const contests = this.#contests;
    const line = (): Line<Heir> =>
      contests.line(name, {
        clock: this.#clock,
        lookEveryMs: this.#lookEveryMs,
        subscribe: (listener) => server.subscribe(name, listener),
        roundTrip: () => server.ask(`look ${name}`, () => undefined),
        verify: (grant) => {
          this.#watchdog.renew([grant]);
        },
      });
    const contested: ContestedLock = {
      isFenced: false,
      acquire: (owner, leaseMs) =>
        server.ask(`acquire ${name} ${owner}`, () => server.acquire(name, owner, leaseMs)),
      get heldHere() {
        return contests.heldHere(name);
      },
      get localLine() {
        return contests.known(name);
      },
      line,
    };
    return {
      get localLine() {
        return contests.known(name);
      },
      get isBusyHere() {
        return contests.isBusy(name);
      },
      granted: (grant) => {
        contests.granted(name, grant);
      },
      forget: (owner) => {
        contests.forget(name, owner);
      },
      kind: 'Lock',
      name,
      id: `${clientId} ${name}`,
      newOwnerId: () => `${clientId}:${String(++this.#lastOwnerNumber)}`,
      waiter: (newOwnerId, request) => new ReentrantWaiter(contested, newOwnerId(), request),
      reenter: (owner, count, leaseMs) =>
        server.ask(`reenter ${name} ${owner} ${String(count)}`, () =>
          server.keep(name, owner, count, leaseMs),
        ),
      release: async (owner) => {
        const isHeard = server.isListening(name, contests.known(name));
        if (isHeard) contests.known(name)?.releasing();
        const released = server.ask(`release ${name} ${owner}`, () => server.release(name, owner));
        const others = server.listenerCount(name) - Number(isHeard);
        const isReleased = await released;
        contests.known(name)?.released(others);
        return isReleased;
      },
      watch: (lease: Renewable) => {
        this.#watchdog.watch(lease, new LockKeys(name), this.#renewer);
      },
      unwatch: (lease: Renewable) => {
        this.#watchdog.unwatch(lease);
      },
      forceUnlock: () => server.ask(`force ${name}`, () => [server.force(name) ?? []].flat()),
      isLocked: () => server.ask(`look ${name}`, () => server.holder(name) !== undefined),
      holdCount: (owner) =>
        server.ask(`count ${name} ${owner}`, () => {
          const held = server.holder(name);
          return held?.owner === owner ? held.count : 0;
        }),
      remainTimeToLive: () => server.ask(`ttl ${name}`, () => server.remainTimeToLive(name)),
    };
  }
}
