// The tries of one acquisition: each is repeated until it is answered, between them its waiter stands in line, and what may be left
// of them on the server is removed.

import { now, type Instant } from '../runtime/clock.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import type { Findings } from '../waiting/findings.js';
import type { AcquirableLock } from './backend.js';
import { deadlineOf, leftMs, type Deadline } from './deadline.js';
import { Grant } from './grant.js';
import { LateAnswers } from './late-answers.js';
import type { AcquireReply, HandedOver, HeldReply } from './replies.js';
import type { LockRequest } from './request.js';
import { retry } from './retry.js';
import type { Session } from './session.js';
import type { Waiter } from './waiter.js';

/** A try that was sent before the acquisition was made (`core/acquire.ts`), and did not settle the call. */
export interface BegunTry {
  readonly ownerId: string;
  readonly sentAt: Instant;
  readonly reply: Promise<AcquireReply>;
}

export class Tries {
  readonly #session: Session;
  readonly #lock: AcquirableLock;
  readonly #request: LockRequest;
  readonly #waitLimit: WaitLimit;
  /** Makes the owner of each try. */
  readonly #newOwnerId: () => string;
  readonly #lateAnswers: LateAnswers;
  #begun: BegunTry | undefined;
  /** Made for the first try, and gone when the acquisition leaves. */
  #waiter: Waiter | undefined;
  /** The try that was sent last. */
  #sent: Promise<AcquireReply> | undefined;
  /** Whether a try was sent since the last one that was answered. */
  #isUnanswered = false;

  constructor(
    session: Session,
    lock: AcquirableLock,
    request: LockRequest,
    waitLimit: WaitLimit,
    newOwnerId: () => string,
    begun?: BegunTry,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    this.#waitLimit = waitLimit;
    this.#newOwnerId = newOwnerId;
    this.#lateAnswers = new LateAnswers(session, lock, request, waitLimit);
    if (!begun) return;
    this.#begun = begun;
    this.#waiter = lock.waiter(() => begun.ownerId, request); // this kind of lock makes all tries as one owner
    this.#sent = begun.reply;
    this.#isUnanswered = true;
    waitLimit.mayHaveRun = true;
  }

  /** The owner as which the acquisition tries; undefined: it has not tried, or has left. */
  get ownerId(): string | undefined {
    return this.#waiter?.ownerId;
  }

  /** Resolves when it is the acquisition's turn to try; undefined: it has not tried, or has left. */
  get woken(): Promise<void> | undefined {
    return this.#waiter?.woken;
  }

  /** Whether the acquisition stands in line, and it is not its turn to try. */
  get isBehind(): boolean {
    return this.#waiter?.mayTry === false;
  }

  /** What the acquisition, or anybody who waits in line with it, was told last of the holder. */
  get findings(): Findings | undefined {
    return this.#waiter?.findings;
  }

  /** Whether the latest answer granted the lock, and took longer than the lease. */
  get isTooLate(): boolean {
    return this.#lateAnswers.isLatest;
  }

  /** Sees to it that the server is asked, at `sinceMs` (monotonic) or later, by one for all who wait with it. */
  look(sinceMs: number): void {
    this.#waiter?.look(sinceMs);
  }

  /** Takes what was handed over to its waiter, if anything was. */
  claim(): Grant | undefined {
    this.#waitLimit.assertNotOver();
    const claimed = this.#waiter?.claim?.();
    if (!claimed || claimed instanceof Grant) return claimed;
    return 'deadline' in claimed ? this.#handedOver(claimed) : undefined;
  }

  /**
   * Tries until it is answered: the lock was granted, or somebody else has it. undefined: what was granted was over already, and now,
   * a pause later, it is time to look again.
   */
  async try(): Promise<Grant | HeldReply | undefined> {
    const waiter = (this.#waiter ??= this.#lock.waiter(this.#newOwnerId, this.#request));
    const seen = this.#begun ? undefined : waiter.queue?.();
    if (seen) return seen;
    const { clock } = this.#session;
    let sentAt = now(clock);
    const reply = await retry(this.#session.connection, this.#waitLimit, this.#lock, () => {
      const begun = this.#begun;
      this.#begun = undefined;
      sentAt = begun?.sentAt ?? now(clock);
      this.#isUnanswered = true;
      const sent = begun?.reply ?? waiter.try(this.#waitLimit);
      this.#sent = sent;
      if (waiter.findings) share(sent, waiter.findings, sentAt.monotonicMs);
      return sent;
    });
    // A lock that was granted in the instant in which the caller gave up is undone, like a try without an answer.
    this.#waitLimit.mayHaveRun = true;
    this.#waitLimit.assertNotOver();
    this.#waitLimit.mayHaveRun = false;
    this.#isUnanswered = false;
    if (reply.outcome === 'held') {
      // A call that only goes on for this attempt joins no line for it.
      const isOver = this.#waitLimit.isOverdue && !waiter.findings;
      if (!isOver) waiter.wait(reply, sentAt.monotonicMs);
      waiter.findings?.held(reply, sentAt.monotonicMs);
      this.#lateAnswers.held(deadlineOf(sentAt, this.#request.leaseMs));
      return reply;
    }
    const grant =
      reply.outcome === 'handed over'
        ? this.#handedOver(reply)
        : this.#granted(deadlineOf(reply.sentAt ?? sentAt, this.#request.leaseMs), reply.token);
    if (!grant) await this.#lateAnswers.granted();
    return grant;
  }

  /** Ends the tries: the lock was acquired, or is not wanted any more. What may be left on the server is removed. */
  leave(isAcquired = false): void {
    const waiter = this.#waiter;
    if (!waiter) return;
    this.#waiter = undefined;
    this.#begun = undefined;
    const mayHaveAcquired = this.#waitLimit.mayHaveRun && this.#isUnanswered;
    const mayStand = waiter.leave(isAcquired ? this.#request.leaseMs : undefined);
    if (!mayStand && !mayHaveAcquired) return;
    const { cleanup } = this.#session;
    const remove = (): void => {
      cleanup.remove(this.#lock, waiter.ownerId);
    };
    remove();
    if (!mayHaveAcquired || !this.#sent) return;
    const isLeft = this.#sent.then(({ outcome }) => mayStand || outcome !== 'held');
    cleanup.removeAfter(isLeft, remove);
  }

  #handedOver({ deadline, token, confirm }: HandedOver): Grant | undefined {
    const grant = this.#granted(deadline, token);
    if (confirm) grant?.confirmHandOver(this.#request.leaseMs, confirm);
    return grant;
  }

  /** undefined: the answer took longer than the lease, so what it granted is over. */
  #granted(deadline: Deadline, token: bigint | undefined): Grant | undefined {
    const waiter = this.#waiter;
    if (!waiter) return undefined;
    const { ownerId } = waiter;
    if (leftMs(deadline) > 0) {
      const grant = new Grant(this.#session, this.#lock, ownerId, deadline, token);
      waiter.won?.(grant);
      return grant;
    }
    this.leave();
    this.#session.cleanup.remove(this.#lock, ownerId);
    return undefined;
  }
}

/** Tells all who wait in line what a try is answered, even if its own caller has gone by then. */
function share(sent: Promise<AcquireReply>, findings: Findings, askedAtMs: number): void {
  sent.then(
    (reply) => {
      if (reply.outcome === 'held') findings.held(reply, askedAtMs);
    },
    (error: unknown) => {
      if (error instanceof Error) findings.trouble = error;
    },
  );
}
