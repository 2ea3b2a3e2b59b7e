// A process-local read-write mutex, first come, first served: one exclusive turn at a time, or several shared ones.

import type { WaitLimit } from '../runtime/wait-limit.js';

/** A call that waits for a turn. */
interface Waiting {
  readonly waitLimit: WaitLimit;
  readonly isShared: boolean;
}

export class LocalMutex {
  readonly #onEased: (() => void) | undefined;
  /** How many turns are under way; more than one only if they are shared. */
  #count = 0;
  /** Whether the current turn is exclusive. */
  #isExclusive = false;
  /** The waiting calls, in order. Created on first use, since most locks never have any. */
  #queue: Map<() => void, Waiting> | undefined;

  /** `onEased` is called when a turn has ended or become shared, after the waiting calls that now have room have got their turns. */
  constructor(onEased?: () => void) {
    this.#onEased = onEased;
  }

  get isTaken(): boolean {
    return this.#count > 0;
  }

  /** Whether a call has a turn that excludes all others. */
  get isExclusive(): boolean {
    return this.#isExclusive;
  }

  /** Takes a turn if there is room. While other calls wait there is none, not even for a shared turn. */
  tryTake(isShared = false): boolean {
    if (!this.#hasRoom(isShared) || this.#isAwaited) return false;
    this.#enter(isShared);
    return true;
  }

  /**
   * Takes a turn, after the calls that came before. Returns false, without a turn, if the caller must check again what it waits for. Throws
   * WaitEnded.
   *
   * @param areAttempts - whether each turn is one attempt: then the turns before count as attempts of this caller, too
   */
  async take(waitLimit: WaitLimit, isShared = false, areAttempts = false): Promise<boolean> {
    if (this.tryTake(isShared)) return true;
    let grant!: () => void;
    const granted = new Promise<void>((resolve) => (grant = resolve));
    const queue = (this.#queue ??= new Map<() => void, Waiting>());
    queue.set(grant, { waitLimit, isShared });
    let isMine = false;
    try {
      isMine = await waitLimit.sleep(granted, areAttempts);
      return isMine;
    } finally {
      const hasLeft = queue.delete(grant);
      // Not in the queue any more, but not taken: the turn was granted at the moment when this call gave up.
      if (!hasLeft && !isMine) this.pass();
      // Calls behind this one, with shared turns, may have waited only for it.
      else if (hasLeft) this.#admit();
    }
  }

  /** Ends a turn. The next call in the queue gets one, or the next ones, if their turns are shared. */
  pass(): void {
    this.#count--;
    this.#isExclusive = false;
    this.#admit();
    this.#onEased?.();
  }

  /** Makes the current turn shared: the next calls in the queue get theirs if they are shared, too. */
  share(): void {
    this.#isExclusive = false;
    this.#admit();
    this.#onEased?.();
  }

  /** Makes all waiting calls check again, since what they wait for may be gone. */
  wakeWaiters(): void {
    for (const { waitLimit } of this.#queue?.values() ?? []) waitLimit.lookAgain();
  }

  get #isAwaited(): boolean {
    return this.#queue !== undefined && this.#queue.size > 0;
  }

  #hasRoom(isShared: boolean): boolean {
    return this.#count === 0 || (isShared && !this.#isExclusive);
  }

  #enter(isShared: boolean): void {
    this.#count++;
    this.#isExclusive = !isShared;
  }

  #admit(): void {
    for (const [grant, { isShared }] of this.#queue ?? []) {
      if (!this.#hasRoom(isShared)) return;
      this.#queue?.delete(grant);
      this.#enter(isShared);
      grant();
    }
  }
}
