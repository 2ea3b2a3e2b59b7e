// One caller's place in the line for a fair lock. On the server it is a lease, renewed by the watchdog, and remembers the
// nonce of the command that renewed it last; whoever releases the lock hands it over with that nonce.

import type { AcquireReply, Candidate, HandedOver, Renewable, Wanted } from '../backend.js';
import { elapsedMs, now, type Instant } from '../clock.js';
import type { SeenHolder } from '../errors.js';
import type { LockKeys } from '../redis/keys.js';
import { leftMs, validity, type Validity } from '../validity.js';
import type { FairLine } from './fair-line.js';
import type { FairLockBackend } from './fair-lock.js';

/** What the renewal of a place found. */
export type PlaceReply =
  | { readonly outcome: 'in line'; readonly nonce: number; readonly holderTtlMs: number }
  /** The lock was handed over, and nobody told us so far. */
  | { readonly outcome: 'yours' }
  /** It lapsed, was passed over, or the line was deleted. */
  | { readonly outcome: 'gone' };

/** The time to live of a lock that is free. */
const FREE = -2;

/** A command that made or renewed the place. */
interface Sending {
  readonly nonce: number;
  readonly at: Instant;
}

export class FairPlace implements Candidate, Renewable<PlaceReply> {
  readonly ownerId: string;
  readonly keys: LockKeys;
  readonly isWatched = true;
  readonly #lock: FairLockBackend;
  readonly #wanted: Wanted;
  /** Where it waits, once it does. */
  #line: FairLine | undefined;
  /** Decides on the order; kept, so that a place that got lost on the server can be had again. */
  #ticket = '0';
  /** The newest command that was confirmed, and those since then; oldest first. */
  #sendings: Sending[] = [];
  #confirmedAt: Instant = now();
  #grant: Validity | undefined;
  #isUp = true;
  #woken: Promise<void> = Promise.resolve();
  #wake: () => void = () => undefined;
  /** Whether a command was sent that may have left something on the server. */
  #mayStand = false;

  constructor(lock: FairLockBackend, keys: LockKeys, ownerId: string, wanted: Wanted) {
    this.#lock = lock;
    this.keys = keys;
    this.ownerId = ownerId;
    this.#wanted = wanted;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get woken(): Promise<void> {
    return this.#woken;
  }

  /** Whether our subscription to grants is known to stand: if it is, and yet nobody hears one, we are gone. */
  get isListening(): boolean {
    return this.#line ? this.#line.isListening : this.#lock.isListening;
  }

  /** Enters at once if the lock was handed over; joins the line otherwise, or again. */
  try(): Promise<AcquireReply> {
    const grant = this.#grant;
    this.#grant = undefined;
    // With less than half of the place's lease left it asks first: by then a renewal may have failed, or we were paused.
    if (grant && leftMs(grant) >= this.#lock.placeLeaseMs / 2) {
      this.#mayStand = false;
      return Promise.resolve(this.#handedOver(grant));
    }
    return this.#join();
  }

  wait({ holderTtlMs }: SeenHolder, triedAtMs: number): void {
    if (this.#grant) return; // handed over while the answer was on its way
    this.#isUp = false;
    this.#woken = new Promise((resolve) => (this.#wake = resolve));
    if (!this.#line) {
      this.#line = this.#lock.fairLine();
      this.#line.join(this);
      this.#lock.watchPlace(this);
      // Told before we listened: the message may even overtake the answer.
      if (this.#line.mayHaveMissed(triedAtMs)) this.#line.renew([this]);
    }
    this.#line.lookIn(holderTtlMs);
  }

  leave(): boolean {
    this.#line?.leave(this);
    this.#lock.unwatchPlace(this);
    return this.#mayStand;
  }

  /** A command is about to be sent that makes or renews it. */
  sending(nonce: number, at: Instant): void {
    const stillCount = (known: Sending): boolean => elapsedMs(known.at) < this.#lock.placeLeaseMs;
    this.#sendings = [...this.#sendings.filter(stillCount), { nonce, at }];
  }

  /**
   * The lock was handed over to us: counts from when the command was sent whose nonce the place had then. Grants with a nonce
   * older than the newest one confirmed are left over from before the place was lost and had again.
   */
  granted(nonce: number): void {
    const sending = this.#sendings.find((known) => known.nonce === nonce);
    if (!sending || this.#grant) return;
    this.#grant = validity(sending.at, this.#lock.placeLeaseMs);
    this.#up();
  }

  checkDeadline(): void {
    // Nobody relies on a place.
  }

  get ageMs(): number {
    return elapsedMs(this.#confirmedAt);
  }

  renewing(): void {
    // Each command is known by its nonce.
  }

  renewed(reply: PlaceReply, sentAt: Instant, leaseMs: number): void {
    switch (reply.outcome) {
      case 'in line':
        this.#confirmed(reply.nonce);
        this.#line?.lookIn(reply.holderTtlMs);
        return;
      case 'yours':
        this.#grant = validity(sentAt, leaseMs);
        this.#up();
        return;
      case 'gone':
        this.#grant = undefined;
        this.#up();
    }
  }

  async #join(): Promise<AcquireReply> {
    let reply = await this.#joinOnce();
    // Free, and not ours since others are first; but those may be dead. So the lock is offered to them, and then we look again.
    if (reply.outcome === 'held' && reply.holderTtlMs === FREE) {
      await this.#lock.handOn();
      reply = await this.#joinOnce();
    }
    return reply;
  }

  async #joinOnce(): Promise<AcquireReply> {
    const { mayWait, leaseMs, isWatched } = this.#wanted;
    const nonce = this.#lock.nextNonce();
    this.sending(nonce, now());
    this.#mayStand ||= mayWait;
    const reply = await this.#lock.join({
      ownerId: this.ownerId,
      leaseMs,
      mayWait,
      isFixed: !isWatched,
      isListening: this.isListening,
      nonce,
      ticket: this.#ticket,
    });
    if (reply.outcome === 'acquired') this.#mayStand = false;
    else this.#ticket = reply.ticket;
    this.#confirmed(nonce);
    return reply;
  }

  #confirmed(nonce: number): void {
    this.#sendings = this.#sendings.filter((known) => known.nonce >= nonce);
    const [confirmed] = this.#sendings;
    if (confirmed?.nonce === nonce) this.#confirmedAt = confirmed.at;
  }

  #handedOver(grant: Validity): HandedOver {
    const { leaseMs, isWatched } = this.#wanted;
    if (isWatched) return { outcome: 'handed over', validity: grant, confirm: undefined };
    const asked = validity(grant.since, elapsedMs(grant.since) + leaseMs);
    return {
      outcome: 'handed over',
      validity: asked.usableMs < grant.usableMs ? asked : grant,
      confirm: () => this.#lock.confirm(this.ownerId, leaseMs),
    };
  }

  #up(): void {
    this.#isUp = true;
    this.#wake();
  }
}
