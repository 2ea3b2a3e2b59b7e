// Renews Redlocks in batches: one call to each master renews all of them. A renewal counts if a majority confirms it; masters that lost
// the key then get it again.

import type { Granted, KeepReply, RenewalLimit, Renewer, Watched } from '../../core/protocol.js';
import type { Guarded } from '../../core/lookout.js';
import { mayConcernSome } from '../../redis/failure.js';
import {
  type Clock,
  elapsedMs,
  type Instant,
  now,
  type TimeLimit,
  type Timer,
} from '../../runtime/clock.js';
import type { ReentrantLockBackend } from '../plain.js';
import { type Answer, poll, valueOf } from './election.js';
import type { Master } from './master.js';

/** How long a loss that is certain waits for answers that may say how the lock was lost, in milliseconds. */
const REASON_MS = 20;

/** A Redlock as its renewal sees it. */
interface RenewedLock {
  readonly batchKey: string;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly nodeTimeoutMs: number;
  /** Whether a master has been up long enough to remember every lock that may still be held, whichever other masters do not answer. */
  readonly remembersAll: (master: Master) => boolean;
}

export interface RedTarget {
  readonly lock: RenewedLock;
  readonly grant: Granted;
}

/** The answers of one master for each lock of a batch, or of each master for one lock; undefined: no answer. */
type Replies = readonly (KeepReply | undefined)[];

export class RedRenewer implements Renewer<RedTarget> {
  readonly kind = 'quorum';
  readonly #clock: Clock;
  readonly #leaseMs: number;
  /** When a master said last that a grant was forced out: the others may be about to hear it. */
  readonly #forcedAt = new WeakMap<Granted, Instant>();

  /** @param leaseMs - the lease that a renewal sets, in milliseconds */
  constructor(leaseMs: number, clock: Clock) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  batchKey({ lock }: RedTarget): string {
    return lock.batchKey;
  }

  placesOf({ lock }: RedTarget): Guarded['places'] {
    return lock.masters.map((master) => ({
      connection: master.lock.connection,
      key: master.lock.keys.lock,
    }));
  }

  renew(batch: readonly Watched<RedTarget>[], leaseMs: number): Promise<Replies> {
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    const { masters = [], nodeTimeoutMs = 0 } = batch[0]?.target.lock ?? {};
    // The limit is long, since each answer counts; but the majority's decision must be known well before the lease ends.
    const limitMs = Math.min(Math.max(this.#leaseMs / 10, nodeTimeoutMs), this.#leaseMs / 3);
    const ask = (master: Master, index: number): Promise<Replies> => {
      const locks = batch.flatMap(({ target }) => target.lock.masters[index]?.lock ?? []);
      return renewOn(master, locks, ownerIds, leaseMs, { leftMs: limitMs });
    };
    const decide = (answers: readonly Answer<Replies>[], isFinal: boolean): Replies | undefined => {
      const decisions = batch.map(({ target }, index) => {
        const replies = answers.map((answer) => valueOf(answer)?.[index]);
        const reply = kept(replies, target.lock.quorum);
        if (replies.includes('forced')) this.#forcedAt.set(target.grant, now(this.#clock));
        // Also if the decision was made earlier, since a master that answers late may have lost the key, too.
        if (isFinal && this.#mayRepair(target)) repair(target, replies, reply, leaseMs);
        return reply;
      });
      // A majority is enough. But a single master may know how a lock was lost, so a loss waits a moment for the other answers.
      if (isFinal || decisions.every((reply) => reply === 'kept')) return decisions;
      if (decisions.includes(undefined)) return undefined;
      latest = decisions;
      timer ??= this.#clock.setTimer(() => {
        tell(latest);
      }, REASON_MS);
      return undefined;
    };
    let latest: Replies = [];
    let timer: Timer | undefined;
    let tell!: (decisions: Replies) => void;
    const soon = new Promise<Replies>((resolve) => (tell = resolve));
    const all = poll(this.#clock, masters, ask, limitMs, decide);
    return Promise.race([all, soon]).finally(() => {
      this.#clock.clearTimer(timer);
    });
  }

  /** Not while it may be forced out on one master after another: it would come back on the first before the last hears of it. */
  #mayRepair({ grant }: RedTarget): boolean {
    const forcedAt = this.#forcedAt.get(grant);
    return !forcedAt || elapsedMs(forcedAt) >= this.#leaseMs / 10;
  }
}

/** Renews locks on one master in one call. If the call fails because of some of them, renews each alone, so that the others are kept. */
async function renewOn(
  master: Master,
  locks: readonly ReentrantLockBackend[],
  ownerIds: readonly string[],
  leaseMs: number,
  limit: TimeLimit,
): Promise<Replies> {
  try {
    return await master.renewMany(locks, ownerIds, leaseMs, limit);
  } catch (error) {
    if (locks.length === 1 || !mayConcernSome(error)) throw error;
    const alone = locks.map(async (lock, index) => {
      const ownerId = ownerIds.slice(index, index + 1);
      const replies = await master.renewMany([lock], ownerId, leaseMs, limit).catch(() => []);
      return replies[0];
    });
    return await Promise.all(alone);
  }
}

/**
 * Restores the lock on masters that lost it, or never had it. That is safe while a majority holds it, which keeps all others out. If it is
 * unknown whether a majority holds it, a master may replace one that does not answer, unless it may have forgotten another owner's lock.
 */
function repair(
  { lock, grant }: RedTarget,
  replies: Replies,
  decision: KeepReply | undefined,
  renewedMs: number,
): void {
  for (const [index, master] of lock.masters.entries()) {
    const mayRepair = decision === 'kept' || (!decision && lock.remembersAll(master));
    if (replies[index] === 'deleted' && mayRepair) repairOn(master, grant, renewedMs);
  }
}

/**
 * Restores the owner of a grant on a master, for `renewedMs`, or, if that is 0, for the remaining time of the grant. Ignores errors (the
 * master may be down, or another owner may have the lock there): the next renewal will see.
 */
export function repairOn(master: Master, grant: Granted, renewedMs: number): void {
  giveOwner(master, grant, renewedMs).catch(() => undefined);
}

async function giveOwner(master: Master, grant: Granted, renewedMs: number): Promise<void> {
  // The token goes first: a master that has the owner again counts as repaired, and would not be sent the token again.
  if (grant.token !== undefined) await master.raise(grant.token);
  const leaseMs = renewedMs > 0 ? renewedMs : Math.floor(grant.remaining());
  if (leaseMs < 1 || !grant.isHeld) return; // released meanwhile
  await master.repair(grant.ownerId, grant.holdCount, leaseMs);
}

/** `kept` if a majority keeps the owner; how it was lost if that is impossible; undefined: not known. */
export function kept(replies: Replies, quorum: number): KeepReply | undefined {
  const isKept = replies.filter((reply) => reply === 'kept').length;
  if (isKept >= quorum) return 'kept';
  const losses = replies.filter((reply) => reply !== undefined && reply !== 'kept');
  if (losses.length <= replies.length - quorum) return undefined;
  return (['forced', 'taken'] as const).find((loss) => losses.includes(loss)) ?? 'deleted';
}

/** For this fraction of the lease after an extension there is no further one, for example when a master reconnects. */
const YOUNG_PART = 1 / 6;

/** Lets the watchdog extend a grant `maxExtensions` times at most, by `leaseMs` each. `ageMs`: how long ago the lock was requested. */
export function extensionLimit(
  maxExtensions: number,
  leaseMs: number,
  ageMs: number,
  clock: Clock,
): RenewalLimit {
  const { monotonicMs, wallMs } = now(clock);
  let extendedAt = { clock, monotonicMs: monotonicMs - ageMs, wallMs: wallMs - ageMs };
  let leftCount = maxExtensions;
  const isYoung = (): boolean => elapsedMs(extendedAt) < leaseMs * YOUNG_PART;
  return {
    get isDue() {
      return leftCount > 0 && !isYoung();
    },
    renewed: (sentAt) => {
      if (isYoung()) return; // two renewals under way at the same time count as one extension
      leftCount--;
      extendedAt = sentAt;
    },
  };
}
