// Renews Redlocks, many at once: each master is asked for all of them in one call. A renewal counts with a majority of the
// masters, and those that lost the key get it again while the majority stands.

import type { Granted, KeepReply, RenewalLimit, Renewer, Watched } from '../../core/protocol.js';
import { mayConcernSome } from '../../redis/failure.js';
import { type Clock, elapsedMs, now, type TimeLimit } from '../../runtime/clock.js';
import type { ReentrantLockBackend } from '../plain.js';
import { type Answer, poll, valueOf } from './election.js';
import type { Master } from './master.js';

/** A Redlock, as far as it is renewed. */
interface RenewedLock {
  readonly batchKey: string;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly nodeTimeoutMs: number;
  /** Whether a master has forgotten no lock that anybody may rely on, whichever others do not answer. */
  readonly remembersAll: (master: Master) => boolean;
}

export interface RedTarget {
  readonly lock: RenewedLock;
  readonly grant: Granted;
}

/** What one master says of each lock of a batch, or each master of one lock; undefined: it does not say. */
type Replies = readonly (KeepReply | undefined)[];

export class RedRenewer implements Renewer<RedTarget> {
  readonly kind = 'quorum';
  readonly #clock: Clock;
  readonly #leaseMs: number;

  /** @param leaseMs - what it renews leases by */
  constructor(leaseMs: number, clock: Clock) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  batchKey({ lock }: RedTarget): string {
    return lock.batchKey;
  }

  renew(batch: readonly Watched<RedTarget>[], leaseMs: number): Promise<Replies> {
    const ownerIds = batch.map(({ lease }) => lease.ownerId);
    const { masters = [], nodeTimeoutMs = 0 } = batch[0]?.target.lock ?? {};
    // Masters are waited for long, since each answer counts; but what most confirm must be known well before the lease ends.
    const limitMs = Math.min(Math.max(this.#leaseMs / 10, nodeTimeoutMs), this.#leaseMs / 3);
    const ask = (master: Master, index: number): Promise<Replies> => {
      const locks = batch.flatMap(({ target }) => target.lock.masters[index]?.lock ?? []);
      return renewOn(master, locks, ownerIds, leaseMs, { leftMs: limitMs });
    };
    const decide = (answers: readonly Answer<Replies>[], isFinal: boolean): Replies | undefined => {
      const decisions = batch.map(({ target }, index) => {
        const replies = answers.map((answer) => valueOf(answer)?.[index]);
        const reply = kept(replies, target.lock.quorum);
        // Also when it was decided before, since a master that answers late may have lost a key as well.
        if (isFinal) repair(target, replies, reply, leaseMs);
        return reply;
      });
      // A majority is enough to keep a lock. How a lock was lost may be known by a single master, so for that all are waited for.
      return isFinal || decisions.every((reply) => reply === 'kept') ? decisions : undefined;
    };
    return poll(this.#clock, masters, ask, limitMs, decide);
  }
}

/** Renews locks on one master by one call. One of them that the master refuses must not take all others with it: then each is asked for alone. */
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
 * Gives the lock again to masters that lost it, or never had it. While a majority stands, that keeps everybody else out. While nobody knows
 * whether one stands, a master may make up for one that does not answer, unless it may have forgotten somebody else's vote.
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
 * Gives a master the owner of a grant, for `renewedMs`, or where that is 0 for as long as the grant may be relied on. It may be down, or
 * somebody else may have the lock there: the next renewal sees.
 */
export function repairOn(master: Master, grant: Granted, renewedMs: number): void {
  giveOwner(master, grant, renewedMs).catch(() => undefined);
}

async function giveOwner(master: Master, grant: Granted, renewedMs: number): Promise<void> {
  // First the token: a master that has the owner again counts as repaired, and would not be sent the token any more.
  if (grant.token !== undefined) await master.raise(grant.token);
  const leaseMs = renewedMs > 0 ? renewedMs : Math.floor(grant.remaining());
  if (leaseMs < 1 || !grant.isHeld) return; // released meanwhile
  await master.repair(grant.ownerId, grant.holdCount, leaseMs);
}

/** Whether most masters keep an owner; how it was lost when that is impossible; undefined: not known. */
export function kept(replies: Replies, quorum: number): KeepReply | undefined {
  const isKept = replies.filter((reply) => reply === 'kept').length;
  if (isKept >= quorum) return 'kept';
  const losses = replies.filter((reply) => reply !== undefined && reply !== 'kept');
  if (losses.length <= replies.length - quorum) return undefined;
  return (['forced', 'taken'] as const).find((loss) => losses.includes(loss)) ?? 'deleted';
}

/** For this part of the lease after an extension there is no other one: that a master reconnects is no reason for it. */
const YOUNG_PART = 1 / 6;

/** Counts how often the watchdog extends a grant, which was asked for `ageMs` ago, by `leaseMs`: `maxExtensions` times at most. */
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
      if (isYoung()) return; // two that were on their way at a time are one extension
      leftCount--;
      extendedAt = sentAt;
    },
  };
}
