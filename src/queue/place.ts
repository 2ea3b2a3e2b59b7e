// One caller's place in the line for a fair lock. On the server it is a lease, renewed by the watchdog, and remembers the
// nonce of the command that renewed it last; whoever releases the lock hands it over with that nonce.

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
import type { SeenHolder } from '../api/errors.js';
import type { LockKeys } from '../redis/keys.js';
import type { Findings } from '../waiting/line.js';
import type { FairLine, PlaceLock, PlaceReply, RenewedPlace } from './queue.js';

/** The time to live of a lock that is free. */
const FREE = -2;

export class FairPlace implements Waiter, RenewedPlace {
  readonly ownerId: string;
  readonly keys: LockKeys;
  readonly isWatched = true;
  readonly #lock: PlaceLock;
  readonly #request: LockRequest;
  /** Where it waits, once it does. */
  #line: FairLine | undefined;
  /** The ticket decides on the order in line; kept, so that a place that got lost on the server can be had again. */
  #ticket = '0';
  readonly #sendings: Sendings;
  mayTry = true;
  woken: Promise<void> = Promise.resolve();
  #resolveWoken: () => void = () => undefined;
  /** Whether a command was sent that may have left something on the server. */
  #mayStand = false;
  #hasLeft = false;
  /** Whether the latest try said that our subscription stands. */
  #wasListening = false;
  /** Whether the server said that it has dropped the place for what its caller wants: then the place was not passed over as deaf. */
  #wasDropped = false;

  constructor(lock: PlaceLock, keys: LockKeys, ownerId: string, request: LockRequest) {
    this.#lock = lock;
    this.keys = keys;
    this.ownerId = ownerId;
    this.#request = request;
    this.#sendings = new Sendings(lock.schedule.clock, lock.placeLeaseMs);
  }

  /**
   * Whether our subscription to grants is known to stand. The server is told so, and if nobody listens all the same it takes us for gone.
   */
  get isListening(): boolean {
    return this.#line ? this.#line.isListening : this.#lock.isListening;
  }

  /** Takes the lock if it was handed over; joins the line otherwise, or again. */
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
    const grant = this.#sendings.takeGrant();
    if (!grant || leftMs(grant.deadline) < this.#lock.placeLeaseMs / 2) return undefined;
    const { isReplicated, isFenced } = this.#lock;
    if (isReplicated || (isFenced && grant.token === undefined)) return undefined;
    this.#mayStand = false;
    return this.#handedOver(grant);
  }

  get findings(): Findings | undefined {
    return this.#line?.findings;
  }

  look(sinceMs: number): void {
    this.#line?.look(this, sinceMs);
  }

  wait({ holder, holderTtlMs }: SeenHolder, triedAtMs: number): void {
    if (this.#request.waitMs === 0 || this.#sendings.isGranted) return; // no wait, or the lock was handed over meanwhile
    this.mayTry = false;
    this.woken = new Promise((resolve) => (this.#resolveWoken = resolve));
    this.#lock.watchPlace(this);
    const line = (this.#line ??= this.#lock.fairLine());
    line.join(this);
    line.looked(this, holder);
    const isDeafThere = line.isListening && !this.#wasListening;
    // A renewal that found the place gone may have overtaken the join that made it anew: a grant to that place would be refused.
    const isInDoubt = !this.#sendings.canBeGranted;
    // A grant may have been published before we listened, or while we did not; it may even have overtaken the answer.
    if (isDeafThere || isInDoubt || line.mayHaveMissed(triedAtMs)) line.renew([this]);
    line.scheduleLook(holderTtlMs);
  }

  leave(leaseMs?: number): boolean {
    this.#hasLeft = true;
    // An owner that has acquired the lock is forgotten when it is released or lost. (If something may stand all the same, a hold around the
    // caller was entered instead.)
    if (leaseMs === undefined || this.#mayStand) this.#lock.forget(this.ownerId);
    else this.#lock.wasGranted(this.ownerId);
    this.#line?.leave(this);
    this.#lock.unwatchPlace(this);
    return this.#mayStand;
  }

  /** A command is about to be sent that makes or renews this place. */
  sending(nonce: number, at: Instant): void {
    this.#sendings.add(nonce, at);
  }

  /** The lock was handed over to us, while the place had this nonce. */
  granted(nonce: number, token?: bigint): void {
    if (this.#sendings.granted(nonce, token)) this.wake();
  }

  /** The server said that it has dropped this place for what its caller wants; a renewal finds out whether that is so. */
  dropped(): void {
    this.#wasDropped = true;
    this.#line?.renew([this]);
  }

  ageMs(at?: Instant): number {
    return this.#sendings.ageMs(at);
  }

  renewed(reply: PlaceReply, { sentAt, leaseMs }: Renewal): void {
    switch (reply.outcome) {
      case 'in line':
        this.#sendings.confirmed(reply.nonce);
        this.#line?.scheduleLook(reply.holderTtlMs);
        return;
      case 'yours':
        this.#sendings.grantedAt(reply.nonce, sentAt, leaseMs);
        this.wake();
        return;
      case 'gone':
        // A command that was sent later has made the place anew, or will tell.
        if (this.#sendings.hasLater(reply.nonce)) return;
        if (!this.#wasDropped && this.ageMs() < this.#lock.placeLeaseMs)
          this.#lock.passedOver(this.#sendings.confirmedAt);
        this.#wasDropped = false;
        this.#sendings.forget();
        this.wake();
    }
  }

  /** Takes the lock or joins the line for it; a place in line that was lost is had again by its ticket. */
  async #join(limit?: TimeLimit): Promise<AcquireReply> {
    const reply = await this.#joinOnce(limit);
    if (reply.outcome !== 'held' || reply.holderTtlMs !== FREE) return reply;
    // The lock is free, and not ours since others are first in line; but those may be dead. So it is offered to them, which drops
    // the dead ones, and then we ask again.
    if (!this.#hasLeft) await this.#lock.handOn();
    const again = this.#hasLeft ? reply : await this.#joinOnce(limit);
    const isFree = again.outcome === 'held' && again.holderTtlMs === FREE;
    return isFree ? { ...again, holderTtlMs: 0 } : again;
  }

  async #joinOnce(limit?: TimeLimit): Promise<AcquireReply> {
    const { waitMs, leaseMs, isWatched } = this.#request;
    const mayWait = waitMs > 0;
    // We listen before the command is sent, so that no grant to the place goes by unheard.
    if (mayWait) (this.#line ??= this.#lock.knownFairLine())?.join(this);
    const nonce = this.#lock.nextNonce();
    const sentAt = now(this.#lock.schedule.clock);
    this.sending(nonce, sentAt);
    if (mayWait) this.#lock.expectGrant(this);
    this.#mayStand ||= mayWait;
    this.#wasListening = this.isListening;
    const request = {
      ownerId: this.ownerId,
      leaseMs,
      mayWait,
      isFixed: !isWatched,
      isListening: this.#wasListening,
      nonce,
      ticket: this.#ticket,
    };
    try {
      const reply = await this.#lock.join(request, limit);
      this.#sendings.confirmed(nonce);
      if (reply.outcome === 'held') {
        this.#ticket = reply.ticket;
        return reply;
      }
      this.#mayStand = false;
      const { outcome, token } = reply;
      if (outcome === 'acquired') return token === undefined ? { outcome } : { outcome, token };
      return this.#handedOver({ deadline: deadlineOf(sentAt, leaseMs), token });
    } catch (error) {
      this.#sendings.forget(); // what became of the command is not known: the next try finds out where we stand
      throw error;
    }
  }

  #handedOver({ deadline, token }: PlaceGrant): HandedOver {
    const { leaseMs, isWatched } = this.#request;
    if (isWatched) return { outcome: 'handed over', deadline, token, confirm: undefined };
    const asked = deadlineOf(now(this.#lock.schedule.clock), leaseMs);
    return {
      outcome: 'handed over',
      deadline: leftMs(asked) < leftMs(deadline) ? asked : deadline,
      token,
      confirm: () => this.#lock.confirm(this.ownerId, leaseMs),
    };
  }

  /** It is this caller's turn to try. */
  wake(): void {
    this.mayTry = true;
    this.#resolveWoken();
  }
}

// The commands that made or renewed one place in line, each known by its nonce: which of them may be answered by a grant,
// and from when that counts.

interface Sending {
  readonly nonce: number;
  readonly at: Instant;
}

/** A hand-over of the lock to the place. */
export interface PlaceGrant {
  /** Until when that may be relied on. */
  readonly deadline: Deadline;
  /** The token of a fenced lock; undefined: none could be given, or it was not told. */
  readonly token: bigint | undefined;
}

interface Grant extends PlaceGrant {
  /** The nonce that the place had then. */
  readonly nonce: number;
}

export class Sendings {
  readonly #leaseMs: number;
  /** The newest command that was confirmed, and those since then; oldest first, so by rising nonces. */
  readonly #known: Sending[] = [];
  #confirmedAt: Instant;
  #grant: Grant | undefined;

  /** `leaseMs`: for how long each of the commands keeps the place. */
  constructor(clock: Clock, leaseMs: number) {
    this.#confirmedAt = now(clock);
    this.#leaseMs = leaseMs;
  }

  /** When the command was sent that was confirmed last. */
  get confirmedAt(): Instant {
    return this.#confirmedAt;
  }

  /** How long ago the command was sent that was confirmed last, in milliseconds. */
  ageMs(at?: Instant): number {
    return elapsedMs(this.#confirmedAt, at);
  }

  /** A command with this nonce is about to be sent. */
  add(nonce: number, at: Instant): void {
    this.#dropWhile((known) => elapsedMs(known.at) >= this.#leaseMs);
    this.#known.push({ nonce, at });
  }

  get isGranted(): boolean {
    return this.#grant !== undefined;
  }

  /** Whether there is any nonce with which a grant would count. */
  get canBeGranted(): boolean {
    return this.#known.length > 0;
  }

  /**
   * The lock was handed over: that counts from when the command was sent whose nonce the place had then. A grant with a nonce older
   * than the newest one confirmed, or than one that found the place gone, is left over from before that. Returns whether it counts.
   */
  granted(nonce: number, token: bigint | undefined): boolean {
    const sentAt = this.#sentAt(nonce);
    if (!sentAt || this.#grant) return false;
    this.#grant = { nonce, deadline: deadlineOf(sentAt, this.#leaseMs), token };
    return true;
  }

  /** A renewal that was sent at `sentAt` with this lease found that the lock had been handed over. */
  grantedAt(nonce: number, sentAt: Instant, leaseMs: number): void {
    this.#grant = { nonce, deadline: deadlineOf(sentAt, leaseMs), token: undefined };
  }

  /** The hand-over, if there was one; it can be taken once. */
  takeGrant(): PlaceGrant | undefined {
    const grant = this.#grant;
    this.#grant = undefined;
    return grant;
  }

  /** When the command with this nonce was sent; undefined: a grant that answers it does not count (any more). */
  #sentAt(nonce: number): Instant | undefined {
    return this.#known.find((known) => known.nonce === nonce)?.at;
  }

  /** Whether a command with a later nonce was sent. */
  hasLater(nonce: number): boolean {
    return this.#known.some((known) => known.nonce > nonce);
  }

  /** The command with this nonce was answered: a grant with an older nonce was made to an earlier place, and counts no more. */
  confirmed(nonce: number): void {
    this.#dropWhile((known) => known.nonce < nonce);
    this.#confirmedAt = this.#sentAt(nonce) ?? this.#confirmedAt;
    // That grant was made to a place that was lost before this command.
    if (this.#grant && this.#grant.nonce < nonce) this.#grant = undefined;
  }

  /** Nothing that answers what was sent before counts any more. */
  forget(): void {
    this.#known.length = 0;
    this.#grant = undefined;
  }

  /** Drops the oldest commands, up to the first one that is not over. */
  #dropWhile(isOver: (known: Sending) => boolean): void {
    for (;;) {
      const [oldest] = this.#known;
      if (!oldest || !isOver(oldest)) return;
      this.#known.shift();
    }
  }
}
