// One caller's place in the queue for a lock. On the server the place is a lease, which the watchdog renews, and it stores the nonce of the
// command that last made or renewed it. A grant to the place names that nonce; this class decides by it whether the grant counts, and from
// when.

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
  /** No place on the server: it never asked for one, or its caller has the lock. */
  | { readonly kind: 'outside' }
  /** Its caller must ask the server, or is asking it. */
  | { readonly kind: 'asking' }
  /** Its caller sleeps. */
  | { readonly kind: 'waiting' }
  /** The lock was handed over to it, and its caller has not taken it yet. */
  | ({ readonly kind: 'granted' } & PlaceGrant)
  | { readonly kind: 'left' };

/** A hand-over of the lock to the place. */
interface PlaceGrant {
  /** The nonce that the place had at the hand-over. */
  readonly nonce: number;
  /** Until when the grant may be relied on. */
  readonly deadline: Deadline;
  /** The token of a fenced lock; undefined: none could be given, or the message did not contain it. */
  readonly token: bigint | undefined;
}

/** A command that made or renewed the place. */
interface SentNonce {
  readonly nonce: number;
  readonly at: Instant;
}

export class Place implements Waiter, QueuedPlace {
  readonly #newOwnerId: () => string;
  #ownerId: string | undefined;
  readonly isWatched = true;
  readonly lock: QueuedLock;
  readonly #request: LockRequest;
  #state: State = { kind: 'outside' };
  woken: Promise<void> = Promise.resolve();
  #resolveWoken: () => void = () => undefined;
  /** The ticket decides the order in the queue. Kept, to restore a place that the server has lost. */
  #ticket = '0';
  /** The newest confirmed command and those sent since; oldest first, so by rising nonces. */
  readonly #sentNonces: SentNonce[] = [];
  /** When the command that was confirmed last was sent. */
  #confirmedAt: Instant;
  /** Whether the latest command told the server that this client is subscribed to grants. */
  #toldListening = false;
  /** Whether the server reported that it dropped the place, because its caller wants more permits than there are. */
  #wasDropped = false;

  constructor(lock: QueuedLock, newOwnerId: () => string, request: LockRequest) {
    this.lock = lock;
    this.#newOwnerId = newOwnerId;
    this.#request = request;
    this.#confirmedAt = now(this.#clock);
  }

  /** Made for the first command, which may have to wait for a connection: its number tells when that was sent. */
  get ownerId(): string {
    return (this.#ownerId ??= this.#newOwnerId());
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
   * Takes the lock, if it was handed over, without a command. Returns undefined, so that the caller asks the server first, if less than
   * half of the place's lease is left (a renewal may have failed, or this process was paused); with `replicas`, since the hand-over did not
   * wait for them; if a fenced lock's token is missing; and if the lock has to stay taken for a certain time.
   */
  claim(): HandedOver | undefined {
    if (this.#state.kind !== 'granted') return undefined;
    const grant = this.#state;
    const isTold = !this.lock.isFenced || grant.token !== undefined;
    const isLasting = this.#request.atLeastMs === 0;
    const isSure = leftMs(grant.deadline) >= this.#placeLeaseMs / 2;
    const mayRely = isTold && isLasting && isSure && !this.lock.server.connection.isReplicated;
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
    if (this.#state.kind !== 'asking') return; // the caller does not wait, or the lock was handed over meanwhile
    this.#become({ kind: 'waiting' });
    // A renewal that found the place gone may have overtaken the join that made it again: then a grant to that place would be refused.
    const isInDoubt = this.#sentNonces.length === 0;
    const isDeafThere = this.#queue.isListening && !this.#toldListening;
    this.#queue.wait(this, seen, triedAtMs, isInDoubt || isDeafThere);
  }

  leave(leaseMs?: number): boolean {
    const mayStand = this.#mayStand;
    this.#become({ kind: 'left' });
    // If the place may still exist, the call has re-entered a hold around its caller instead.
    this.#queue.leave(this, leaseMs !== undefined && !mayStand);
    return mayStand;
  }

  sending(nonce: number, at: Instant): void {
    this.#dropWhile((sent) => elapsedMs(sent.at) >= this.#placeLeaseMs);
    this.#sentNonces.push({ nonce, at });
    this.#toldListening = this.#queue.isListening;
  }

  /**
   * The grant counts from when the command with this nonce was sent. A grant does not count if its nonce is older than the newest confirmed
   * one, or than that of a command that found the place gone: it was made to an earlier place. Nor does a second grant.
   */
  granted(nonce: number, token?: bigint): void {
    const sentAt = this.#sentAt(nonce);
    if (!sentAt || !this.#mayStand || this.#state.kind === 'granted') return;
    const deadline = deadlineOf(sentAt, this.#placeLeaseMs);
    this.#become({ kind: 'granted', nonce, deadline, token });
  }

  dropped(): void {
    this.#wasDropped = true;
    this.lock.server.watchdog.renew([this]); // verifies it
  }

  wake(): void {
    if (this.#state.kind === 'waiting') this.#become({ kind: 'asking' });
  }

  ageMs(at?: Instant): number {
    return elapsedMs(this.#confirmedAt, at);
  }

  renewed({ nonce, found }: PlaceReply, { sentAt, leaseMs }: Renewal): boolean {
    if (found === 'yours') {
      const deadline = deadlineOf(sentAt, leaseMs);
      if (this.#mayStand) this.#become({ kind: 'granted', nonce, deadline, token: undefined });
    } else if (found === 'gone') {
      // A later command has made the place again, or its answer will tell.
      if (!this.#sentNonces.some((sent) => sent.nonce > nonce)) this.#isGone();
    } else {
      this.#confirmed(nonce);
      this.#queue.scheduleLook(found);
    }
    return found !== 'gone';
  }

  #isGone(): void {
    if (!this.#wasDropped && this.ageMs() < this.#placeLeaseMs)
      this.#queue.passedOver(this.#confirmedAt);
    this.#wasDropped = false;
    this.#askAnew();
  }

  /** Takes the lock or joins the queue for it. The ticket restores a place that was lost. */
  async #join(limit?: TimeLimit): Promise<AcquireReply> {
    const reply = await this.#joinOnce(limit);
    if (reply.outcome !== 'held' || reply.holderTtlMs !== FREE) return reply;
    // The lock is free, but other places are first in the queue, and their clients may be dead. So it is offered to them, which drops the
    // dead ones; then we ask again.
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
      this.#askAnew(); // the command's outcome is unknown: the next try finds it out
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

  /** How long the server keeps the place without a renewal, in milliseconds. */
  get #placeLeaseMs(): number {
    return this.lock.server.lockWatchdogTimeoutMs;
  }

  /** When the command with this nonce was sent; undefined: a grant with this nonce does not count (any more). */
  #sentAt(nonce: number): Instant | undefined {
    return this.#sentNonces.find((sent) => sent.nonce === nonce)?.at;
  }

  /** The command with this nonce was answered: a grant with an older nonce was made to an earlier place and no longer counts. */
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

  /** Grants to nonces sent so far no longer count; the caller must ask the server. */
  #askAnew(): void {
    this.#sentNonces.length = 0;
    if (this.#mayStand) this.#become({ kind: 'asking' });
  }

  /** Whether the server may have a place, or a lock handed over to it, that the caller has not taken. */
  get #mayStand(): boolean {
    return this.#state.kind !== 'outside' && !this.#hasLeft;
  }

  get #hasLeft(): boolean {
    return this.#state.kind === 'left';
  }

  /** The only place where the state changes. `left` is final. */
  #become(next: State): void {
    if (this.#hasLeft) return;
    this.#state = next;
    if (next.kind === 'waiting')
      this.woken = new Promise((resolve) => (this.#resolveWoken = resolve));
    else this.#resolveWoken();
  }
}
