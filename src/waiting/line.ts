// Those of one client who wait for one lock: woken one at a time, in order, by a message or by the end of the
// holder's lease. While the lock is held they send next to nothing, however many they are: messages are hints that may get lost,
// so now and then the first looks for itself. While this very client has the lock they send nothing at all.

import type { SeenHolder } from '../api/errors.js';
import type { ChannelListener, Subscription } from './channels.js';
import { Findings } from './findings.js';
import { LookTimer } from './look-timer.js';
import { StandBack } from './stand-back.js';
import { Sleeper, type Seniority } from './sleeper.js';
import { TURN_MS, TurnTaking } from './turn-taking.js';

/** What a line needs of its lock. */
export interface LineHost {
  /** How long whoever is first sleeps at most, heard or not heard, in milliseconds. */
  readonly lookEveryMs: number;
  readonly turns?: TurnTaking;
  /** This client has the lock, and what there is to say of that: as good as an answer of the server. Whoever ends that tells the line. */
  readonly seenHere?: SeenHolder | undefined;
  /** What this client has of the lock may have been lost: finds out. */
  readonly verify?: () => void;
  subscribe(listener: ChannelListener): Subscription;
  /** Asks the server something: resolves, or rejects, when the answer is here. */
  readonly roundTrip?: () => Promise<unknown>;
  /** The last has left. */
  onEmpty(): void;
}

/** Why somebody tries. Of a mere look the answer is shared also when the asker has gone: nobody need try in its place. */
type Reason = 'may be free' | 'look';

export class Line<Heir = unknown> implements ChannelListener {
  readonly findings: Findings = new Findings();
  readonly #host: LineHost;
  readonly #turns: TurnTaking;
  #subscription: Subscription | undefined;
  /** Who has waited for longest comes first. */
  readonly #sleepers = new Set<Sleeper<Heir>>();
  #youngestSinceMs = 0;
  #trying: object | undefined;
  /** Since when, on the monotonic clock. */
  #tryingSinceMs = 0;
  /** What for. */
  #reason: Reason = 'may be free';
  /** What for somebody has to try after that one, whose try may have been too early. */
  #next: Reason | undefined;
  readonly #lookTimer: LookTimer;
  /** While it is on, others have their turn first. */
  readonly #standBack = new StandBack();

  constructor(host: LineHost) {
    this.#host = host;
    this.#turns = host.turns ?? new TurnTaking();
    const isListening = (): boolean => this.#subscription !== undefined;
    this.#lookTimer = new LookTimer(host.lookEveryMs, isListening, () => {
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
    // Released after that try was answered, and told before we listened: the message may even overtake the answer.
    if (subscription.mayHaveMissed(triedAtMs)) this.#wake();
    return sleeper;
  }

  /** Joins without a try: this client has the lock, or others of it wait already. What may happen to it elsewhere is heard of later. */
  queue(seniority: Seniority = {}, heir?: Heir): Sleeper<Heir> {
    const sleeper = this.#enter(new Sleeper(this, seniority, heir));
    this.#lookTimer.lookBy(-1);
    return sleeper;
  }

  get length(): number {
    return this.#sleepers.size;
  }

  /** The first in line, if it takes what this client has of the lock. */
  get heir(): Heir | undefined {
    return this.#trying ? undefined : this.#first?.heir;
  }

  beckon(sleeper: object): void {
    this.#next = undefined;
    this.#trying = sleeper;
    this.#reason = 'may be free';
    this.#tryingSinceMs = performance.now();
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
    if (seenHere) this.findings.held(seenHere, performance.now());
    else if (!this.#trying || this.#tryingSinceMs < sinceMs) this.#wake('look');
  }

  subscribed(): void {
    this.#wake();
  }

  message(): void {
    const { seenHere, verify } = this.#host;
    // Only where nobody is woken anyway: another's message that is taken for our own must not cost a wake-up.
    if ((seenHere || this.#standBack.isOn) && this.#turns.takeOwnMessage()) return;
    const isOurTurn = this.#turns.othersReleased();
    if (seenHere)
      verify?.(); // whoever has it here has not released it
    else if (!isOurTurn)
      // Also after a try of ours, which came too early: somebody else still had it.
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

  /** This client has released the lock, and so many others heard of it: they have their turn first. */
  released(others: number): void {
    const turns = this.#turns.released(others);
    const { roundTrip } = this.#host;
    if (this.#trying || others <= 0 || turns === undefined) this.#wake();
    else if (turns > 0 || !roundTrip) this.#standBack.begin(TURN_MS, this.#wakeFirst);
    else this.#standBack.beginRoundTrips(roundTrip, this.#wakeFirst);
  }

  /** This client has the lock no longer: it was lost, or nobody knows. */
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
    this.#tryingSinceMs = performance.now();
    first.wake();
  }

  readonly #wakeFirst = (): void => {
    this.#wake();
  };
}
