// Several locks as one: all of them, or none.

import type { Session } from '../../core/session.js';
import type { HoldOrigin } from '../../core/own-hold.js';
import { BaseLock, type HeldHere } from '../base-lock.js';
import { parseMembers } from '../members.js';
import { nothingToUnlock } from '../../core/lock-calls.js';
import { MultiAcquisition } from './multi-acquisition.js';
import { SameKeys } from './same-keys.js';
import type { MultiHold } from './multi-hold.js';
import type { AcquireRequest } from '../../api/options.js';
import { inTurn } from '../../runtime/loop-turns.js';
import type { Scope } from '../../scopes/scope.js';
import { hasFailed, type MarkedLock } from '../../scopes/unlock-marks.js';
import type { SingleLock } from '../single-lock.js';

export class MultiLock extends BaseLock {
  readonly name: string;
  readonly #session: Session;
  readonly #members: readonly SingleLock[];
  readonly #sameKeys: SameKeys;

  /** @throws OptionError a member cannot be one */
  constructor(session: Session, locks: readonly unknown[]) {
    super();
    const right =
      'it must be a lock of getLock(), getFairLock(), getFencedLock() or getRedLock(), or one half of getReadWriteLock()';
    this.#session = session;
    this.#members = parseMembers('a MultiLock', locks, right, () => true);
    this.name = `multi(${this.#members.map(({ name }) => name).join(', ')})`;
    this.#sameKeys = new SameKeys(this.name, this.#members);
  }

  protected override get kind(): string {
    return 'MultiLock';
  }

  protected override get defaultWaitMs(): number {
    return this.#session.defaultWaitMs;
  }

  override get held(): HeldHere | undefined {
    const held = this.#members.map((member) => member.held);
    const [first] = held;
    if (!first || held.includes(undefined)) return undefined;
    return {
      ownerId: first.ownerId,
      remainingMs: Math.min(...held.map((each) => each?.remainingMs ?? 0)),
    };
  }

  override get marked(): readonly MarkedLock[] {
    return this.#members.flatMap((member) => member.marked);
  }

  override async unlock(): Promise<void> {
    if (!this.#members.every(({ isUnlockable }) => isUnlockable)) {
      const isHeldAround = this.#members.every((member) => member.isHeldAround);
      const named = { id: this.name, name: this.name };
      const hasFailedHere = this.marked.some(hasFailed);
      throw await inTurn(nothingToUnlock(this.#session, named, isHeldAround, hasFailedHere));
    }
    await this.#all((member) => member.unlock());
  }

  override async isLocked(): Promise<boolean> {
    return (await this.#all((member) => member.isLocked())).every(Boolean);
  }

  override async getHoldCount(): Promise<number> {
    return Math.min(...(await this.#all((member) => member.getHoldCount())));
  }

  override async remainTimeToLive(): Promise<number> {
    const leftMs = await this.#all((member) => member.remainTimeToLive());
    const ending = leftMs.filter((ms) => ms !== -1);
    return ending.length > 0 ? Math.min(...ending) : -1;
  }

  override async forceUnlock(): Promise<boolean> {
    return (await this.#all((member) => member.forceUnlock())).some(Boolean);
  }

  protected override acquireHold(
    request: AcquireRequest,
    origin: HoldOrigin,
    scope?: Scope,
  ): Promise<MultiHold> {
    return new MultiAcquisition(this.#session, {
      ...request,
      lockName: this.name,
      members: this.#members,
      sameKeys: this.#sameKeys,
      origin,
      scope,
    }).hold();
  }

  /** Does the same with all members, whatever becomes of the others; throws the first error. */
  async #all<T>(call: (member: SingleLock) => Promise<T>): Promise<T[]> {
    const calls = this.#members.map(call);
    await Promise.allSettled(calls);
    return await Promise.all(calls);
  }
}
