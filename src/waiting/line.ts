// The waiters of one client for one lock: woken one at a time, in order, by a message or by the end of the holder's lease. While the lock
// is held they send next to nothing, however many they are: messages are hints that may get lost, so now and then the first looks for
// itself. While this very client has the lock they send nothing at all.

import type { SeenHolder } from '../api/errors.js';
import { type Clock, PROCESS_CLOCK, type Timer } from '../runtime/clock.js';
import type { ChannelListener, Subscription } from './channels.js';

/** What a line needs of its lock. */
export interface LineHost {
  /** Its time; left out: that of the process. */
  readonly clock?: Clock;
  /** How long the first in line sleeps at most, whatever messages come or do not, in milliseconds. */
  readonly lookEveryMs: number;
  readonly turns?: FairnessBetweenClients;
  /** Set while this client holds the lock: its owner and time left. When that ends, `released()` or `free()` must be called. */
  readonly localHolder?: SeenHolder | undefined;
  /** Finds out whether this client still holds the lock, after a message of a release that was not its own. */
  readonly verify?: () => void;
  subscribe(listener: ChannelListener): Subscription;
  /** Asks the server something: resolves, or rejects, when the answer is here. */
  readonly roundTrip?: () => Promise<unknown>;
  /** The last waiter has left the line. */
  onEmpty(): void;
}

/** What decides when a caller has its turn among the waiters of its client, besides the order in which they came. */
export interface Seniority {
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs?: number | undefined;
  /** For how long it lets others try first, in other processes, too, when it is woken; in milliseconds. */
  readonly deferMs?: (() => number) | undefined;
}

/** Why a waiter tries. If it leaves meanwhile, another one tries in its place; but not for a mere `look`, whose answer all get. */
type Reason = 'may be free' | 'look';

/** How long a line whose own client holds the lock goes without a subscription, in milliseconds: the hold mostly ends before. */
const DEAF_MS = 100;

/** `Next`: what a release of this client can hand the lock over to. */
export class Line<Next = unknown> implements ChannelListener {
  readonly clock: Clock;
  readonly lastAnswer: LastAnswer = new LastAnswer();
  readonly #host: LineHost;
  readonly #turns: FairnessBetweenClients;
  #subscription: Subscription | undefined;
  /** Who has waited for longest comes first. */
  readonly #entries = new Set<LineEntry<Next>>();
  #youngestSinceMs = 0;
  /** Who tries now, since when (monotonic), and why. */
  #attempt: { entry: LineEntry<Next>; sinceMs: number; reason: Reason } | undefined;
  /** Why another attempt must follow the one under way, which may have been sent too early; undefined: none must. */
  #next: Reason | undefined;
  #lookTimer: Timer | undefined;
  /** When the first looks for itself (monotonic): when the holder's lease is over, and before that every now and then. */
  #lookAtMs = Infinity;
  /** While it is on, other clients have their turn first. */
  readonly #standBack: StandBack;

  constructor(host: LineHost) {
    this.#host = host;
    this.clock = host.clock ?? PROCESS_CLOCK;
    this.#turns = host.turns ?? new FairnessBetweenClients(this.clock);
    this.#standBack = new StandBack(this.clock);
  }

  /**
   * Joins behind those who have waited for longer, after an attempt that was sent at `triedAtMs` (monotonic) and found the lock held
   * for `ttlMs` more.
   */
  join(triedAtMs: number, ttlMs: number, seniority: Seniority = {}, next?: Next): LineEntry<Next> {
    const entry = this.#enter(new LineEntry(this, seniority, next));
    const subscription = this.#listen();
    this.#lookBy(ttlMs);
    // A release after that attempt may have been published before we listened; the message may even have overtaken the answer.
    if (subscription.mayHaveMissed(triedAtMs)) this.#wake();
    return entry;
  }

  /** Joins without an attempt, since this client has the lock or others of it wait already. The line subscribes only if the wait lasts. */
  queue(seniority: Seniority = {}, next?: Next): LineEntry<Next> {
    const entry = this.#enter(new LineEntry(this, seniority, next));
    this.#lookBy(-1);
    return entry;
  }

  /** To whom a release of this client may hand the lock over: the first in line, if it can take that and nobody is trying. */
  get next(): Next | undefined {
    return this.#attempt ? undefined : this.#first?.next;
  }

  /** This waiter is about to get the lock: nobody else tries until it leaves, or tries itself. */
  reserve(entry: LineEntry<Next>): void {
    this.#next = undefined;
    this.#attempt = { entry, sinceMs: this.clock.nowMs(), reason: 'may be free' };
  }

  isTrying(entry: LineEntry<Next>): boolean {
    return this.#attempt?.entry === entry;
  }

  stillHeld(entry: LineEntry<Next>, ttlMs: number): void {
    if (this.isTrying(entry)) this.#attempt = undefined;
    this.#turns.stillHeld();
    this.#listen();
    this.#lookAgain(ttlMs);
    if (this.#next) this.#wake(this.#next);
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
      this.#turns.emptied();
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

  /** Has the first in line try now, unless an attempt is under way that began at `sinceMs` (monotonic) or later, or this client has the lock. */
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
    // Only where nobody would be woken: another client's message may pass for our own, and no wake-up must be lost by that.
    if ((localHolder || this.#standBack.isOn) && this.#turns.takeOwnMessage()) return;
    const isOurTurn = this.#turns.othersReleased();
    if (localHolder)
      verify?.(); // our holder has not released the lock: is it lost?
    else if (!isOurTurn)
      // The pause begins anew, also if one was over and our attempt came too early: somebody else still had the lock.
      this.#standBack.begin(TURN_MS, this.#wakeFirst);
    else {
      this.#standBack.end();
      this.#wake();
    }
  }

  /** This client is about to release the lock, and will hear of that itself. */
  releasing(): void {
    this.#turns.expectOwnMessage();
  }

  /** This client has released the lock, and `others` listeners of other clients were told: they have their turn first. */
  released(others: number): void {
    const turns = this.#turns.released(others);
    const { roundTrip } = this.#host;
    if (this.#attempt || others <= 0 || turns === undefined) this.#wake();
    else if (turns > 0 || !roundTrip) this.#standBack.begin(TURN_MS, this.#wakeFirst);
    else this.#standBack.beginRoundTrips(roundTrip, this.#wakeFirst);
  }

  /** The server refuses this client: whoever tries hears of that, and so does the next. */
  refused(): void {
    this.#wake();
  }

  /** This client holds the lock no longer: it was lost or released, or that is not known. */
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

  /** Looks when the lock, which is held for `ttlMs` more (-1: no expiry), may be free; or when the timer rings anyway, if earlier. */
  #lookBy(ttlMs: number): void {
    if (this.#lookTimeMs(ttlMs) < this.#lookAtMs) this.#lookAgain(ttlMs);
  }

  /** Looks when the lock, which is held for `ttlMs` more (-1: no expiry), may be free. */
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

  /** A message may never come: its sender died, or may not publish; nobody tells a subscription that its connection is dead. */
  #lookTimeMs(ttlMs: number): number {
    const { lookEveryMs } = this.#host;
    const mostMs = this.#subscription ? lookEveryMs : Math.min(lookEveryMs, DEAF_MS);
    return this.clock.nowMs() + (ttlMs < 0 ? mostMs : Math.min(ttlMs, mostMs));
  }
}

/** One caller in the line, who sleeps until it is its turn to try. */
export class LineEntry<Next = unknown> {
  readonly #line: Line<Next>;
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs: number;
  /** How a release of this client hands the lock over to it when it is first in line; undefined: the caller has to ask the server. */
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
    this.#sleep();
  }

  /** Resolves when it is this caller's turn to try. */
  get woken(): Promise<void> {
    return this.#woken;
  }

  /** Whether this caller is the one to try. */
  get mayTry(): boolean {
    return this.#line.isTrying(this);
  }

  get lastAnswer(): LastAnswer {
    return this.#line.lastAnswer;
  }

  look(sinceMs: number): void {
    this.#line.look(sinceMs);
  }

  /** This caller is about to get the lock: nobody else in the line tries. */
  reserve(): void {
    this.#line.reserve(this);
  }

  /** It is this caller's turn, out of order: it has got the lock, or is to try because it was about to get it. */
  goOn(): void {
    this.reserve();
    this.#wake();
  }

  /** The attempt found the lock held for `ttlMs` more (-1: no expiry): sleeps on, at the same place. */
  stillHeld(ttlMs: number): void {
    this.#sleep();
    this.#line.stillHeld(this, ttlMs);
  }

  /** Leaves the line: with the lock for `leaseMs`, or without; then a wake-up that it did not use goes to the next. */
  leave(leaseMs?: number): void {
    this.#line.clock.clearTimer(this.#deferTimer);
    this.#line.leave(this, leaseMs);
  }

  wake(): void {
    const deferMs = this.#deferMs?.() ?? 0;
    if (deferMs > 0) this.#deferTimer = this.#line.clock.setTimer(this.#wake, deferMs);
    else this.#wake();
  }

  #sleep(): void {
    this.#woken = new Promise((resolve) => (this.#wake = resolve));
  }
}

// A pause in which other clients may take the lock of whose release they were told.

export class StandBack {
  readonly #clock: Clock;
  #pause: Timer | Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isOn(): boolean {
    return this.#pause !== undefined;
  }

  /** Pauses for `ms` milliseconds from now, whatever pause was on; then calls `over`. */
  begin(ms: number, over: () => void): void {
    this.end();
    this.#pause = this.#clock.setTimer(() => {
      this.#pause = undefined;
      over();
    }, ms);
  }

  /** Pauses for two round trips to the server, by calling `ask` twice; then calls `over`. */
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

// Lets the clients that want one lock take turns: a client that has released it stands back until the others have had it.

/** How often a lock is handed over within one client before other clients have their turn, and for how many milliseconds after it was acquired. */
export const MOST_HAND_OVERS = 16;
export const LONGEST_CHAIN_MS = 10;

/** How long a client waits for the next release by another one before it tries anyway, in milliseconds: not in the middle of a chain of hand-overs. */
export const TURN_MS: number = LONGEST_CHAIN_MS + 2;

/** For how many turns of other clients one stands back at most. */
const MOST_TURNS = 64;

/** One release in so many lets all listeners have a turn, however few had theirs before: more of them may want the lock by now. */
const ALL_EVERY = 16;

/** How long after a release our own message may come back to us, in milliseconds; later it is not expected any more. */
const OWN_MESSAGE_MS = 20;

export class FairnessBetweenClients {
  readonly #clock: Clock;
  /** How many of the listeners have had a turn of late. */
  #usual = MOST_TURNS;
  #releases = 0;
  /** How many others are to have their turn before we try. */
  #awaited = 0;
  /** How many releases by others came since our own. */
  #had = 0;
  /** Whether one of those in line has had the lock since this client released it last. */
  #hadIt = false;
  #ownMessages = 0;
  #ownUntilMs = 0;

  constructor(clock: Clock = PROCESS_CLOCK) {
    this.#clock = clock;
  }

  /** We are about to release the lock, and listen to its channel ourselves. */
  expectOwnMessage(): void {
    this.#ownMessages++;
    this.#ownUntilMs = this.#clock.nowMs() + OWN_MESSAGE_MS;
  }

  /** Whether a message that has come is our own. */
  takeOwnMessage(): boolean {
    if (this.#clock.nowMs() > this.#ownUntilMs) this.#ownMessages = 0;
    if (this.#ownMessages === 0) return false;
    this.#ownMessages--;
    return true;
  }

  /**
   * We have released the lock, and `others` other listeners were told. Returns for how many turns of theirs to stand back; undefined: none
   * of those in line had the lock, but another caller of ours who stands in no line, such as a MultiLock that gave it back.
   */
  released(others: number): number | undefined {
    // `others` is negative if our own subscription was not counted, since a node of a cluster counts its own subscribers only.
    const listeners = Math.max(others, 0);
    if (!this.#hadIt) return undefined;
    this.#hadIt = false;
    this.#had = 0;
    const isFull = ++this.#releases % ALL_EVERY === 0;
    if (!isFull && listeners > 0) this.#usual = Math.min(this.#usual, listeners);
    this.#awaited = Math.min(listeners, isFull ? MOST_TURNS : this.#usual);
    return this.#awaited;
  }

  /** Another client has released the lock. Returns whether it is our turn. */
  othersReleased(): boolean {
    this.#had++;
    if (this.#awaited > 0) this.#awaited--;
    return this.#awaited === 0;
  }

  /**
   * We have the lock again. If not all turns came that were awaited, fewer are expected from now on; but not less than half at once, since
   * a machine may just be slow.
   */
  granted(): void {
    this.#hadIt = true;
    if (this.#awaited > 0) this.#usual = Math.max(this.#had, this.#usual >> 1);
    this.#awaited = 0;
  }

  /**
   * Our try found that somebody else has the lock. If all turns came that were awaited, there is one client more than we thought. If not,
   * and nobody released the lock for a while, then some of them do not want it, and the former holder has it again: one more turn is
   * enough.
   */
  stillHeld(): void {
    if (this.#awaited > 0) {
      this.#usual = Math.max(this.#had, this.#usual >> 1);
      this.#awaited = 1;
    } else if (this.#usual < MOST_TURNS) this.#usual++;
  }

  /** Nobody is in line any more: whoever joins later owes nobody a turn. */
  emptied(): void {
    this.#awaited = 0;
  }
}

// The lines of one client, one for each lock that somebody of it waits for.

export class Lines<Line> {
  readonly #lines = new Map<string, Line>();

  /** The line for a lock: made for the first who waits, and forgotten with the last. */
  of(lock: string, create: (onEmpty: () => void) => Line): Line {
    let line = this.#lines.get(lock);
    if (!line) this.#lines.set(lock, (line = create(() => this.#lines.delete(lock))));
    return line;
  }

  get all(): readonly Line[] {
    return [...this.#lines.values()];
  }

  /** The line for a lock, if anybody waits for it. */
  known(lock: string): Line | undefined {
    return this.#lines.get(lock);
  }
}

// What the waiters of one client for one lock know of it: whichever of them asked, they share the answer.

export class LastAnswer {
  /** Who had the lock, by the latest answer. */
  holder: SeenHolder | undefined;
  /** The error of the latest attempt that failed since that answer. */
  lastError: Error | undefined;
  #askedAtMs = -Infinity;

  /** When the latest answer was asked for, on the monotonic clock. */
  get askedAtMs(): number {
    return this.#askedAtMs;
  }

  held({ holder, holderTtlMs }: SeenHolder, askedAtMs: number): void {
    if (askedAtMs < this.#askedAtMs) return; // an answer that was overtaken
    this.holder = { holder, holderTtlMs };
    this.#askedAtMs = askedAtMs;
    this.lastError = undefined;
  }
}
