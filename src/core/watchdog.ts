// The watchdog: every third of `lockWatchdogTimeout` it renews, in batches, all leases that a client has on the server. Leases that the
// caller has fixed are only checked, to detect their loss.

import type { RenewedMessage } from '../api/channels.js';
import type { HoldfastStats } from '../api/description.js';
import type { Due, Schedule, Scheduled } from '../runtime/schedule.js';
import { type Clock, elapsedMs, type Instant, now, type TimeLimit } from '../runtime/clock.js';
import {
  deadlineOf,
  idOf,
  isKept,
  type KeepReply,
  leftMs,
  type Renewable,
  type Renewal,
  type Renewer,
  type Watched,
} from './protocol.js';
import { inOwnContext } from '../runtime/node.js';
import { type Guarded, Lookout } from './lookout.js';
import { isPassing, isSlotOpen, mayConcernSome } from '../redis/failure.js';
import type { RedisClient } from '../redis/client.js';
import { hashTag } from '../redis/keys.js';
import type { Script } from '../redis/scripts.generated.js';

/** The longest delay before an unanswered renewal is repeated, in milliseconds: others may get the lock as soon as the server is back. */
const LONGEST_RETRY_MS = 250;

export interface WatchdogOptions {
  schedule: Schedule;
  leaseMs: number;
  /** Called at the first failure of an outage: the renewals of `leaseCount` leases were not answered, and will soon be sent again. */
  failed: (error: unknown, leaseCount: number) => void;
  /** Called for each batch that was renewed, with how many of its leases had this outcome. */
  counted: (outcome: RenewedMessage['outcome'], leaseCount: number) => void;
}

/**
 * `in doubt`: the server may have lost the lease, and is being asked; `unanswered`: it did not answer, and is soon asked again; `over`: the
 * lease is no longer watched.
 */
type EntryState = 'trusted' | 'in doubt' | 'unanswered' | 'over';

class Entry implements Watched<unknown>, Guarded {
  readonly lease: Renewable<unknown>;
  readonly target: unknown;
  readonly renewer: Renewer<unknown>;
  state: EntryState = 'trusted';
  /** How many renewals are unanswered, and whether another one is to follow the answer. */
  asked = 0;
  isSuspect = false;

  constructor(lease: Renewable<unknown>, target: unknown, renewer: Renewer<unknown>) {
    this.lease = lease;
    this.target = target;
    this.renewer = renewer;
  }

  get ownerId(): string {
    return this.lease.ownerId;
  }

  get isShared(): boolean {
    return this.lease.isShared ?? false;
  }

  get places(): Guarded['places'] {
    return this.renewer.placesOf?.(this.target) ?? [];
  }
}

/** A lease whose renewal was not answered, and why. */
interface Failure {
  readonly entry: Entry;
  readonly error: unknown;
}

export class Watchdog implements Due {
  scheduled: Scheduled | undefined;
  readonly #options: WatchdogOptions;
  readonly #schedule: Schedule;
  readonly #intervalMs: number;
  readonly #retryMs: number;
  readonly #splitting: Splitting<Entry>;
  readonly #watched = new Map<Renewable<unknown>, Entry>();
  readonly #lookout: Lookout<Entry>;
  /** The number of `unanswered` leases. An outage lasts while there are any. */
  #unansweredCount = 0;
  /** Whether nobody knows of this outage so far. */
  #isNews = false;
  /** What became of the renewals so far. */
  readonly renewals: HoldfastStats['renewals'] = { kept: 0, lost: 0, unanswered: 0, late: 0 };

  constructor(options: WatchdogOptions) {
    this.#options = options;
    this.#schedule = options.schedule;
    this.#intervalMs = options.leaseMs / 3;
    this.#retryMs = Math.min(this.#intervalMs / 10, LONGEST_RETRY_MS);
    this.#splitting = new Splitting(options.schedule.clock, this.#intervalMs / 2);
    // One after another: only the first that comes is told how a lock was lost, and its answer may be the later one.
    this.#lookout = new Lookout(options.schedule, (entries) => {
      for (const entry of entries) entry.isSuspect = entry.asked > 0;
      this.#renewInBatches(entries.filter(({ isSuspect }) => !isSuspect));
    });
  }

  watch<Target>(lease: Renewable<unknown>, target: Target, renewer: Renewer<Target>): void {
    // A place in line calls `watch` each time it waits again. Its entry is kept, since a renewal may be under way.
    if (!this.#watched.has(lease)) {
      const entry = new Entry(lease, target, renewer);
      this.#watched.set(lease, entry);
      if (renewer.placesOf) this.#lookout.add(entry, !lease.wasKept);
    }
    // The lease began when it was requested, which may be a while ago.
    this.#schedule.within(this, this.#intervalMs - lease.ageMs());
  }

  unwatch(lease: Renewable<unknown>): void {
    const entry = this.#watched.get(lease);
    if (!entry) return;
    this.#become(entry, 'over');
    this.#watched.delete(lease);
    this.#lookout.delete(entry);
    if (this.#watched.size === 0) this.#schedule.delete(this);
  }

  /** Renews all leases at once: the connection is new, and may lead to another server. */
  readonly renewAll = (): void => {
    if (this.#watched.size === 0) return;
    this.#round(0);
    for (const { lease } of [...this.#watched.values()]) lease.serverMayHaveChanged?.();
  };

  /** Renews the leases of the affected batches at once: their server was lost or replaced. Repeats it soon while there is no answer. */
  readonly doubt = (isAffected: (batchKey: string) => boolean): void => {
    // A lease already in doubt is being renewed, or will be soon. That attempt may itself find the server lost again, and must not start
    // another one.
    const at = now(this.#schedule.clock);
    const affected: Entry[] = [];
    for (const entry of this.#watched.values()) {
      const { lease, state, renewer, target } = entry;
      if (state !== 'trusted' || !isAffected(renewer.batchKey(target))) continue;
      lease.checkEnd?.(at);
      if (lease.ageMs(at) < 0) continue;
      this.#become(entry, 'in doubt');
      affected.push(entry);
    }
    this.#renewInBatches(affected);
  };

  /** Renews these leases at once. */
  renew(leases: Iterable<Renewable<unknown>>): void {
    const entries = [...leases].flatMap((lease) => this.#watched.get(lease) ?? []);
    this.#renewInBatches(entries);
  }

  stop(): void {
    this.#lookout.stop();
    for (const { lease } of [...this.#watched.values()]) this.unwatch(lease);
  }

  due(): void {
    this.#round();
  }

  /**
   * A lease is due at half the interval, or if it is `unanswered`. So a round skips leases that were just acquired or renewed, and a
   * retrying round skips those that were answered.
   */
  #round(dueAgeMs = this.#intervalMs / 2): void {
    if (this.#watched.size === 0) return;
    this.#schedule.within(this, this.#intervalMs);
    const at = now(this.#schedule.clock);
    const due: Entry[] = [];
    for (const entry of this.#watched.values()) {
      entry.lease.checkEnd?.(at);
      const { lease, state } = entry;
      if (lease.ageMs(at) >= (state === 'unanswered' ? 0 : dueAgeMs)) due.push(entry);
    }
    this.#renewInBatches(due);
  }

  /** Reads `isWatched` only once per lease, since it may change while other batches are sent. */
  #renewInBatches(entries: readonly Entry[]): void {
    const watched: Entry[] = [];
    const fixed: Entry[] = [];
    for (const entry of entries) (entry.lease.isWatched ? watched : fixed).push(entry);
    this.#send(watched, this.#options.leaseMs);
    this.#send(fixed, 0);
  }

  #send(entries: readonly Entry[], leaseMs: number): void {
    for (const { lease } of entries) lease.renewing?.(leaseMs);
    // One call contains leases of one kind and one slot.
    const keyOf = ({ renewer, target }: Entry): string => {
      const batchKey = renewer.batchKey(target);
      return batchKey === '' ? renewer.kind : idOf(renewer.kind, batchKey);
    };
    const limitMs = this.#intervalMs / 10;
    spreadOverTicks(
      inBatches(entries, keyOf, BATCH_SIZE),
      this.#schedule.clock,
      limitMs,
      (batch) => void this.#renew(batch, leaseMs),
    );
  }

  async #renew(batch: readonly Entry[], leaseMs: number): Promise<void> {
    const failures = await this.#attempt(batch, leaseMs);
    this.#failed(failures.filter(({ entry }) => entry.state !== 'over'));
  }

  /** Renews a batch in one call, or each lease alone if the call is refused. Returns those that were not answered. */
  async #attempt(whole: readonly Entry[], leaseMs: number): Promise<readonly Failure[]> {
    // The batch may have waited for its turn; some of its leases may no longer be watched.
    const batch = whole.filter(({ state }) => state !== 'over');
    const [first] = batch;
    if (!first) return [];
    const sentAt = now(this.#schedule.clock);
    for (const entry of batch) entry.asked++;
    try {
      const replies = await first.renewer.renew(batch, leaseMs);
      const deadline = deadlineOf(sentAt, leaseMs);
      const renewal: Renewal = { sentAt, leaseMs, deadline, answeredAt: now(sentAt.clock) };
      const isLate = leaseMs > 0 && leftMs(deadline, renewal.answeredAt) <= 0;
      const unknown: Entry[] = [];
      const counts = { kept: 0, lost: 0 };
      for (const [index, entry] of batch.entries()) {
        const reply = replies[index];
        if (reply === undefined) unknown.push(entry);
        // `over`: released or lost while the renewal was under way, so its answer no longer matters.
        if (reply === undefined || entry.state === 'over') continue;
        const wasInDoubt = entry.state !== 'trusted';
        this.#become(entry, 'trusted');
        counts[entry.lease.renewed(reply, renewal) ? 'kept' : 'lost']++;
        if (wasInDoubt) entry.lease.serverMayHaveChanged?.();
      }
      this.#count('lost', counts.lost);
      if (leaseMs > 0) this.#count('kept', counts.kept);
      if (isLate) this.renewals.late += counts.kept;
      if (unknown.length === 0) return [];
      const error = new Error('too few servers confirmed it');
      return unknown.map((entry) => ({ entry, error }));
    } catch (error) {
      const alone = this.#splitting.due(batch, error);
      const attempts = [...alone].map((entry) => this.#attempt([entry], leaseMs));
      const others = batch.filter((entry) => !alone.has(entry));
      return others.map((entry) => ({ entry, error })).concat(...(await Promise.all(attempts)));
    } finally {
      for (const entry of batch) {
        entry.asked--;
        if (entry.isSuspect && entry.state !== 'over') this.#lookout.suspect(entry);
      }
    }
  }

  #failed(failures: readonly Failure[]): void {
    const [first] = failures;
    if (!first) return;
    const isFirst = this.#unansweredCount === 0;
    if (isFirst) this.#isNews = true;
    for (const { entry } of failures) this.#become(entry, 'unanswered');
    this.#count('unanswered', failures.length);
    // A slot that has moved is found in a moment: that is news only if the next attempt fails, too.
    if (this.#isNews && !(isFirst && isPassing(first.error))) {
      this.#isNews = false;
      this.#options.failed(first.error, failures.length);
    }
    this.#schedule.within(this, this.#retryMs);
  }

  #count(outcome: RenewedMessage['outcome'], leaseCount: number): void {
    if (leaseCount === 0) return;
    this.renewals[outcome] += leaseCount;
    this.#options.counted(outcome, leaseCount);
  }

  #become(entry: Entry, state: EntryState): void {
    if (entry.state === 'unanswered') this.#unansweredCount--;
    if (state === 'unanswered') this.#unansweredCount++;
    entry.state = state;
  }
}

// Groups renewals into batches of one script call each, and spreads the calls over turns of the event loop.

/** The leases in one script call: many, to need few calls; few enough that a call takes well under 10 ms. */
export const BATCH_SIZE = 500;

/**
 * The most turns of the event loop over which calls are spread. Other work runs in between, and the memory of one turn is garbage before
 * the next.
 */
const MOST_TURNS = 32;

/** Groups items by their key, in their order, into batches of at most `size`. */
export function inBatches<T>(items: readonly T[], keyOf: (item: T) => string, size: number): T[][] {
  const open = new Map<string, T[]>();
  const batches: T[][] = [];
  for (const item of items) {
    const key = keyOf(item);
    let batch = open.get(key);
    if (!batch || batch.length === size) {
      batch = [];
      open.set(key, batch);
      batches.push(batch);
    }
    batch.push(item);
  }
  return batches;
}

/**
 * Calls `send` for each item, in order: for the first ones at once, for the others in later turns of the event loop. After `limitMs`, as
 * may happen in a busy process, sends all remaining items in one turn, since their leases might end.
 */
function spreadOverTicks<T>(
  items: readonly T[],
  clock: Clock,
  limitMs: number,
  send: (item: T) => void,
): void {
  const perTurn = Math.ceil(items.length / MOST_TURNS);
  const beganAt = now(clock);
  const sendFrom = (start: number): void => {
    const end = elapsedMs(beganAt) < limitMs ? start + perTurn : items.length;
    for (const item of items.slice(start, end)) send(item);
    if (end < items.length) inOwnContext(() => setImmediate(sendFrom, end));
  };
  sendFrom(0);
}

// Decides when a refused call for many leases is repeated for each of them alone, so that one lease that the server refuses, or that is in
// another slot, does not cost the others. Not by halving: sent alone, each is answered after one more round trip, however many there are,
// and so well before its lease ends.

export class Splitting<Item extends object> {
  readonly #clock: Clock;
  readonly #pauseMs: number;
  /** When each item was last refused alone. */
  readonly #refusedAt = new WeakMap<Item, Instant>();

  /**
   * @param pauseMs - for how many milliseconds an item that was refused alone is sent only together with others: so a server that refuses
   *   many items does not constantly get one command for each
   */
  constructor(clock: Clock, pauseMs: number) {
    this.#clock = clock;
    this.#pauseMs = pauseMs;
  }

  /** A call for these items has failed. Returns the items for which it must be repeated alone. */
  due(items: readonly Item[], error: unknown): ReadonlySet<Item> {
    const none = new Set<Item>();
    if (!mayConcernSome(error)) return none;
    const [first] = items;
    if (first && items.length === 1) {
      this.#refusedAt.set(first, now(this.#clock));
      return none;
    }
    const due = items.filter((item) => {
      const refusedAt = this.#refusedAt.get(item);
      return !refusedAt || elapsedMs(refusedAt) >= this.#pauseMs;
    });
    return new Set(due);
  }
}

// One script call that renews many leases; with `replicas`, it counts only when that many replicas have acknowledged it.

/**
 * A `leaseMs` of 0 only checks. The answers are in the order of `ownerIds`; undefined: kept, but too few replicas acknowledged it.
 *
 * @param limit - how long replicas may take to acknowledge it, besides `commandTimeout`
 */
export async function sendRenewal(
  connection: RedisClient,
  script: Script,
  keys: readonly string[],
  ownerIds: readonly string[],
  leaseMs: number,
  limit: TimeLimit = { leftMs: leaseMs / 3 },
): Promise<readonly (KeepReply | undefined)[]> {
  const args = [leaseMs, ...ownerIds];
  let replies: readonly KeepReply[] | undefined;
  const read = (reply: unknown): readonly KeepReply[] =>
    (replies = reply === 'kept' ? ownerIds.map(() => 'kept') : (reply as KeepReply[]));
  if (leaseMs === 0) return await connection.run(script, keys, args, read);
  try {
    const areKept = (all: readonly KeepReply[]): boolean => all.some(isKept);
    return await connection.runReplicated(script, keys, args, read, areKept, limit);
  } catch (error) {
    // Losses count even without acknowledgement.
    if (replies?.every(isKept) ?? true) throw error;
    return replies?.map((reply) => (isKept(reply) ? undefined : reply)) ?? [];
  }
}

// The renewers: one script renews many leases of one kind on one server in one call.

/** How leases of one kind are renewed. */
export interface RenewerRow<Target> {
  readonly kind: string;
  readonly script: Script;
  /** Whether the owner of a lease is a field of the lock's hash; left out: the leases are of places in line. */
  readonly isHold?: boolean;
  /** The keys that the script takes for a lease; the first is the lock. */
  readonly keysOf: (target: Target) => readonly string[];
  /** The same keys for one lease, none but the lock's: in a slot that is open a command may name one key. Left out: that does not do. */
  readonly keysWhileOpen?: (target: Target) => readonly string[];
  /** Sends one batch; a lease of 0 only checks. Left out: the script takes the lease and the owners. */
  readonly send?: (
    connection: RedisClient,
    script: Script,
    keys: readonly string[],
    batch: readonly Watched<Target>[],
    leaseMs: number,
  ) => Promise<readonly unknown[]>;
}

export class RowRenewer<Target> implements Renewer<Target> {
  readonly kind: string;
  readonly #connection: RedisClient;
  readonly #row: RenewerRow<Target>;
  readonly placesOf?: (target: Target) => Guarded['places'];

  constructor(connection: RedisClient, row: RenewerRow<Target>) {
    this.kind = row.kind;
    this.#connection = connection;
    this.#row = row;
    if (row.isHold) this.placesOf = (target) => [{ connection, key: row.keysOf(target)[0] ?? '' }];
  }

  batchKey(target: Target): string {
    return this.#connection.isSlotted ? hashTag(this.#row.keysOf(target)[0] ?? '') : '';
  }

  async renew(batch: readonly Watched<Target>[], leaseMs: number): Promise<readonly unknown[]> {
    const { script, keysOf, send, keysWhileOpen } = this.#row;
    const keys = batch.flatMap(({ target }) => keysOf(target));
    if (send) return send(this.#connection, script, keys, batch, leaseMs);
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    try {
      return await sendRenewal(this.#connection, script, keys, ownerIds, leaseMs);
    } catch (error) {
      if (!keysWhileOpen || !isSlotOpen(error)) throw error;
      const alone = batch.map(async ({ target, lease: { ownerId } }) => {
        const lock = keysWhileOpen(target);
        return (await sendRenewal(this.#connection, script, lock, [ownerId], leaseMs))[0];
      });
      return await Promise.all(alone);
    }
  }
}
