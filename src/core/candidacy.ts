// One acquisition's dealings with the server: its tries, its place in line between them, and what may be left of them there.

import type { AcquireReply, HeldReply, KeepReply } from './replies.js';
import type { Candidate, LockBackend, Wanted } from './backend.js';
import type { Session } from './session.js';
import { now, type Instant } from '../runtime/clock.js';
import { retry } from './retry.js';
import { failureKind } from '../redis/failure.js';
import { Grant } from './grant.js';
import { leftMs, deadlineOf, type Deadline } from './deadline.js';
import type { Findings } from '../waiting/findings.js';
import type { WaitLimit } from '../runtime/wait-limit.js';

/** A try that was sent before there was anything to go on with, and did not settle at once. */
export interface BegunTry {
  readonly ownerId: string;
  readonly sentAt: Instant;
  readonly reply: Promise<AcquireReply>;
}

export class Candidacy {
  readonly #session: Session;
  readonly #lock: LockBackend;
  readonly #wanted: Wanted;
  readonly #waitLimit: WaitLimit;
  /** Makes each owner to be. */
  readonly #newOwnerId: () => string;
  #begun: BegunTry | undefined;
  #candidate: Candidate | undefined;
  /** Since when a try is on its way whose answer is not known, on the monotonic clock. */
  #unansweredSinceMs: number | undefined;
  /** The try that is on its way. */
  #trying: Promise<AcquireReply> | undefined;

  constructor(
    session: Session,
    lock: LockBackend,
    wanted: Wanted,
    waitLimit: WaitLimit,
    newOwnerId: () => string,
    begun?: BegunTry,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#wanted = wanted;
    this.#waitLimit = waitLimit;
    this.#newOwnerId = newOwnerId;
    if (!begun) return;
    this.#begun = begun;
    this.#candidate = lock.candidate(() => begun.ownerId, wanted); // of a kind that tries as one owner
    this.#trying = begun.reply;
    this.#unansweredSinceMs = begun.sentAt.monotonicMs;
    waitLimit.mayHaveRun = true;
  }

  /** The owner to be, once it has tried. */
  get ownerId(): string | undefined {
    return this.#candidate?.ownerId;
  }

  /** Resolves when it is its turn to try; undefined: it stands in no line. */
  get woken(): Promise<void> | undefined {
    return this.#candidate?.woken;
  }

  /** Whether it stands in line, and others are first. */
  get isBehind(): boolean {
    return this.#candidate?.isUp === false;
  }

  /** What it, or anybody who waits with it, was told last. */
  get findings(): Findings | undefined {
    return this.#candidate?.findings;
  }

  /** Sees to it that the server is asked, at `sinceMs` (monotonic) or later, by one for all who wait with it. */
  look(sinceMs: number): void {
    this.#candidate?.look(sinceMs);
  }

  /** Takes what was handed over to it while it waited, if anything was. */
  claim(): Grant | undefined {
    this.#waitLimit.assertNotOver();
    const handedOver = this.#candidate?.claim?.();
    return handedOver && this.#acquired(handedOver.deadline, handedOver.confirm);
  }

  /** Tries until it is answered: it holds the lock, somebody else does, or (undefined) what was granted is over already. */
  async try(): Promise<Grant | HeldReply | undefined> {
    const candidate = (this.#candidate ??= this.#lock.candidate(this.#newOwnerId, this.#wanted));
    let sentAt = now();
    const reply = await retry(this.#session.connection, this.#waitLimit, this.#lock, () => {
      const begun = this.#begun;
      this.#begun = undefined;
      sentAt = begun?.sentAt ?? now();
      this.#unansweredSinceMs ??= sentAt.monotonicMs;
      const trying = begun?.reply ?? candidate.try();
      this.#trying = trying;
      if (candidate.findings) share(trying, candidate.findings, sentAt.monotonicMs);
      return trying;
    });
    // Nobody takes what was granted in the instant in which the caller gave up: it is undone like a try without an answer.
    this.#waitLimit.mayHaveRun = true;
    this.#waitLimit.assertNotOver();
    this.#waitLimit.mayHaveRun = false;
    this.#unansweredSinceMs = undefined;
    if (reply.outcome === 'held') {
      candidate.wait(reply, sentAt.monotonicMs);
      candidate.findings?.held(reply, sentAt.monotonicMs);
      return reply;
    }
    if (reply.outcome === 'handed over') return this.#acquired(reply.deadline, reply.confirm);
    return this.#acquired(deadlineOf(reply.sentAt ?? sentAt, this.#wanted.leaseMs));
  }

  /** Ends it: the lock was acquired, for `leaseMs`, or it is not wanted any more. What may be left on the server is removed. */
  leave(leaseMs?: number): void {
    const candidate = this.#candidate;
    if (!candidate) return;
    this.#candidate = undefined;
    this.#begun = undefined;
    const mayHaveAcquired = this.#waitLimit.mayHaveRun && this.#unansweredSinceMs !== undefined;
    const mayStand = candidate.leave(leaseMs);
    if (!mayStand && !mayHaveAcquired) return;
    const remove = (): void => {
      this.#session.cleanup.remove(this.#lock, candidate.ownerId);
    };
    remove();
    if (!mayHaveAcquired) return;
    // It may have overtaken the try: where the script is not known that takes a second round trip.
    const removal = this.#trying?.then(
      ({ outcome }) => {
        if (mayStand || outcome !== 'held') remove();
      },
      (error: unknown) => {
        if (failureKind(error) === 'unanswered') remove();
      },
    );
    if (removal) this.#session.cleanup.expect(removal);
  }

  /** undefined: the answer took longer than the lease, so what it granted is over. */
  #acquired(lease: Deadline, confirm?: () => Promise<KeepReply>): Grant | undefined {
    const candidate = this.#candidate;
    if (!candidate) return undefined;
    const { ownerId } = candidate;
    if (leftMs(lease) > 0) {
      const grant = new Grant(this.#session, this.#lock, ownerId, lease);
      if (confirm) grant.confirmHandOver(this.#wanted.leaseMs, confirm);
      return grant;
    }
    this.leave();
    this.#session.cleanup.remove(this.#lock, ownerId);
    return undefined;
  }
}

/** Whoever asks asks for all who wait: also when it has gone by the time of the answer. */
function share(trying: Promise<AcquireReply>, findings: Findings, askedAtMs: number): void {
  trying.then(
    (reply) => {
      if (reply.outcome === 'held') findings.held(reply, askedAtMs);
    },
    (error: unknown) => {
      if (error instanceof Error) findings.trouble = error;
    },
  );
}
