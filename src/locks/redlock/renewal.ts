// Renews Redlocks, many at once: each master is asked for all of them in one call. A renewal counts with a majority of the
// masters, and those that lost the key get it again while the majority stands.

import type { Granted, KeepReply, RenewalLimit, Renewer, Watched } from '../../core/protocol.js';
import { type Clock, elapsedMs, now, PROCESS_CLOCK, type TimeLimit } from '../../runtime/clock.js';
import { Splitting } from '../../core/watchdog.js';
import type { ReentrantLockBackend } from '../plain.js';
import { type Answer, poll } from './election.js';
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

/** What one master says of each lock of a batch; undefined: it has refused this one. */
type Replies = readonly (KeepReply | undefined)[];

export class RedRenewer implements Renewer<RedTarget> {
  readonly kind = 'quorum';
  readonly #clock: Clock;
  readonly #leaseMs: number;
  /** Of the calls to one master. */
  readonly #splitting: Splitting<ReentrantLockBackend>;

  /** @param leaseMs - what it renews leases by */
  constructor(leaseMs: number, clock: Clock = PROCESS_CLOCK) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#splitting = new Splitting(clock, leaseMs / 6);
  }

  batchKey({ lock }: RedTarget): string {
    return lock.batchKey;
  }

  async renew(batch: readonly Watched<RedTarget>[], leaseMs: number): Promise<Replies> {
    const targets = batch.map(({ target }) => ({ ...target, repaired: new Set<number>() }));
    const ownerIds = targets.map(({ grant }) => grant.ownerId);
    const { masters = [], nodeTimeoutMs = 0 } = targets[0]?.lock ?? {};
    // Masters are waited for long, since each answer counts; but what most confirm must be known well before the lease ends.
    const limitMs = Math.min(Math.max(this.#leaseMs / 10, nodeTimeoutMs), this.#leaseMs / 3);
    const ask = (master: Master, index: number): Promise<Replies> => {
      const locks = targets.flatMap(({ lock }) => lock.masters[index]?.lock ?? []);
      return this.#renewOn(master, locks, ownerIds, leaseMs, { leftMs: limitMs });
    };
    // Decides anew with each answer, since a master that answers late may have lost a key as well.
    const decide = (answers: readonly Answer<Replies>[], isFinal: boolean): Replies | undefined => {
      const decisions = targets.map((target, index) => {
        const replies = answers.map((answer) =>
          answer?.kind === 'answered' ? answer.value[index] : undefined,
        );
        const reply = kept(replies, target.lock.quorum);
        if (reply === 'kept') repair(target, replies, leaseMs, target.repaired);
        // Nobody knows so far whether a majority stands: a master that has forgotten nothing may make up for one that does not answer.
        else if (reply === undefined && isFinal)
          repair(target, replies, leaseMs, target.repaired, target.lock.remembersAll);
        return reply;
      });
      // A majority is enough to keep a lock. How a lock was lost may be known by a single master, so for that all are waited for.
      return isFinal || decisions.every((reply) => reply === 'kept') ? decisions : undefined;
    };
    return await poll(this.#clock, masters, ask, limitMs, decide);
  }

  /** Renews locks on one master by one call, or each alone when that is refused. */
  async #renewOn(
    master: Master,
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit: TimeLimit,
  ): Promise<Replies> {
    let alone: ReadonlySet<ReentrantLockBackend>;
    try {
      return await master.renewMany(locks, ownerIds, leaseMs, limit);
    } catch (error) {
      alone = this.#splitting.due(locks, error);
      if (alone.size === 0) throw error;
    }
    const renewals = locks.map(async (lock, index) => {
      if (!alone.has(lock)) return undefined;
      const ownerId = ownerIds.slice(index, index + 1);
      const replies = await this.#renewOn(master, [lock], ownerId, leaseMs, limit).catch(() => []);
      return replies[0];
    });
    return await Promise.all(renewals);
  }
}

/**
 * Gives the lock again to masters that lost it, or never had it. While a majority stands, that keeps everybody else out; otherwise
 * `mayRepair` must rule out masters that may have forgotten somebody else's vote.
 */
function repair(
  { lock, grant }: RedTarget,
  replies: Replies,
  renewedMs: number,
  repaired: Set<number>,
  mayRepair: (master: Master) => boolean = () => true,
): void {
  for (const [index, reply] of replies.entries()) {
    const master = lock.masters[index];
    if (reply !== 'deleted' || !master || repaired.has(index) || !mayRepair(master)) continue;
    repaired.add(index);
    repairOn(master, grant, renewedMs);
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
