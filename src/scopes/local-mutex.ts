// A local lock, first come first served: one turn at a time within this process, or several at once that are shared.

import type { WaitLimit } from '../runtime/wait-limit.js';

/** Who waits for a turn. */
interface Waiting {
  readonly waitLimit: WaitLimit;
  readonly isShared: boolean;
}

export class LocalMutex {
  readonly #onEased: (() => void) | undefined;
  /** How many turns are under way: more than one only of shared ones. */
  #count = 0;
  /** Whether the one that is under way is not shared. */
  #isExclusive = false;
  /** Those who wait, in order. Most locks never have one. */
  #queue: Map<() => void, Waiting> | undefined;

  /** `onEased` is called when a turn has ended, or has become a shared one, and those for whom there is room now have theirs. */
  constructor(onEased?: () => void) {
    this.#onEased = onEased;
  }

  get isTaken(): boolean {
    return this.#count > 0;
  }

  /** Whether somebody has a turn that excludes all others. */
  get isExclusive(): boolean {
    return this.#isExclusive;
  }

  /** Takes a turn if there is room; also for a shared one there is none while somebody waits who came before. */
  tryTake(isShared = false): boolean {
    if (!this.#hasRoom(isShared) || this.#isAwaited) return false;
    this.#enter(isShared);
    return true;
  }

  /**
   * Takes a turn, after those who came before. False: it took none, since the caller is to look again at what it waits for. Throws
   * WaitEnded.
   *
   * @param areAttempts - whether each turn is one attempt: then those before it are this caller's, too
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
      // Not in the queue any more and yet not ours: it was granted in the instant in which we gave up.
      if (!hasLeft && !isMine) this.pass();
      // Those behind us, whose turns are shared, may have waited for us alone.
      else if (hasLeft) this.#admit();
    }
  }

  /** Ends a turn; the next in the queue has it, or the next ones, if theirs are shared. */
  pass(): void {
    this.#count--;
    this.#isExclusive = false;
    this.#admit();
    this.#onEased?.();
  }

  /** Makes the turn that is under way a shared one: those who are next in the queue may come in if theirs are, too. */
  share(): void {
    this.#isExclusive = false;
    this.#admit();
    this.#onEased?.();
  }

  /** What those in the queue wait for may not be had any more: all of them look again. */
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
