// The Redlock: one lock on several independent masters, held by whoever most of them say holds it.

import type { KeyPlace, LockBackend } from '../../core/backend.js';
import type { LockRequest } from '../../core/request.js';
import type { Waiter } from '../../core/waiter.js';
import type { KeepReply } from '../../core/replies.js';
import type { Granted, Heir } from '../../core/granted-lock.js';
import type { NodeAnswer } from '../../api/node-answer.js';
import type { KeyInTheWay } from '../../core/key-conflict.js';
import type { ReentrantLockBackend } from '../reentrant/reentrant-backend.js';
import type { ChannelListener } from '../../waiting/channels.js';
import { Line } from '../../waiting/line.js';
import type { Clock } from '../../runtime/clock.js';
import { Health } from './health.js';
import type { Master } from './master.js';
import type { RedLockParts } from './masters.js';
import { NoQuorum } from './no-quorum.js';
import { mayHaveRun, poll, refusalOfMany, values, type Answer } from './poll.js';
import type { QuorumServices } from './quorum-services.js';
import { kept } from './red-renewer.js';
import { RedWaiter } from './red-waiter.js';
import { leastAgeMs } from './restart-guard.js';
import type { RedLockSettings } from './settings.js';
import { UnlockWatch } from './unlock-watch.js';
import { vote, type Election, type Vote } from './vote.js';

export class RedLockBackend implements LockBackend {
  readonly kind: string = 'RedLock';
  readonly name: string;
  readonly id: string;
  /** What a lost lock leaves on a minority of the masters has to be removed. */
  readonly leavesRemains = true;
  readonly masters: readonly Master[];
  readonly quorum: number;
  readonly clock: Clock;
  readonly health: Health;
  readonly nodeTimeoutMs: number;
  readonly newOwnerId: () => string;
  readonly #services: QuorumServices;
  readonly #settings: RedLockSettings;

  constructor({ name, masters, settings }: RedLockParts, services: QuorumServices) {
    this.name = name;
    this.masters = masters;
    this.quorum = Math.floor(masters.length / 2) + 1;
    this.clock = services.session.clock;
    this.health = new Health(this.clock, masters, this.quorum);
    this.nodeTimeoutMs = settings.nodeTimeoutMs;
    this.id = `red ${masters
      .map(({ lock }) => lock.id)
      .sort()
      .join(' ')}`;
    this.newOwnerId = services.session.newOwnerId;
    this.#settings = settings;
    this.#services = services;
    services.renewOnReady(masters);
  }

  /** Locks with the same batch key may be renewed together, in one call for each master. */
  get batchKey(): string {
    return this.masters.map(({ lock }) => `${lock.clientToken} ${lock.batchKey}`).join(' ');
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new RedWaiter(this, newOwnerId, request);
  }

  get isReachable(): boolean {
    return this.health.isReachable;
  }

  elect(ownerId: string, leaseMs: number, won: Election['won']): Promise<Vote> {
    const { clock, masters, quorum, nodeTimeoutMs } = this;
    const { random } = this.#services.session;
    this.#services.noteLease(leaseMs);
    const guard = this.#settings.guard(this.#services.longestLeaseMs);
    return vote({ clock, random, masters, quorum, ownerId, leaseMs, nodeTimeoutMs, guard, won });
  }

  readonly remembersAll = ({ lock }: Master): boolean => {
    const guard = this.#settings.guard(this.#services.longestLeaseMs);
    return lock.connection.server.ageMs >= leastAgeMs(guard, this.masters.length);
  };

  reenter(ownerId: string, holdCount: number, leaseMs: number): Promise<KeepReply> {
    this.#services.noteLease(leaseMs);
    const limit = { leftMs: this.nodeTimeoutMs };
    const ask = (master: Master): Promise<KeepReply> =>
      master.keep(ownerId, holdCount, leaseMs, limit);
    return this.#poll('not confirmed', ask, (answers) => {
      return kept(
        answers.map((answer) => (answer?.kind === 'answered' ? answer.value : undefined)),
        this.quorum,
      );
    });
  }

  /** Releases the lock also on masters that did not vote for this owner: their votes may only be late. */
  release(ownerId: string): Promise<boolean> {
    // While most masters are being connected, those that are there need not wait for them. (Whether the lock was lost only most can tell.)
    const isThere = ({ lock }: Master): boolean => lock.connection.isReady;
    const there = this.health.isSettled ? [] : this.masters.filter(isThere);
    const asked = new Map(there.map((master) => [master, master.release(ownerId)]));
    for (const answer of asked.values()) answer.catch(() => undefined);
    const ask = (master: Master): Promise<boolean> => asked.get(master) ?? master.release(ownerId);
    return this.#poll('not known to be released', ask, (answers) => {
      const released = values(answers).filter(Boolean).length;
      if (released >= this.quorum) return true;
      const gone = values(answers).length - released;
      return gone > this.masters.length - this.quorum ? false : undefined;
    });
  }

  get memberIds(): string[] {
    return this.masters.map(({ lock }) => lock.id);
  }

  get keyPlaces(): KeyPlace[] {
    return this.masters.flatMap(({ lock }) => lock.keyPlaces);
  }

  watch(grant: Granted): void {
    this.#services.watch({ lock: this, grant }, this.#settings.maxExtensions);
  }

  unwatch(grant: Granted): void {
    this.#services.unwatch(grant);
  }

  line(): Line<Heir> {
    const { clock, masters, quorum, nodeTimeoutMs } = this;
    return this.#services.lines.of(this.id, (onEmpty) => {
      const watch = (listener: ChannelListener): UnlockWatch =>
        new UnlockWatch(masters, quorum, nodeTimeoutMs, listener, clock);
      const lookEveryMs = this.#services.session.lockWatchdogTimeoutMs / 3;
      return new Line({ clock, lookEveryMs, subscribe: watch, onEmpty });
    });
  }

  async forceUnlock(wordMs: number): Promise<string | undefined> {
    // From a master that is not asked the holder's renewals would spread again to those that are.
    const { clock } = this;
    const endsAtMs = clock.nowMs() + this.nodeTimeoutMs;
    await this.health.whenAllSettled(() => clock.nowMs() > endsAtMs);
    const forced = await this.all('not known to be forced', (lock) => lock.forceUnlock(wordMs));
    // Others may have left single votes: the holder is whom most of them knew.
    const count = (owner: string): number => forced.filter((other) => other === owner).length;
    const owners = forced.filter((holder) => holder !== undefined);
    return owners.sort((one, other) => count(other) - count(one))[0];
  }

  /** What is in the way on the first master that tells of it. */
  async keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const looks = this.masters.map(async ({ name, lock }) => {
      const found = await lock.keyInTheWay();
      if (!found) throw new Error('nothing is in the way there');
      return { ...found, node: name };
    });
    return await Promise.any(looks).catch(() => undefined);
  }

  /**
   * While a master does not answer, those that do may be too few to tell: it may be one of the holder's. A look takes the word of all, also
   * of those that have restarted and may have forgotten a holder: the restart guard is for elections.
   */
  isLocked(): Promise<boolean> {
    const ask = ({ lock }: Master): Promise<boolean> => lock.isLocked();
    const decide = (answers: readonly Answer<boolean>[]): boolean | undefined => {
      const locked = values(answers).filter(Boolean).length;
      if (locked >= this.quorum) return true;
      const free = values(answers).length - locked;
      return free > this.masters.length - this.quorum ? false : undefined;
    };
    return this.#poll('not looked at', ask, decide, true);
  }

  async holdCount(ownerId: string): Promise<number> {
    return this.#agreed(await this.all('not looked at', (lock) => lock.holdCount(ownerId)));
  }

  /** For how long a majority of the masters keeps the lock. */
  async remainTimeToLive(): Promise<number> {
    const leftMs = await this.all('not looked at', (lock) => lock.remainTimeToLive());
    const agreed = this.#agreed(
      leftMs.map((ms) => (ms === -1 ? Infinity : ms)),
      -2,
    );
    return agreed === Infinity ? -1 : agreed;
  }

  /** The largest number that a majority reaches. */
  #agreed(numbers: readonly number[], none = 0): number {
    return [...numbers].sort((one, other) => other - one)[this.quorum - 1] ?? none;
  }

  /** The answers of at least a majority. */
  protected all<T>(what: string, ask: (lock: ReentrantLockBackend) => Promise<T>): Promise<T[]> {
    const enough = (answers: readonly Answer<T>[], isFinal: boolean): T[] | undefined =>
      isFinal && values(answers).length >= this.quorum ? values(answers) : undefined;
    return this.#poll(what, ({ lock }) => ask(lock), enough, true);
  }

  /** Asks all masters; rejects with NoQuorum when their answers decide nothing. A look is not repeated while most are down. */
  async #poll<T, Decision>(
    what: string,
    ask: (master: Master) => Promise<T>,
    decide: (answers: readonly Answer<T>[], isFinal: boolean) => Decision | undefined,
    isLook = false,
  ): Promise<Decision> {
    const { clock, masters, nodeTimeoutMs } = this;
    if (!this.health.isSettled) {
      const endsAtMs = clock.nowMs() + this.#services.session.commandTimeoutMs;
      await this.health.whenSettled(() => clock.nowMs() > endsAtMs);
    }
    return await poll<T, Decision>(clock, masters, ask, nodeTimeoutMs, (answers, isFinal) => {
      const decision = decide(answers, isFinal);
      if (decision !== undefined || !isFinal) return decision;
      const refusal = refusalOfMany(answers, this.masters.length - this.quorum);
      if (refusal) return refusal;
      const nodes = answers.map(this.#nodeAnswer);
      const failure = new NoQuorum(this.name, what, this.quorum, nodes, answers.some(mayHaveRun));
      const isOver = this.health.isHopeless || (isLook && !this.health.isReachable);
      return isOver ? failure.told : failure;
    });
  }

  readonly #nodeAnswer = (answer: Answer<unknown>, index: number): NodeAnswer => {
    const node = this.masters[index]?.name ?? '';
    if (answer?.kind === 'unreachable')
      return { node, answer: 'unreachable', reason: answer.reason };
    const isConfirmed = answer?.value === 'kept' || answer?.value === true;
    return { node, answer: isConfirmed ? 'acquired' : 'gone' };
  };
}
