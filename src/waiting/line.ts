// The waiters of one client for one lock. They are woken one at a time, in order, by a pub/sub message or by the end of the holder's lease.
// While another client holds the lock they send almost nothing, however many they are: the first one polls now and then, since messages may
// get lost. While this client itself holds the lock they send nothing.

import type { SeenHolder } from '../api/errors.js';
import { type Clock, PROCESS_CLOCK, type Timer } from '../runtime/clock.js';
import type { ChannelListener, Subscription } from './channels.js';

/** What a line needs from its lock. */
export interface LineHost {
  /** Left out: the clock of the process. */
  readonly clock?: Clock;
  /** The polling interval: the longest time, in milliseconds, that the first waiter sleeps without a message. */
  readonly lookEveryMs: number;
  readonly turns?: FairnessBetweenClients;
  /** Set while this client holds the lock: its owner and remaining time. When that ends, `released()` or `free()` must be called. */
  readonly localHolder?: SeenHolder | undefined;
  /** Checks whether this client still holds the lock, after a message about a release by another client. */
  readonly verify?: () => void;
  subscribe(listener: ChannelListener): Subscription;
  /** Makes a round trip to the server: settles when the answer is here. */
  readonly roundTrip?: () => Promise<unknown>;
  /** The last waiter has left the line. */
  onEmpty(): void;
}

/** What decides a caller's turn among the waiters of its client, besides the order of arrival. */
export interface Seniority {
  /** When its wait began, on the monotonic clock. */
  readonly sinceMs?: number | undefined;
  /** For how many milliseconds it lets others, including other processes, try first when it is woken. */
  readonly deferMs?: (() => number) | undefined;
}

/** Why a waiter tries; `look`: only for a recent answer, which all share. If it leaves meanwhile, another tries, except for a `look`. */
type Reason = 'may be free' | 'look';

/** How long a line goes without a subscription while its own client holds the lock, in milliseconds: most holds end earlier. */
const DEAF_MS = 100;

/** `Next`: the kind of waiter to which a release of this client can hand the lock over. */
export class Line<Next = unknown> implements ChannelListener {
  readonly clock: Clock;
  readonly lastAnswer: LastAnswer = new LastAnswer();
  readonly #host: LineHost;
  readonly #turns: FairnessBetweenClients;
  #subscription: Subscription | undefined;
  /** In order of waiting time, longest first. */
  readonly #entries = new Set<LineEntry<Next>>();
  #youngestSinceMs = 0;
  /** The waiter that tries now, since when (monotonic), and why. */
  #attempt: { entry: LineEntry<Next>; sinceMs: number; reason: Reason } | undefined;
  /** Why another attempt must follow the current one, which may have been sent too early; undefined: none must. */
  #next: Reason | undefined;
  #lookTimer: Timer | undefined;
  /** When the first waiter polls next (monotonic): at the end of the holder's lease, or earlier, after the polling interval. */
  #lookAtMs = Infinity;
  /** While it is on, other clients take the lock first. */
  readonly #standBack: StandBack;

  constructor(host: LineHost) {
    this.#host = host;
    this.clock = host.clock ?? PROCESS_CLOCK;
    this.#turns = host.turns ?? new FairnessBetweenClients(this.clock);
    this.#standBack = new StandBack(this.clock);
  }

  /**
   * Joins behind the waiters that have waited longer, after an attempt that was sent at `triedAtMs` (monotonic) and found the lock held
   * for another `ttlMs`.
   */
  join(triedAtMs: number, ttlMs: number, seniority: Seniority = {}, next?: Next): LineEntry<Next> {
    const entry = this.#enter(new LineEntry(this, seniority, next));
    if (this.#entries.size === 1) this.#turns.joined();
    const subscription = this.#listen();
    this.#lookBy(ttlMs);
    // A release after that attempt may have been published before we subscribed; its message may even have overtaken the answer.
    if (subscription.mayHaveMissed(triedAtMs)) this.#wake();
    return entry;
  }

  /** Joins without an attempt: this client has the lock, or others of it already wait. The line subscribes only if the wait lasts. */
  queue(seniority: Seniority = {}, next?: Next): LineEntry<Next> {
    const entry = this.#enter(new LineEntry(this, seniority, next));
    this.#lookBy(-1);
    if (this.#entries.size === 1 && this.#turns.joined()) {
      this.#listen(); // the releases that we wait for
      this.#standBackBriefly();
    }
    return entry;
  }

  /** The waiter to which a release of this client may hand the lock over: the first, if it supports that and no attempt is under way. */
  get next(): Next | undefined {
    return this.#attempt ? undefined : this.#first?.next;
  }

  /** This waiter is about to get the lock: no other waiter tries until this one leaves or has tried itself. */
  reserve(entry: LineEntry<Next>): void {
    if (!this.isTrying(entry)) this.#attempt?.entry.sleep(); // whoever had the turn loses it
    this.#next = undefined;
    this.#attempt = { entry, sinceMs: this.clock.nowMs(), reason: 'may be free' };
  }

  isTrying(entry: LineEntry<Next>): boolean {
    return this.#attempt?.entry === entry;
  }

  stillHeld(entry: LineEntry<Next>, ttlMs: number): void {
    const attempt = this.isTrying(entry) ? this.#attempt : undefined;
    if (attempt) this.#attempt = undefined;
    const wasDeaf = this.#subscription === undefined;
    const subscription = this.#listen();
    this.#lookAgain(ttlMs);
    // As for `join`: the channel may still be subscribed for a former line, and its message may have overtaken the answer.
    const hasMissed = wasDeaf && attempt && subscription.mayHaveMissed(attempt.sinceMs);
    if (hasMissed) this.#wake();
    else if (this.#next) this.#wake(this.#next);
  }

  leave(entry: LineEntry<Next>, leaseMs?: number): void {
    this.#entries.delete(entry);
    const attempt = this.isTrying(entry) ? this.#attempt : undefined;
    if (attempt) this.#attempt = undefined;
    if (leaseMs !== undefined) {
      this.#turns.granted();
      this.#standBack.end();
    }
    if (this.#entries.size === 0) {
      this.clock.clearTimer(this.#lookTimer);
      this.#standBack.end();
      this.#subscription?.close();
      this.#host.onEmpty();
      return;
    }
    if (leaseMs !== undefined) this.#lookAgain(leaseMs);
    else if (attempt?.reason === 'may be free') this.#wake();
    if (this.#next) this.#wake(this.#next);
  }

  /** Has the first waiter try now, unless this client has the lock, or an attempt that began at `sinceMs` (monotonic) or later runs. */
  look(sinceMs: number): void {
    const { localHolder } = this.#host;
    if (localHolder) this.lastAnswer.held(localHolder, this.clock.nowMs());
    else if (!this.#attempt || this.#attempt.sinceMs < sinceMs) this.#wake('look');
  }

  subscribed(): void {
    this.#wake();
  }

  message(): void {
    const { localHolder, verify } = this.#host;
    if (this.#turns.takeOwnMessage()) {
      // The answer to our release, which may come later, decides what follows. This pause is for the case that the message was another client's.
      if (!localHolder && !this.#standBack.isOn) this.#awaitNextRelease();
      return;
    }
    const isOurTurn = this.#turns.othersReleased();
    if (localHolder)
      verify?.(); // our holder has not released the lock, so it may have lost it
    else if (!isOurTurn)
      this.#awaitNextRelease(); // even if a pause had ended and our attempt was too early, while another client still had the lock
    else {
      this.#standBack.end();
      this.#wake();
    }
  }

  /** A message after the last waiter has left: it counts for the next ones. */
  late(): void {
    if (!this.#turns.takeOwnMessage()) this.#turns.othersReleased();
  }

  /** This client has released the lock, and `others` subscribers of other clients got the message: they have their turn first. */
  released(others: number): void {
    const isOurs = this.#turns.hasHad; // or of another caller of this client, such as a MultiLock that gave it back
    const turns = isOurs ? this.#turns.released(others) : 0;
    if (others <= 0) this.#standBack.end();
    if (this.#attempt || others <= 0 || !isOurs) this.#wake();
    else if (turns > 0) this.#awaitNextRelease();
    else this.#standBackBriefly();
  }

  /** The first waiter tries; if an attempt is under way, then after that. */
  mayBeFree(): void {
    this.#wake();
  }

  /** This client no longer holds the lock: lost, released, or unknown. */
  free(): void {
    if (!this.#attempt) this.#wake();
  }

  #enter(entry: LineEntry<Next>): LineEntry<Next> {
    const isYounger = this.#youngestSinceMs <= entry.sinceMs;
    this.#youngestSinceMs = Math.max(this.#youngestSinceMs, entry.sinceMs);
    const younger = isYounger
      ? []
      : [...this.#entries].filter(({ sinceMs }) => sinceMs > entry.sinceMs);
    this.#entries.add(entry);
    for (const other of younger) {
      this.#entries.delete(other);
      this.#entries.add(other);
    }
    return entry;
  }

  get #first(): LineEntry<Next> | undefined {
    const [first] = this.#entries;
    return first;
  }

  #listen(): Subscription {
    return (this.#subscription ??= this.#host.subscribe(this));
  }

  #wake(reason: Reason = 'may be free'): void {
    if (this.#attempt) {
      if (this.#next !== 'may be free') this.#next = reason;
      return;
    }
    this.#next = undefined;
    if (this.#host.localHolder || (this.#standBack.isOn && reason !== 'look')) return;
    const first = this.#first;
    if (!first) return;
    this.#attempt = { entry: first, sinceMs: this.clock.nowMs(), reason };
    first.wake();
  }

  readonly #wakeFirst = (): void => {
    this.#wake();
  };

  #awaitNextRelease(): void {
    this.#standBack.begin(this.#turns.pauseMs, this.#wakeFirst);
  }

  /** For two round trips: who wants the lock has heard of our release, and tries meanwhile. */
  #standBackBriefly(): void {
    const { roundTrip } = this.#host;
    if (roundTrip) this.#standBack.beginRoundTrips(roundTrip, this.#wakeFirst);
    else this.#awaitNextRelease();
  }

  /** Polls when the lock, held for another `ttlMs` (-1: no expiry), may be free, unless a poll is already scheduled earlier. */
  #lookBy(ttlMs: number): void {
    if (this.#lookTimeMs(ttlMs) < this.#lookAtMs) this.#lookAgain(ttlMs);
  }

  /** Schedules the next poll for when the lock, held for another `ttlMs` (-1: no expiry), may be free. */
  #lookAgain(ttlMs = -1): void {
    this.clock.clearTimer(this.#lookTimer);
    this.#lookAtMs = this.#lookTimeMs(ttlMs);
    this.#lookTimer = this.clock.setTimer(() => {
      this.#listen();
      this.#lookAgain();
      this.#standBack.end();
      this.#wake();
    }, this.#lookAtMs - this.clock.nowMs());
  }

  /** Polling is needed: a message may never come, because its sender died or may not publish, or our connection is silently dead. */
  #lookTimeMs(ttlMs: number): number {
    const { lookEveryMs } = this.#host;
    const mostMs = this.#subscription ? lookEveryMs : Math.min(lookEveryMs, DEAF_MS);
    return this.clock.nowMs() + (ttlMs < 0 ? mostMs : Math.min(ttlMs, mostMs));
  }
}

/** One caller in the line. It sleeps until it is its turn to try. */
export class LineEntry<Next = unknown> {
  readonly #line: Line<Next>;
  /** When its wait began, on the monotonic clock. */
  readonly sinceMs: number;
  /** How a release of this client hands the lock over to this caller when it is first in line; undefined: it must ask the server. */
  readonly next: Next | undefined;
  readonly #deferMs: (() => number) | undefined;
  #woken!: Promise<void>;
  #wake!: () => void;
  #deferTimer: Timer | undefined;

  constructor(line: Line<Next>, { sinceMs = line.clock.nowMs(), deferMs }: Seniority, next?: Next) {
    this.#line = line;
    this.sinceMs = sinceMs;
    this.#deferMs = deferMs;
    this.next = next;
    this.sleep();
  }

  /** Resolves when it is this caller's turn to try. */
  get woken(): Promise<void> {
    return this.#woken;
  }

  /** Whether it is this caller's turn to try. */
  get mayTry(): boolean {
    return this.#line.isTrying(this);
  }

  get lastAnswer(): LastAnswer {
    return this.#line.lastAnswer;
  }

  look(sinceMs: number): void {
    this.#line.look(sinceMs);
  }

  /** This caller is about to get the lock: no other waiter in the line tries. */
  reserve(): void {
    this.#line.reserve(this);
  }

  /** Gives this caller the turn, out of order: it has got the lock, or must try because a hand-over to it failed. */
  goOn(): void {
    this.reserve();
    this.#wake();
  }

  /** The attempt found the lock held for another `ttlMs` (-1: no expiry): sleeps again, at the same place. */
  stillHeld(ttlMs: number): void {
    this.sleep();
    this.#line.stillHeld(this, ttlMs);
  }

  /** Leaves the line: with the lock, for `leaseMs`, or without; then an unused wake-up goes to the next waiter. */
  leave(leaseMs?: number): void {
    this.#line.clock.clearTimer(this.#deferTimer);
    this.#line.leave(this, leaseMs);
  }

  wake(): void {
    const deferMs = this.#deferMs?.() ?? 0;
    if (deferMs > 0) this.#deferTimer = this.#line.clock.setTimer(this.#wake, deferMs);
    else this.#wake();
  }

  /** It is not this caller's turn any more. */
  sleep(): void {
    this.#woken = new Promise((resolve) => (this.#wake = resolve));
  }
}

// A pause after a release, in which other clients may take the lock.

export class StandBack {
  readonly #clock: Clock;
  #pause: Timer | Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isOn(): boolean {
    return this.#pause !== undefined;
  }

  /** Pauses for `ms` milliseconds from now, replacing any current pause; then calls `over`. */
  begin(ms: number, over: () => void): void {
    this.end();
    this.#pause = this.#clock.setTimer(() => {
      this.#pause = undefined;
      over();
    }, ms);
  }

  /** Pauses for two round trips to the server (calls of `ask`); then calls `over`. */
  beginRoundTrips(ask: () => Promise<unknown>, over: () => void): void {
    this.end();
    const pause: Promise<void> = ask()
      .then(ask)
      .catch(() => undefined)
      .then(() => {
        if (this.#pause !== pause) return;
        this.#pause = undefined;
        over();
      });
    this.#pause = pause;
  }

  end(): void {
    if (!(this.#pause instanceof Promise)) this.#clock.clearTimer(this.#pause);
    this.#pause = undefined;
  }
}

// Lets the clients that want one lock take turns: a client that has released it lets the others pass, until it has heard as many releases by
// others as there were between its last two turns, or none for a while.

/** How many local hand-overs, and for how many milliseconds after the acquisition, a client makes before others have their turn. */
export const MOST_HAND_OVERS = 16;
export const LONGEST_CHAIN_MS = 10;

/**
 * How long a client waits for the next release by another client before it tries anyway, in milliseconds: longer than a chain of
 * hand-overs lasts.
 */
export const TURN_MS: number = LONGEST_CHAIN_MS + 2;

/** If nobody comes, the client whose last turn is the longest ago tries first: for so many turns, it waits a millisecond less for each. */
const RANKED_TURNS = 4;

/** Every so many releases, all who listen may have a turn, however few came before: more of them may want the lock by now. */
const ALL_EVERY = 16;

/** For how many milliseconds after the answer to a release we expect to receive our own message. */
const OWN_MESSAGE_MS = 20;

export class FairnessBetweenClients {
  readonly #clock: Clock;
  /** How many releases by others came between our last two turns. */
  #usual = 0;
  /** How many others heard our last release. */
  #listeners = 0;
  #releases = 0;
  /** For how many releases by others we wait before we try. */
  #awaited = 0;
  /** How many came since our own. */
  #had = 0;
  /** Whether a waiter of the line has had the lock since this client last released it. */
  #hasHad = false;
  /** Until when our own message may come. */
  #ownUntilMs = -Infinity;
  /** Until when a caller that comes to the empty line lets others pass first. */
  #owesUntilMs = -Infinity;

  constructor(clock: Clock = PROCESS_CLOCK) {
    this.#clock = clock;
  }

  /** We are about to release the lock. `isHeard`: we are subscribed to its channel ourselves. */
  releasing(isHeard: boolean): void {
    if (isHeard) this.#ownUntilMs = Infinity;
    this.#had = 0;
    if (this.#listeners > 0) this.#owesUntilMs = Infinity;
  }

  /** The server has answered our release. */
  answered(): void {
    this.#ownUntilMs = Math.min(this.#ownUntilMs, this.#clock.nowMs() + OWN_MESSAGE_MS);
    this.#owesUntilMs = -Infinity;
  }

  /** Whether a received message counts as our own; if so, no further one is expected. */
  takeOwnMessage(): boolean {
    const isOwn = this.#clock.nowMs() <= this.#ownUntilMs;
    this.#ownUntilMs = -Infinity;
    return isOwn;
  }

  /** Whether the release that comes next is by a waiter of the line, not by another caller such as a MultiLock that gives it back. */
  get hasHad(): boolean {
    return this.#hasHad;
  }

  /** Whether we are just releasing the lock, or have released it a moment ago, and others have not had their turns. */
  get owes(): boolean {
    return this.#clock.nowMs() < this.#owesUntilMs && this.#had < Math.max(this.#awaited, 1);
  }

  /** How long we wait for the next release by another client. */
  get pauseMs(): number {
    return TURN_MS + Math.max(RANKED_TURNS - this.#had, 0);
  }

  /** We have released the lock, and `others` other subscribers got the message. Returns for how many of their releases to wait. */
  released(others: number): number {
    // `others` is negative if our own subscription was not counted: a cluster node counts only its own subscribers.
    const listeners = Math.max(others, 0);
    const isFull = ++this.#releases % ALL_EVERY === 0 || listeners > this.#listeners;
    this.#listeners = listeners;
    this.#awaited = isFull ? listeners : Math.min(listeners, this.#usual);
    this.#hasHad = false;
    this.#owesUntilMs = listeners > 0 ? this.#clock.nowMs() + TURN_MS : -Infinity;
    return this.#awaited;
  }

  /** Another client has released the lock. Returns whether it is our turn. */
  othersReleased(): boolean {
    this.#had++;
    return this.#had >= this.#awaited;
  }

  /** A caller joins the empty line. Returns whether it lets others pass first; if not, the client owes them nothing any more. */
  joined(): boolean {
    const { owes } = this;
    if (!owes) this.#awaited = 0;
    return owes;
  }

  /** A waiter of the line has the lock. */
  granted(): void {
    this.#hasHad = true;
    this.#usual = this.#had;
    this.#awaited = 0;
    this.#owesUntilMs = -Infinity;
  }
}

// The lines of one client: one for each lock for which it has waiters.

export class Lines<Line> {
  readonly #lines = new Map<string, Line>();

  /** The line for a lock: created for the first waiter, and dropped with the last. */
  of(lock: string, create: (onEmpty: () => void) => Line): Line {
    let line = this.#lines.get(lock);
    if (!line) this.#lines.set(lock, (line = create(() => this.#lines.delete(lock))));
    return line;
  }

  get all(): readonly Line[] {
    return [...this.#lines.values()];
  }

  /** The line for a lock, if there are waiters for it. */
  known(lock: string): Line | undefined {
    return this.#lines.get(lock);
  }
}

// The latest answer about a lock. All waiters of the client for this lock share it, whichever of them asked.

export class LastAnswer {
  /** The holder according to the latest answer. */
  holder: SeenHolder | undefined;
  /** The error of the latest attempt that failed since that answer. */
  lastError: Error | undefined;
  #askedAtMs = -Infinity;

  /** When the query with the latest answer was sent, on the monotonic clock. */
  get askedAtMs(): number {
    return this.#askedAtMs;
  }

  held({ holder, holderTtlMs, holderState }: SeenHolder, askedAtMs: number): void {
    if (askedAtMs < this.#askedAtMs) return; // a newer answer has overtaken it
    this.holder = { holder, holderTtlMs, holderState };
    this.#askedAtMs = askedAtMs;
    this.lastError = undefined;
  }
}
