// Kept locks: a client may keep a lock after its last hold, so that its own next caller needs no command. The server marks such a lock by a
// count of -1. Another client that finds the mark publishes its wish on the keeper's channel, in the same script call, and the keeper lets
// go. Keeping never outlasts the lease that the server has confirmed, and no hold begins on a confirmation older than `keep`.

import { setImmediate } from 'node:timers';
import {
  deadlineOf,
  type Keepable,
  type KeepableGrant,
  type Keeping,
  type KeepReply,
  type Renewal,
  type Renewer,
  type Watched,
} from '../core/protocol.js';
import { type Guarded, Lookout, WISHES } from '../core/lookout.js';
import type { Server } from '../core/server.js';
import { BATCH_SIZE, inBatches } from '../core/watchdog.js';
import type { RedisClient } from '../redis/client.js';
import type { LockKeys } from '../redis/keys.js';
import { type Clock, elapsedMs, type Instant, now } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/node.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import type { ChannelListener } from '../waiting/channels.js';

/** The longest use of one grant, as a multiple of `keep`: clients that cannot make a wish (Redisson) have their turn then. */
const LONGEST_USE = 4;

/** A grant that had this many holds was worth keeping, whoever wants the lock then. */
const WORTHWHILE_HOLDS = 16;

/** The longest pause after a wish, as a multiple of `keep`. */
const LONGEST_PAUSE = 16;

/** For how many names, and for how many early wishes, the keeper remembers what it knows. */
const MOST_NAMES = 10_000;
const MOST_WISHES = 1_000;

/** What the keeper remembers of a name. All times are monotonic. */
interface Name {
  usedAtMs: number;
  /** Until when it is not kept, since other clients want it. */
  pausedUntilMs: number;
  /** How long the latest pause was, in milliseconds; 0: keeping was worthwhile. */
  pauseMs: number;
}

/** The kept grants of one client on one server. */
export class Keeper implements Due, ChannelListener {
  scheduled: Scheduled | undefined;
  /** The lease of a grant that is marked: a keeper that dies keeps others out for so long. */
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly #server: Server;
  readonly #renewer: Renewer<LockKeys>;
  readonly #clientId: string;
  readonly #wishChannel: string;
  #hasSubscribed = false;
  readonly #kept = new Map<string, KeptGrant>();
  readonly #names = new Map<string, Name>();
  readonly #decided = new WeakMap<object, boolean>();
  /** Owners that were wished for and are not known: perhaps their acquisition has not been answered yet. */
  readonly #wished = new Set<string>();
  /** The grants that are proved at the end of this turn of the event loop. */
  #toProve: KeptGrant[] = [];
  readonly #lookout: Lookout<KeptGrant>;

  constructor(server: Server, clientId: string, renewer: Renewer<LockKeys>) {
    this.#server = server;
    this.#renewer = renewer;
    this.#clientId = clientId;
    this.#wishChannel = WISHES + clientId;
    this.clock = server.schedule.clock;
    this.leaseMs = Math.floor(server.lockWatchdogTimeoutMs / 3);
    this.#lookout = new Lookout(server.schedule, (suspects) => {
      for (const kept of suspects) this.#doubt(kept);
    });
    server.connection.listen({ ready: this.#letAllGo, disturbed: this.#letAllGo });
  }

  // Acquisitions.

  /**
   * Whether an acquisition that is about to be sent may mark the lock: one that is used again and again, and that others do not want.
   * Decided once for all tries of a request, since they have one owner, and a repeat must agree with the copies before it.
   */
  mayMark(request: object, lock: string, keepMs: number): boolean {
    let mayMark = this.#decided.get(request);
    if (mayMark === undefined) this.#decided.set(request, (mayMark = this.#mayMark(lock, keepMs)));
    return mayMark;
  }

  #mayMark(lock: string, keepMs: number): boolean {
    const nowMs = this.clock.nowMs();
    const name = this.#names.get(lock);
    const isUsedAgain = name !== undefined && nowMs - name.usedAtMs <= keepMs;
    this.used(lock);
    if (!this.#hasSubscribed) this.#server.channels.subscribe(this.#wishChannel, () => false, this);
    this.#hasSubscribed = true;
    return isUsedAgain && nowMs >= name.pausedUntilMs && this.isListening;
  }

  /** The lock is used now. */
  used(lock: string): void {
    const name = this.#names.get(lock) ?? { usedAtMs: 0, pausedUntilMs: 0, pauseMs: 0 };
    name.usedAtMs = this.clock.nowMs();
    this.#names.delete(lock);
    this.#names.set(lock, name); // the latest is the last
    forgetOldest(this.#names, MOST_NAMES);
  }

  /** An acquisition found the lock held: if by another client, keeping it for ourselves would be in its way. */
  foundHeld(lock: string, holder: string, keepMs: number): void {
    const name = this.#names.get(lock);
    if (!name || holder.startsWith(`${this.#clientId}:`)) return;
    name.pausedUntilMs = Math.max(name.pausedUntilMs, this.clock.nowMs() + keepMs);
  }

  /** The server has marked an acquisition. */
  keepable(keys: LockKeys, keepMs: number): Keepable {
    return { leaseMs: this.leaseMs, by: (grant) => new KeptGrant(this, grant, keys, keepMs) };
  }

  // Grants.

  get isListening(): boolean {
    return this.#server.channels.isSubscribed(this.#wishChannel);
  }

  begin(kept: KeptGrant): void {
    const { ownerId } = kept.grant;
    this.#kept.set(ownerId, kept);
    this.#lookout.add(kept);
    this.#server.schedule.within(this, kept.keepMs / 2);
    if (this.#wished.delete(ownerId)) this.#wish(kept);
  }

  end(kept: KeptGrant): void {
    this.#kept.delete(kept.grant.ownerId);
    this.#lookout.delete(kept);
  }

  /** The server may no longer have a grant: one that nobody uses is given up. */
  #doubt(kept: KeptGrant): void {
    if (kept.grant.isIdle) kept.grant.letGo();
    else this.prove(kept);
  }

  /** Has a grant confirmed by the server: all of one turn of the event loop in one call. */
  prove(kept: KeptGrant): void {
    if (this.#toProve.push(kept) === 1) inOwnContext(() => setImmediate(this.#proveAll));
  }

  readonly #proveAll = (): void => {
    const watched = this.#toProve.filter(({ grant }) => grant.isKeepable);
    this.#toProve = [];
    const keyOf = ({ target }: KeptGrant): string => this.#renewer.batchKey(target);
    for (const batch of inBatches(watched, keyOf, BATCH_SIZE)) void this.#prove(batch);
  };

  async #prove(batch: readonly KeptGrant[]): Promise<void> {
    const { leaseMs } = this;
    const sentAt = now(this.clock);
    for (const { grant } of batch) grant.renewing?.(leaseMs);
    try {
      const replies = await this.#renewer.renew(batch, leaseMs);
      const deadline = deadlineOf(sentAt, leaseMs);
      const renewal: Renewal = { sentAt, leaseMs, deadline, answeredAt: now(this.clock) };
      for (const [index, { grant }] of batch.entries()) {
        const reply = replies[index] as KeepReply | undefined;
        if (reply !== undefined) grant.renewed(reply, renewal); // undefined: too few replicas have acknowledged it
      }
    } catch {
      // No hold begins on a grant whose proof is old; the next one that would has it proved again, or released.
    } finally {
      for (const kept of batch) kept.isBeingProved = false;
    }
  }

  get connection(): RedisClient {
    return this.#server.connection;
  }

  // What ends the keeping.

  /** A wish for an owner, or, with a second word, what became of it. */
  message(payload: string): void {
    if (payload.includes(' ')) {
      this.#lookout.hear(payload); // which may have no connection of its own so far
      return;
    }
    const ownerId = `${this.#clientId}:${payload}`;
    const kept = this.#kept.get(ownerId);
    if (kept) this.#wish(kept);
    else {
      this.#wished.add(ownerId);
      forgetOldest(this.#wished, MOST_WISHES);
    }
  }

  /** Another client wants the lock. The less a grant was used until then, the longer the name is not kept. */
  #wish(kept: KeptGrant): void {
    const { keepMs, holdCount, target } = kept;
    const name = this.#names.get(target.lock);
    if (name) {
      const doubledMs = Math.min(Math.max(2 * name.pauseMs, keepMs), LONGEST_PAUSE * keepMs);
      name.pauseMs = holdCount < WORTHWHILE_HOLDS ? doubledMs : 0;
      name.pausedUntilMs = this.clock.nowMs() + Math.max(name.pauseMs, keepMs);
    }
    kept.grant.letGo();
  }

  /** Wishes may have been missed, or the server may be another. */
  readonly #letAllGo = (): void => {
    for (const { grant } of [...this.#kept.values()]) grant.letGo();
  };

  subscribed(): void {
    this.#letAllGo();
  }

  /** Looks through the grants, as long as there are any. */
  due(): void {
    const at = now(this.clock);
    let shortestMs = Infinity;
    for (const kept of [...this.#kept.values()]) {
      if (kept.isOver(at) || !this.isListening) {
        const name = this.#names.get(kept.target.lock);
        if (name && kept.grant.isIdle && this.isListening) name.pauseMs = 0; // nobody else wanted it
        kept.grant.letGo();
      } else shortestMs = Math.min(shortestMs, kept.keepMs);
    }
    if (shortestMs < Infinity) this.#server.schedule.within(this, shortestMs / 2);
  }
}

/** One grant that its client may keep. */
class KeptGrant implements Keeping, Watched<LockKeys>, Guarded {
  readonly keepMs: number;
  readonly target: LockKeys;
  readonly #keeper: Keeper;
  readonly grant: KeepableGrant;
  readonly #beganAt: Instant;
  /** When its last hold began, or, if it is kept without one, ended. */
  #usedAt: Instant;
  /** How many holds it has had. */
  holdCount = 0;
  isBeingProved = false;
  readonly isShared = false;

  constructor(keeper: Keeper, grant: KeepableGrant, target: LockKeys, keepMs: number) {
    this.#keeper = keeper;
    this.grant = grant;
    this.target = target;
    this.keepMs = keepMs;
    this.#beganAt = this.#usedAt = now(keeper.clock);
  }

  get leaseMs(): number {
    return this.#keeper.leaseMs;
  }

  get lease(): KeepableGrant {
    return this.grant;
  }

  get ownerId(): string {
    return this.grant.ownerId;
  }

  get places(): Guarded['places'] {
    return [{ connection: this.#keeper.connection, key: this.target.lock }];
  }

  mayGoOn(at: Instant): boolean {
    return this.#keeper.isListening && elapsedMs(this.#beganAt, at) < LONGEST_USE * this.keepMs;
  }

  begin(): void {
    this.#keeper.begin(this);
  }

  holdBegins(at: Instant): void {
    this.#usedAt = at;
    this.holdCount++;
    if (this.isBeingProved || elapsedMs(this.grant.confirmedAt, at) <= this.keepMs / 2) return;
    this.isBeingProved = true;
    this.#keeper.prove(this);
  }

  idles(at: Instant): void {
    this.#usedAt = at;
  }

  /** Whether it was kept for long enough without a hold, or its present hold is a long one, which needs the watchdog's lease. */
  isOver(at: Instant): boolean {
    return elapsedMs(this.#usedAt, at) >= (this.grant.isIdle ? this.keepMs : this.leaseMs / 3);
  }

  end(): void {
    this.#keeper.end(this);
  }
}

function forgetOldest(
  known: { readonly size: number; keys(): Iterable<string>; delete(key: string): boolean },
  most: number,
): void {
  if (known.size <= most) return;
  const [oldest] = known.keys();
  if (oldest !== undefined) known.delete(oldest);
}
