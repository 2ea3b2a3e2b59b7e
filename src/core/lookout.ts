// Looks out for locks that go before their time: deleted, flushed, evicted or forced out. Each lock that has been held for a while is read
// by a connection that the server tells of changes (redis/tracking.ts). What is told, or read, is only a reason to ask: the renewal that
// `suspect` sends decides whether the lock is lost. So a message that is late, doubled or forged ends nothing, and after a lost
// one the holder learns it from its next renewal.

import type { Tracking } from '../redis/tracking.js';
import type { Due, Schedule, Scheduled } from '../runtime/schedule.js';
import type { LockPlace } from './protocol.js';

/** How old a lease is at least before it is looked at, so that a short hold costs nothing; and twice that at most. */
const YOUNG_MS = 400;
/** How often a key is read for one lease at most: somebody may write to it all the time. Other holders of a shared lock do so by right. */
const PAUSE_MS = 100;
const SHARED_PAUSE_MS = 1_000;
/**
 * How often a key is read, or a word that owners were forced out is acted on, without a pause: a change may come right after one of our own,
 * and the masters of a Redlock say so one after another.
 */
const AT_ONCE = 5;
/** How soon a key is read again that the server refused to read. */
const REFUSED_PAUSE_MS = 1_000;
/** How many keys are read, or found not to be readable, in one turn of the event loop. */
const MOST_A_TURN = 500;

/** A lease to look out for. */
export interface Guarded {
  readonly ownerId: string;
  /** Whether other owners may have the key changed at any time. */
  readonly isShared: boolean;
  /** Where the owner is a field of a hash. */
  readonly places: readonly LockPlace[];
}

/**
 * What is known of one key of one lease. `due`: a change would not be told. `looking`: it is being read. `changed`: it changed meanwhile.
 * `told`: the next change will be told. `over`: nobody looks out for it any more.
 */
interface Sight {
  readonly guarded: Guarded;
  readonly tracking: Tracking;
  readonly key: string;
  state: 'due' | 'looking' | 'changed' | 'told' | 'over';
  /** When the reads so far would have been made, with a pause after each. */
  readUntilMs: number;
}

interface Told {
  readonly keys: Map<string, Set<Sight>>;
  readonly end: () => void;
}

/** The channel of a client on which others say what they wish or have done, with its id behind it. Anybody may publish there. */
export const WISHES = 'holdfast_wishes:';

function numberOf({ ownerId }: Guarded): string {
  return ownerId.slice(ownerId.lastIndexOf(':') + 1);
}

export class Lookout<G extends Guarded> implements Due {
  scheduled: Scheduled | undefined;
  readonly #schedule: Schedule;
  readonly #suspect: (guarded: readonly G[]) => void;
  /** Those that came since the last round, and those that came in the round before. */
  #young = new Set<G>();
  #older = new Set<G>();
  readonly #sights = new Map<G, readonly Sight[]>();
  /** Those to be read next, of those whose state is `due`. */
  readonly #due = new Set<Sight>();
  /** The sights that may be told of, by key, for each connection, and how it stops telling. */
  readonly #told = new Map<Tracking, Told>();
  #nextRoundAtMs = 0;
  #suspects = new Set<G>();
  /** The numbers of owners that were forced out, as somebody says. */
  #forced = new Set<string>();
  /** When the words so far would have been acted on, with a pause after each. */
  #forcedUntilMs = 0;

  /** `suspect`: asks the server whether these still stand. */
  constructor(schedule: Schedule, suspect: (guarded: readonly G[]) => void) {
    this.#schedule = schedule;
    this.#suspect = suspect;
  }

  /** `isYoung`: it may be a short hold. */
  add(guarded: G, isYoung = true): void {
    if (this.#sights.has(guarded)) return;
    if (isYoung) this.#young.add(guarded);
    else this.#sights.set(guarded, this.#sightsOf(guarded));
    this.#schedule.within(this, isYoung ? YOUNG_MS : 1);
  }

  delete(guarded: G): void {
    this.#suspects.delete(guarded);
    if (this.#young.delete(guarded) || this.#older.delete(guarded)) return;
    for (const sight of this.#sights.get(guarded) ?? []) this.#forget(sight);
    this.#sights.delete(guarded);
  }

  /** Somebody says that this one is gone. */
  suspect(guarded: G): void {
    this.#suspects.add(guarded);
    this.#schedule.within(this, 1);
  }

  /** `forceUnlock()` leaves word on the channel of each client whose owners it removes: `<number>,<number> forced`. */
  hear(payload: string): void {
    const [numbers = '', word] = payload.split(' ', 2);
    if (word !== 'forced') return;
    for (const number of numbers.split(',')) this.#forced.add(number);
    this.#schedule.within(this, 1);
  }

  stop(): void {
    for (const { end } of this.#told.values()) end();
    this.#schedule.delete(this);
  }

  due(): void {
    this.#growUp();
    this.#look();
    this.#suspectForced();
    const suspects = [...this.#suspects];
    this.#suspects.clear();
    if (suspects.length > 0) this.#suspect(suspects);
  }

  /** Those that have been held for long enough are looked at from now on. */
  #growUp(): void {
    const nowMs = this.#schedule.clock.nowMs();
    if (nowMs >= this.#nextRoundAtMs) {
      for (const guarded of this.#older) this.#sights.set(guarded, this.#sightsOf(guarded));
      this.#older = this.#young;
      this.#young = new Set();
      this.#nextRoundAtMs = nowMs + YOUNG_MS;
    }
    if (this.#older.size > 0 || this.#young.size > 0)
      this.#schedule.within(this, this.#nextRoundAtMs - nowMs);
  }

  /** Every `PAUSE_MS` on average at most, since anybody may publish such a word. */
  #suspectForced(): void {
    if (this.#forced.size === 0) return;
    const nowMs = this.#schedule.clock.nowMs();
    const waitMs = this.#forcedUntilMs - (AT_ONCE - 1) * PAUSE_MS - nowMs;
    if (waitMs > 0) {
      this.#schedule.within(this, waitMs);
      return;
    }
    this.#forcedUntilMs = Math.max(this.#forcedUntilMs, nowMs) + PAUSE_MS;
    for (const guardeds of [this.#young, this.#older, this.#sights.keys()])
      for (const guarded of guardeds)
        if (this.#forced.has(numberOf(guarded))) this.#suspects.add(guarded);
    this.#forced.clear();
  }

  #sightsOf(guarded: G): Sight[] {
    return guarded.places.map(({ connection: { tracking }, key }) => {
      const sight: Sight = { guarded, tracking, key, state: 'due', readUntilMs: -Infinity };
      let told = this.#told.get(tracking);
      if (!told) this.#told.set(tracking, (told = this.#listenTo(tracking, guarded)));
      const sights = told.keys.get(key);
      if (sights) sights.add(sight);
      else told.keys.set(key, new Set([sight]));
      this.#due.add(sight);
      tracking.need(1);
      return sight;
    });
  }

  #forget(sight: Sight): void {
    sight.state = 'over';
    sight.tracking.need(-1);
    this.#due.delete(sight);
    const keys = this.#told.get(sight.tracking)?.keys;
    const sights = keys?.get(sight.key);
    sights?.delete(sight);
    if (sights?.size === 0) keys?.delete(sight.key);
  }

  #listenTo(tracking: Tracking, { ownerId }: G): Told {
    // Those of closed clients are forgotten: a Redlock may be over clients that live for a shorter time than its own.
    for (const known of this.#told.keys()) if (known.isClosed) this.#told.delete(known);
    const clientId = ownerId.slice(0, ownerId.lastIndexOf(':'));
    const keys = new Map<string, Set<Sight>>();
    const end = tracking.listen(WISHES + clientId, {
      changed: (key) => {
        const known = key === undefined ? [...keys.values()] : [keys.get(key) ?? []];
        for (const sights of known) for (const sight of sights) this.#changed(sight);
      },
      ready: () => {
        for (const sights of keys.values())
          for (const sight of sights) if (sight.state === 'due') this.#due.add(sight);
        if (this.#due.size > 0) this.#schedule.within(this, 1);
      },
      message: (payload) => {
        this.hear(payload);
      },
    });
    return { keys, end };
  }

  #changed(sight: Sight): void {
    if (sight.state === 'looking') sight.state = 'changed';
    if (sight.state === 'told') this.#isDue(sight);
  }

  #isDue(sight: Sight): void {
    sight.state = 'due';
    this.#due.add(sight);
    this.#schedule.within(this, 1);
  }

  /** Reads the keys that are due and were not read again and again of late. One whose server does not tell of changes waits for `ready`. */
  #look(): void {
    const nowMs = this.#schedule.clock.nowMs();
    let soonestMs = Infinity;
    let count = 0;
    for (const sight of this.#due) {
      const { isShared } = sight.guarded;
      const pauseMs = isShared ? SHARED_PAUSE_MS : PAUSE_MS;
      const waitMs = sight.readUntilMs - (isShared ? 0 : (AT_ONCE - 1) * pauseMs) - nowMs;
      if (waitMs > 0) {
        soonestMs = Math.min(soonestMs, waitMs);
        continue;
      }
      this.#due.delete(sight);
      if (sight.tracking.canRead(sight.key)) {
        sight.state = 'looking';
        sight.readUntilMs = Math.max(sight.readUntilMs, nowMs) + pauseMs;
        void this.#read(sight);
      }
      if (++count < MOST_A_TURN) continue;
      soonestMs = 1;
      break;
    }
    if (soonestMs < Infinity) this.#schedule.within(this, soonestMs);
  }

  async #read(sight: Sight): Promise<void> {
    const { guarded, tracking, key } = sight;
    const isThere = await tracking.hasField(key, guarded.ownerId);
    const { state } = sight as { state: Sight['state'] };
    if (state === 'over') return;
    if (isThere === false || isThere === 'elsewhere') this.suspect(guarded as G);
    if (isThere === 'refused' || isThere === 'elsewhere')
      sight.readUntilMs =
        this.#schedule.clock.nowMs() + REFUSED_PAUSE_MS + (AT_ONCE - 1) * PAUSE_MS;
    if (typeof isThere !== 'boolean' || state === 'changed') this.#isDue(sight);
    else sight.state = 'told';
  }
}
