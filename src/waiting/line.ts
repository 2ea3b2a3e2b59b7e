// The waiters of one client for one lock: woken one at a time, in order, by a message or by the end of the holder's lease. While the lock
// is held they send next to nothing, however many they are: messages are hints that may get lost, so now and then the first looks for
// itself. While this very client has the lock they send nothing at all.

import type { SeenHolder } from '../api/errors.js';
import { PROCESS_CLOCK, type Clock } from '../runtime/clock.js';
import type { ChannelListener, Subscription } from './channels.js';
import { Findings } from './findings.js';
import { LookTimer } from './look-timer.js';
import { StandBack } from './stand-back.js';
import { Sleeper, type Seniority } from './sleeper.js';
import { TURN_MS, TurnTaking } from './turn-taking.js';

/** What a line needs of its lock. */
export interface LineHost {
  /** Its time; left out: that of the process. */
  readonly clock?: Clock;
  /** How long the first in line sleeps at most, whatever messages come or do not, in milliseconds. */
  readonly lookEveryMs: number;
  readonly turns?: TurnTaking;
  /** Set while this client holds the lock: its owner and time left. When that ends, `released()` or `free()` must be called. */
  readonly seenHere?: SeenHolder | undefined;
  /** Finds out whether this client still holds the lock, after a message of a release that was not its own. */
  readonly verify?: () => void;
  subscribe(listener: ChannelListener): Subscription;
  /** Asks the server something: resolves, or rejects, when the answer is here. */
  readonly roundTrip?: () => Promise<unknown>;
  /** The last waiter has left the line. */
  onEmpty(): void;
}

/** Why a sleeper tries. If it leaves meanwhile, another one tries in its place; but not for a mere `look`, whose answer all get. */
type Reason = 'may be free' | 'look';

export class Line<Heir = unknown> implements ChannelListener {
  readonly clock: Clock;
  readonly findings: Findings = new Findings();
  readonly #host: LineHost;
  readonly #turns: TurnTaking;
  #subscription: Subscription | undefined;
  /** Who has waited for longest comes first. */
  readonly #sleepers = new Set<Sleeper<Heir>>();
  #youngestSinceMs = 0;
  #trying: object | undefined;
  /** When the sleeper in `#trying` was woken (monotonic). */
  #tryingSinceMs = 0;
  /** Why that sleeper was woken. */
  #reason: Reason = 'may be free';
  /** Why another try must follow the one under way, which may have been sent too early; undefined: none must. */
  #next: Reason | undefined;
  readonly #lookTimer: LookTimer;
  /** While it is on, other clients have their turn first. */
  readonly #standBack: StandBack;

  constructor(host: LineHost) {
    this.#host = host;
    this.clock = host.clock ?? PROCESS_CLOCK;
    this.#turns = host.turns ?? new TurnTaking(this.clock);
    this.#standBack = new StandBack(this.clock);
    const isListening = (): boolean => this.#subscription !== undefined;
    this.#lookTimer = new LookTimer(this.clock, host.lookEveryMs, isListening, () => {
      this.#listen();
      this.#lookTimer.restart();
      this.#standBack.end();
      this.#wake();
    });
  }

  /**
   * Joins behind those who have waited for longer, after a try that was sent at `triedAtMs` (monotonic) and found the lock held
   * for `ttlMs` more.
   */
  join(triedAtMs: number, ttlMs: number, seniority: Seniority = {}, heir?: Heir): Sleeper<Heir> {
    const sleeper = this.#enter(new Sleeper(this, seniority, heir));
    const subscription = this.#listen();
    this.#lookTimer.lookBy(ttlMs);
    // A release after that try may have been published before we listened; the message may even have overtaken the answer.
    if (subscription.mayHaveMissed(triedAtMs)) this.#wake();
    return sleeper;
  }

  /** Joins without a try, since this client has the lock or others of it wait already. The line subscribes only if the wait lasts. */
  queue(seniority: Seniority = {}, heir?: Heir): Sleeper<Heir> {
    const sleeper = this.#enter(new Sleeper(this, seniority, heir));
    this.#lookTimer.lookBy(-1);
    return sleeper;
  }

  get length(): number {
    return this.#sleepers.size;
  }

  /** The waiter that this client's grant may be passed on to: the first in line, if it can take that and nobody is trying. */
  get heir(): Heir | undefined {
    return this.#trying ? undefined : this.#first?.heir;
  }

  beckon(sleeper: object): void {
    this.#next = undefined;
    this.#trying = sleeper;
    this.#reason = 'may be free';
    this.#tryingSinceMs = this.clock.nowMs();
  }

  isTrying(sleeper: object): boolean {
    return this.#trying === sleeper;
  }

  stillHeld(sleeper: object, ttlMs: number): void {
    if (this.#trying === sleeper) this.#trying = undefined;
    this.#turns.stillHeld();
    this.#listen();
    this.#lookTimer.restart(ttlMs);
    if (this.#next) this.#wake(this.#next);
  }

  leave(sleeper: Sleeper<Heir>, leaseMs?: number): void {
    this.#sleepers.delete(sleeper);
    const wasTrying = this.#trying === sleeper;
    if (wasTrying) this.#trying = undefined;
    if (leaseMs !== undefined) {
      this.#turns.granted();
      this.#standBack.end();
    }
    if (this.#sleepers.size === 0) {
      this.#turns.emptied();
      this.#lookTimer.stop();
      this.#standBack.end();
      this.#subscription?.close();
      this.#host.onEmpty();
      return;
    }
    if (leaseMs !== undefined) this.#lookTimer.restart(leaseMs);
    else if (wasTrying && this.#reason === 'may be free') this.#wake();
    if (this.#next) this.#wake(this.#next);
  }

  look(sinceMs: number): void {
    const { seenHere } = this.#host;
    if (seenHere) this.findings.held(seenHere, this.clock.nowMs());
    else if (!this.#trying || this.#tryingSinceMs < sinceMs) this.#wake('look');
  }

  subscribed(): void {
    this.#wake();
  }

  message(): void {
    const { seenHere, verify } = this.#host;
    // Only where nobody would be woken: another client's message may pass for our own, and no wake-up must be lost by that.
    if ((seenHere || this.#standBack.isOn) && this.#turns.takeOwnMessage()) return;
    const isOurTurn = this.#turns.othersReleased();
    if (seenHere)
      verify?.(); // our holder has not released the lock: is it lost?
    else if (!isOurTurn)
      // The pause begins anew, also if one was over and our try came too early: somebody else still had the lock.
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
    if (this.#trying || others <= 0 || turns === undefined) this.#wake();
    else if (turns > 0 || !roundTrip) this.#standBack.begin(TURN_MS, this.#wakeFirst);
    else this.#standBack.beginRoundTrips(roundTrip, this.#wakeFirst);
  }

  /** This client holds the lock no longer: it was lost or released, or that is not known. */
  free(): void {
    if (!this.#trying) this.#wake();
  }

  #enter(sleeper: Sleeper<Heir>): Sleeper<Heir> {
    const isYounger = this.#youngestSinceMs <= sleeper.sinceMs;
    this.#youngestSinceMs = Math.max(this.#youngestSinceMs, sleeper.sinceMs);
    const younger = isYounger
      ? []
      : [...this.#sleepers].filter(({ sinceMs }) => sinceMs > sleeper.sinceMs);
    this.#sleepers.add(sleeper);
    for (const other of younger) {
      this.#sleepers.delete(other);
      this.#sleepers.add(other);
    }
    return sleeper;
  }

  get #first(): Sleeper<Heir> | undefined {
    const [first] = this.#sleepers;
    return first;
  }

  #listen(): Subscription {
    return (this.#subscription ??= this.#host.subscribe(this));
  }

  #wake(reason: Reason = 'may be free'): void {
    if (this.#trying) {
      if (this.#next !== 'may be free') this.#next = reason;
      return;
    }
    this.#next = undefined;
    if (this.#host.seenHere || (this.#standBack.isOn && reason !== 'look')) return;
    const first = this.#first;
    if (!first) return;
    this.#reason = reason;
    this.#trying = first;
    this.#tryingSinceMs = this.clock.nowMs();
    first.wake();
  }

  readonly #wakeFirst = (): void => {
    this.#wake();
  };
}
