// One master of a Redlock: its part of the lock, and what is known of its health.

import type { KeepReply } from '../../core/protocol.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { OptionError } from '../../api/errors.js';
import type { Cleanup } from '../../core/cleanup.js';
import { ReentrantLockBackend, type VoteReply } from '../plain.js';
import type { RedisClient } from '../../redis/client.js';
import { describe } from '../../redis/failure.js';
import { BaseLock } from '../base-lock.js';
import { parseMembers, shownMember } from '../single-lock.js';
import {
  invalid,
  isPlainObject,
  isWholeNumber,
  parseDuration,
  parseOptions,
} from '../../api/options.js';
import { fixedGuard, learningGuard, type RestartGuard } from './restart-guard.js';

/** How many commands were not answered in time, and still are not, by connection; whatever lock they were for. */
const overdue = new WeakMap<RedisClient, number>();

function overdueOf(connection: RedisClient): number {
  return overdue.get(connection) ?? 0;
}

export class Master {
  /** The address of the master, for people. */
  readonly name: string;
  readonly lock: ReentrantLockBackend;
  readonly #cleanup: Cleanup;
  /** By owner, the votes that were asked for and are not answered so far; each resolves to whether it was given. */
  readonly #asked = new Map<string, Promise<boolean>>();

  constructor(lock: ReentrantLockBackend, cleanup: Cleanup) {
    this.name = lock.connection.place;
    this.lock = lock;
    this.#cleanup = cleanup;
  }

  /**
   * Why it is of no use to ask this master for a vote; undefined: it is of use. A master that owes us an answer is not asked again before
   * it gave that, or its connection was made anew: so it costs its timeout once, not on every attempt.
   */
  get trouble(): string | undefined {
    const { isReady, lastError } = this.lock.connection;
    if (!isReady) return lastError ? describe(lastError) : 'not connected';
    return overdueOf(this.lock.connection) > 0 ? 'it owes an answer' : undefined;
  }

  /** Whether it is neither up nor known to be in trouble. */
  get isConnecting(): boolean {
    const { isReady, lastError } = this.lock.connection;
    return !isReady && !lastError;
  }

  /** Asks for its vote. */
  vote(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<VoteReply> {
    const vote = this.lock.vote(ownerId, leaseMs, limit);
    const isGiven = vote.then(({ reply }) => reply.outcome === 'acquired');
    this.#asked.set(ownerId, isGiven);
    const settled = (): void => {
      if (this.#asked.get(ownerId) === isGiven) this.#asked.delete(ownerId);
    };
    isGiven.then(settled, (error: unknown) => {
      settled();
      this.lock.connection.refusals.heard(error);
    });
    return vote;
  }

  /**
   * For a fenced lock: writes a token to this master if it is larger than the last one there, and returns undefined; otherwise returns that
   * last one.
   */
  async raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined> {
    return await this.lock.counter?.raise(token, limit);
  }

  /** Sends `reenter` to this master. A lease that is asked for counts only if the master remembers it, too. */
  keep(ownerId: string, holdCount: number, leaseMs: number, limit: TimeLimit): Promise<KeepReply> {
    const { lock } = this;
    const keep = (): Promise<KeepReply> => lock.reenter(ownerId, holdCount, leaseMs, limit);
    return this.#remembering([lock], leaseMs, keep);
  }

  /** Renews many locks on this master, each for its owner; with a lease of 0 only looks. */
  renewMany(
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const renew = (): Promise<readonly (KeepReply | undefined)[]> =>
      this.lock.renewMany(locks, ownerIds, leaseMs, limit);
    return this.#remembering(locks, leaseMs, renew);
  }

  /** Gives up the lock there; what cannot be given up now is as soon as the master can be reached. */
  async release(ownerId: string): Promise<boolean> {
    const vote = this.#asked.get(ownerId);
    const releasing = this.lock.release(ownerId);
    // The client of this master may be closing at the same time as that of the Redlock.
    this.#cleanup.expect(releasing);
    try {
      const isReleased = await releasing;
      if (isReleased) this.#cleanup.released?.add(this.lock, ownerId);
      else this.#withdrawAfter(vote, ownerId);
      return isReleased;
    } catch (error) {
      this.#cleanup.remove(this.lock, ownerId);
      this.#withdrawAfter(vote, ownerId);
      throw error;
    }
  }

  /** Takes back a vote, or one that may still come; those who wait are told only if it may have kept them out. */
  withdraw(ownerId: string, isTold = false): void {
    this.#withdrawAfter(this.#asked.get(ownerId), ownerId);
    const withdrawn = isTold ? this.lock.release(ownerId) : this.lock.withdraw(ownerId);
    const handled = withdrawn.catch(() => {
      this.#cleanup.remove(this.lock, ownerId);
    });
    this.#cleanup.expect(handled);
  }

  #withdrawAfter(vote: Promise<boolean> | undefined, ownerId: string): void {
    if (!vote) return;
    this.#cleanup.removeAfter(vote, () => {
      this.withdraw(ownerId);
    });
  }

  /** Gives this master an owner again that it has lost, and its hold count. */
  async repair(ownerId: string, holdCount: number, leaseMs: number): Promise<void> {
    const vote = this.vote(ownerId, leaseMs);
    // The count goes right behind: a release that is sent after this finds both done.
    const counted = holdCount > 1 ? this.lock.reenter(ownerId, holdCount, 0) : undefined;
    await Promise.all([vote, counted]);
  }

  /** Has the master remember the lease, and asks; both are sent at once, and it takes both for the lease to count. */
  async #remembering<T>(
    locks: readonly ReentrantLockBackend[],
    leaseMs: number,
    ask: () => Promise<T>,
  ): Promise<T> {
    if (leaseMs === 0) return await ask();
    const remembered = this.lock.remember(locks, leaseMs);
    const [answer] = await Promise.all([ask(), remembered]);
    return answer;
  }

  /** An answer did not come in time. */
  overdue(answer: Promise<unknown>): void {
    const { connection } = this.lock;
    overdue.set(connection, overdueOf(connection) + 1);
    const settled = (): void => {
      overdue.set(connection, overdueOf(connection) - 1);
    };
    answer.then(settled, settled);
  }
}

/** Throws if two masters are one server, which would have two votes. That is known once they are connected. */
export function assertDistinct(lockName: string, masters: readonly Master[]): void {
  for (const [index, { name, lock }] of masters.entries()) {
    const serverId = lock.connection.server.id;
    if (serverId === undefined) continue;
    const twin = masters.findIndex((other) => other.lock.connection.server.id === serverId);
    if (twin === index) continue;
    throw new OptionError(
      `lock "${lockName}": the masters ${masters[twin]?.name ?? ''} and ${name} of the Redlock are the same server (run_id ${serverId}): each must be a server of its own`,
      { lockName },
    );
  }
}

// What a Redlock may be made of: one lock of one name on each of several masters, reentrant ones or fenced ones.

const A_MEMBER = 'a lock of getLock() or getFencedLock()';

/** What a Redlock is made of. */
export interface RedLockParts {
  readonly name: string;
  readonly masters: readonly Master[];
  /** Whether its members are fenced locks, and so its holders get tokens. */
  readonly isFenced: boolean;
  readonly settings: RedLockSettings;
}

/** What `getRedLock()` was given: the locks, and then options, or none. */
export function parseRedLock(given: readonly unknown[]): RedLockParts {
  const last = given.at(-1);
  if (given.length === 0 || last instanceof BaseLock) {
    const parts = parseMasters(given);
    return { ...parts, settings: parseRedLockOptions(parts.name, {}, parts.isFenced) };
  }
  // If it were taken for options that are all left out, it would make a Redlock of one master fewer, whose majority may miss that of
  // others.
  if (!isPlainObject(last)) {
    throw new OptionError(
      `argument ${String(given.length)} of getRedLock() is ${shownMember(last)}: it must be ${A_MEMBER}, or a plain object of options`,
    );
  }
  const parts = parseMasters(given.slice(0, -1));
  return { ...parts, settings: parseRedLockOptions(parts.name, last, parts.isFenced) };
}

function parseMasters(locks: readonly unknown[]): Omit<RedLockParts, 'settings'> {
  const right = `it must be ${A_MEMBER}`;
  const members = parseMembers('a Redlock', locks, right, ({ memberIds }) => !memberIds);
  const name = members[0]?.name ?? '';
  const clients = new Set<object>();
  const masters = members.map((member) => {
    const { session, backend } = member.parts;
    if (!(backend instanceof ReentrantLockBackend)) {
      throw new OptionError(
        `member "${member.name}" of a Redlock is not a lock of getLock(), nor of getFencedLock() without fair: only such can be held by a majority`,
      );
    }
    if (member.name !== name) {
      throw new OptionError(
        `a Redlock has members "${name}" and "${member.name}": it must be one name on several masters`,
      );
    }
    if (backend.connection.isCluster) {
      throw new OptionError(
        `member "${member.name}" of a Redlock is in a cluster: each must be on a master of its own`,
      );
    }
    if (clients.has(session)) {
      throw new OptionError(
        `a Redlock has two members of one client: each must be on its own master, from its own Holdfast`,
      );
    }
    clients.add(session);
    return new Master(backend, session.cleanup);
  });
  return { name, masters, isFenced: areFenced(masters) };
}

/** Whether all members are fenced locks; throws if only some are, since a token is worth something only if the next holder has one, too. */
function areFenced(masters: readonly Master[]): boolean {
  const places = (isFenced: boolean): string =>
    masters.flatMap(({ lock }, index) => (lock.isFenced === isFenced ? index + 1 : [])).join(', ');
  const [fenced, plain] = [places(true), places(false)];
  if (fenced !== '' && plain !== '') {
    throw new OptionError(
      `a Redlock has members of getFencedLock() (${fenced}) and of getLock() (${plain}): it must be all of one kind`,
    );
  }
  return fenced !== '';
}

// Reads the options of `getRedLock()`.

export interface RedLockSettings {
  /** How long one master may take to answer, in milliseconds. */
  readonly nodeTimeoutMs: number;
  /** Decides which masters have been up for too short a time to vote; `longestLeaseMs`: the longest lease that this client has used. */
  readonly guard: (longestLeaseMs: number) => RestartGuard;
  /** How often the watchdog extends a lease at most. */
  readonly maxExtensions: number;
}

/** `isFenced`: whether its holders get tokens, which a master that has restarted may have forgotten. */
export function parseRedLockOptions(
  lockName: string,
  options: unknown,
  isFenced: boolean,
): RedLockSettings {
  const { nodeTimeout, restartGuard, maxExtensions } = parseOptions(
    'the options of getRedLock()',
    options,
    ['nodeTimeout', 'restartGuard', 'maxExtensions'],
    lockName,
  );
  return {
    nodeTimeoutMs:
      nodeTimeout === undefined ? 50 : parseDuration(nodeTimeout, 'nodeTimeout', 1, lockName),
    guard: parseRestartGuard(lockName, restartGuard, isFenced),
    maxExtensions: parseMaxExtensions(lockName, maxExtensions),
  };
}

function parseRestartGuard(
  lockName: string,
  restartGuard: unknown,
  isFenced: boolean,
): RedLockSettings['guard'] {
  if (restartGuard === undefined) return learningGuard;
  if (isFenced && (restartGuard === false || restartGuard === 0)) {
    const right = 'at least 1 ms where the members are fenced locks';
    throw invalid(
      'restartGuard',
      restartGuard,
      `${right}: a master that restarted may have forgotten their tokens`,
      lockName,
    );
  }
  const guardMs =
    restartGuard === false ? 0 : parseDuration(restartGuard, 'restartGuard', 0, lockName);
  return () => fixedGuard(guardMs);
}

function parseMaxExtensions(lockName: string, maxExtensions: unknown): number {
  if (maxExtensions === undefined || maxExtensions === Infinity) return Infinity;
  if (isWholeNumber(maxExtensions, 0)) return maxExtensions;
  const right = 'a whole number of at least 0, or Infinity';
  throw invalid('maxExtensions', maxExtensions, right, lockName);
}
