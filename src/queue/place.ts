// One caller's place in the queue for a lock. On the server it is a lease, which the watchdog renews, and it has the nonce of the
// command that made or renewed it last. Whoever grants the lock to the place says that nonce, so here stands which grants count, and
// from when.

import type { SeenHolder } from '../api/errors.js';
import {
  type AcquireReply,
  type Deadline,
  deadlineOf,
  type HandedOver,
  leftMs,
  type LockRequest,
  type Renewal,
  type Waiter,
} from '../core/protocol.js';
import { type Clock, elapsedMs, type Instant, now, type TimeLimit } from '../runtime/clock.js';
import type { LastAnswer } from '../waiting/line.js';
import {
  grantNext,
  type PlaceReply,
  type Queue,
  type QueuedLock,
  type QueuedPlace,
  queueOf,
} from './queue.js';

/** The time to live of a lock that is free. */
const FREE = -2;

type State =
  /** The server has nothing of it but what its caller has: it never asked for a place, or it has the lock. */
  | { readonly kind: 'outside' }
  /** Its caller is to ask the server, or does. */
  | { readonly kind: 'asking' }
  /** Its caller sleeps. */
  | { readonly kind: 'waiting' }
  /** The lock was handed over to it, and its caller has not taken it so far. */
  | ({ readonly kind: 'granted' } & PlaceGrant)
  | { readonly kind: 'left' };

/** A hand-over of the lock to the place. */
interface PlaceGrant {
  /** The nonce that the place had then. */
  readonly nonce: number;
  /** Until when the grant may be relied on. */
  readonly deadline: Deadline;
  /** The token of a fenced lock; undefined: none could be given, or it was not told. */
  readonly token: bigint | undefined;
}

/** A command that made or renewed the place. */
interface SentNonce {
  readonly nonce: number;
  readonly at: Instant;
}

export class Place implements Waiter, QueuedPlace {
  readonly ownerId: string;
  readonly isWatched = true;
  readonly lock: QueuedLock;
  readonly #request: LockRequest;
  #state: State = { kind: 'outside' };
  woken: Promise<void> = Promise.resolve();
  #resolveWoken: () => void = () => undefined;
  /** The ticket decides on the order in the queue; kept, so that a place that got lost on the server can be had again. */
  #ticket = '0';
  /** The newest command that was confirmed, and those since then; oldest first, so by rising nonces. */
  readonly #sentNonces: SentNonce[] = [];
  /** When the command was sent that was confirmed last. */
  #confirmedAt: Instant;
  /** Whether the latest command told the server that we hear of grants. */
  #toldListening = false;
  /** Whether the server said that it has dropped the place for what its caller wants. */
  #wasDropped = false;

  constructor(lock: QueuedLock, ownerId: string, request: LockRequest) {
    this.lock = lock;
    this.ownerId = ownerId;
    this.#request = request;
    this.#confirmedAt = now(this.#clock);
  }

  get mayTry(): boolean {
    return this.#state.kind !== 'waiting';
  }

  /** Takes the lock if it was handed over; joins the queue otherwise, or again. */
  try(limit?: TimeLimit): Promise<AcquireReply> {
    const handedOver = this.claim();
    return handedOver ? Promise.resolve(handedOver) : this.#join(limit);
  }

  /**
   * Takes the lock, if it was handed over, without asking. Asks first (undefined) with less than half of the place's lease left: by then a
   * renewal may have failed, or we were paused. Also where replicas must know, since whoever handed over did not wait for them; and where a
   * fenced lock's token was not told.
   */
  claim(): HandedOver | undefined {
    if (this.#state.kind !== 'granted') return undefined;
    const grant = this.#state;
    const isTold = !this.lock.isFenced || grant.token !== undefined;
    const isSure = leftMs(grant.deadline) >= this.#placeLeaseMs / 2;
    const mayRely = isTold && isSure && !this.lock.server.connection.isReplicated;
    this.#become({ kind: mayRely ? 'outside' : 'asking' });
    return mayRely ? this.#handedOver(grant) : undefined;
  }

  get lastAnswer(): LastAnswer | undefined {
    return this.#state.kind === 'outside' ? undefined : this.#queue.lastAnswer;
  }

  look(sinceMs: number): void {
    this.#queue.look(this, sinceMs);
  }

  wait(seen: SeenHolder, triedAtMs: number): void {
    if (this.#state.kind !== 'asking') return; // no wait, or the lock was handed over meanwhile
    this.#become({ kind: 'waiting' });
    // A renewal that found the place gone may have overtaken the join that made it anew: a grant to that place would be refused.
    const isInDoubt = this.#sentNonces.length === 0;
    const isDeafThere = this.#queue.isListening && !this.#toldListening;
    this.#queue.wait(this, seen, triedAtMs, isInDoubt || isDeafThere);
  }

  leave(leaseMs?: number): boolean {
    const mayStand = this.#mayStand;
    this.#become({ kind: 'left' });
    // If something may stand all the same, a hold around the caller was entered instead.
    this.#queue.leave(this, leaseMs !== undefined && !mayStand);
    return mayStand;
  }

  sending(nonce: number, at: Instant): void {
    this.#dropWhile((sent) => elapsedMs(sent.at) >= this.#placeLeaseMs);
    this.#sentNonces.push({ nonce, at });
    this.#toldListening = this.#queue.isListening;
  }

  /**
   * The grant counts from when the command was sent whose nonce the place had then. One with a nonce older than the newest that was
   * confirmed, or than one that found the place gone, is left over from before that, and does not count. Nor does a second one.
   */
  granted(nonce: number, token?: bigint): void {
    const sentAt = this.#sentAt(nonce);
    if (!sentAt || !this.#mayStand || this.#state.kind === 'granted') return;
    const deadline = deadlineOf(sentAt, this.#placeLeaseMs);
    this.#become({ kind: 'granted', nonce, deadline, token });
  }

  dropped(): void {
    this.#wasDropped = true;
    this.lock.server.watchdog.renew([this]); // finds out whether that is so
  }

  wake(): void {
    if (this.#state.kind === 'waiting') this.#become({ kind: 'asking' });
  }

  ageMs(at?: Instant): number {
    return elapsedMs(this.#confirmedAt, at);
  }

  renewed({ nonce, found }: PlaceReply, { sentAt, leaseMs }: Renewal): void {
    if (found === 'yours') {
      const deadline = deadlineOf(sentAt, leaseMs);
      if (this.#mayStand) this.#become({ kind: 'granted', nonce, deadline, token: undefined });
    } else if (found === 'gone') {
      // A command that was sent later has made the place anew, or will tell.
      if (this.#sentNonces.some((sent) => sent.nonce > nonce)) return;
      if (!this.#wasDropped && this.ageMs() < this.#placeLeaseMs)
        this.#queue.passedOver(this.#confirmedAt);
      this.#wasDropped = false;
      this.#askAnew();
    } else {
      this.#confirmed(nonce);
      this.#queue.scheduleLook(found);
    }
  }

  /** Takes the lock or joins the queue for it; a place that was lost is had again by its ticket. */
  async #join(limit?: TimeLimit): Promise<AcquireReply> {
    const reply = await this.#joinOnce(limit);
    if (reply.outcome !== 'held' || reply.holderTtlMs !== FREE) return reply;
    // The lock is free, and not ours since others are first in the queue; but those may be dead. So it is offered to them, which drops
    // the dead ones, and then we ask again.
    if (!this.#hasLeft) await grantNext(this.lock);
    const again = this.#hasLeft ? reply : await this.#joinOnce(limit);
    const isFree = again.outcome === 'held' && again.holderTtlMs === FREE;
    return isFree ? { ...again, holderTtlMs: 0 } : again;
  }

  async #joinOnce(limit?: TimeLimit): Promise<AcquireReply> {
    const { waitMs, leaseMs, isWatched } = this.#request;
    const { lock } = this;
    const queue = this.#queue;
    const nonce = queue.nextNonce();
    const sentAt = now(this.#clock);
    this.sending(nonce, sentAt);
    if (waitMs > 0) {
      queue.expect(this);
      this.#become({ kind: 'asking' });
    }
    const placeLeaseMs = waitMs > 0 ? this.#placeLeaseMs : 0;
    const wants = Number(!isWatched) + 2 * Number(lock.isFenced);
    const listens = [Number(this.#toldListening), lock.server.channelSuffix];
    const place = [placeLeaseMs, nonce, this.#ticket, wants, ...listens];
    try {
      const reply = await lock.join(this.ownerId, leaseMs, place, limit);
      this.#confirmed(nonce);
      if (reply.outcome === 'held') {
        this.#ticket = reply.ticket;
        return reply;
      }
      this.#become({ kind: 'outside' });
      const { outcome, token } = reply;
      if (outcome === 'acquired') return token === undefined ? { outcome } : { outcome, token };
      return this.#handedOver({ deadline: deadlineOf(sentAt, leaseMs), token });
    } catch (error) {
      this.#askAnew(); // what became of the command is not known: the next try finds out where we stand
      throw error;
    }
  }

  #handedOver({ deadline, token }: Omit<PlaceGrant, 'nonce'>): HandedOver {
    const { leaseMs, isWatched } = this.#request;
    if (isWatched) return { outcome: 'handed over', deadline, token, confirm: undefined };
    const asked = deadlineOf(now(this.#clock), leaseMs);
    return {
      outcome: 'handed over',
      deadline: leftMs(asked) < leftMs(deadline) ? asked : deadline,
      token,
      confirm: () => this.lock.confirm(this.ownerId, leaseMs),
    };
  }

  get #queue(): Queue {
    return queueOf(this.lock);
  }

  get #clock(): Clock {
    return this.lock.server.schedule.clock;
  }

  /** How long the place is kept without a renewal, in milliseconds. */
  get #placeLeaseMs(): number {
    return this.lock.server.lockWatchdogTimeoutMs;
  }

  /** When the command with this nonce was sent; undefined: a grant that answers it does not count (any more). */
  #sentAt(nonce: number): Instant | undefined {
    return this.#sentNonces.find((sent) => sent.nonce === nonce)?.at;
  }

  /** The command with this nonce was answered: a grant with an older nonce was made to an earlier place, and counts no more. */
  #confirmed(nonce: number): void {
    this.#dropWhile((sent) => sent.nonce < nonce);
    this.#confirmedAt = this.#sentAt(nonce) ?? this.#confirmedAt;
    if (this.#state.kind === 'granted' && this.#state.nonce < nonce)
      this.#become({ kind: 'asking' });
  }

  #dropWhile(isOver: (sent: SentNonce) => boolean): void {
    for (;;) {
      const [oldest] = this.#sentNonces;
      if (!oldest || !isOver(oldest)) return;
      this.#sentNonces.shift();
    }
  }

  /** Nothing that answers what was sent before counts any more. */
  #askAnew(): void {
    this.#sentNonces.length = 0;
    if (this.#mayStand) this.#become({ kind: 'asking' });
  }

  /** Whether something of it may be on the server that its caller does not have. */
  get #mayStand(): boolean {
    return this.#state.kind !== 'outside' && !this.#hasLeft;
  }

  get #hasLeft(): boolean {
    return this.#state.kind === 'left';
  }

  /** The one place where the state changes. Whoever has left does not come back. */
  #become(next: State): void {
    if (this.#hasLeft) return;
    this.#state = next;
    if (next.kind === 'waiting')
      this.woken = new Promise((resolve) => (this.#resolveWoken = resolve));
    else this.#resolveWoken();
  }
}
