// A read-write lock on one Redis: its two halves.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected, type ReadWriteLockDescription } from '../api/description.js';
import type { Lock } from '../api/lock.js';
import { parseName } from '../api/options.js';
import type { ReadWriteLock, ReadWriteWaiter } from '../api/read-write-lock.js';
import type { Server } from '../core/server.js';
import type { Session } from '../core/session.js';
import { addMissingMethods, type HeldHere } from './base-lock.js';
import { KeyConflictError } from '../api/errors.js';
import type { KeepReply, LockBackend } from '../core/protocol.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import { WeightedBackend } from './weighted.js';
import { SingleLock } from './single-lock.js';

/** The methods of its two halves. */
const METHODS_OF_HALVES = ['lock', 'tryLock', 'unlock', 'acquire', 'tryAcquire', 'withLock'];

export class ReadWriteSingleLock implements ReadWriteLock {
  static {
    const onHalf = (method: string): [string, string] => [
      method,
      `readLock().${method}() to read, writeLock().${method}() to write`,
    ];
    const instead = Object.fromEntries(METHODS_OF_HALVES.map(onHalf));
    addMissingMethods(ReadWriteSingleLock, 'read-write lock', instead);
  }

  readonly #session: Session;
  readonly #writer: ReadWriteBackend;
  readonly #readLock: HalfLock;
  readonly #writeLock: HalfLock;

  constructor(session: Session, server: Server, name: unknown) {
    const lockName = parseName(name);
    const half = (which: Half): ReadWriteBackend =>
      new ReadWriteBackend(server, session.newOwnerId, lockName, which);
    this.#session = session;
    this.#writer = half('write');
    this.#readLock = new HalfLock(session, half('read'));
    this.#writeLock = new HalfLock(session, this.#writer);
  }

  get name(): string {
    return this.#readLock.name;
  }

  readLock(): Lock {
    return this.#readLock;
  }

  writeLock(): Lock {
    return this.#writeLock;
  }

  async getWaiters(): Promise<ReadWriteWaiter[]> {
    const writer = this.#writer;
    const { waiters } = await this.#session.ask(writer, () => writer.look());
    return waiters.map(({ ownerId, weight }) => ({
      ownerId,
      wants: weight === writer.weight ? 'write' : 'read',
    }));
  }

  toJSON(): ReadWriteLockDescription {
    const { state: reads } = this.#readLock.toJSON();
    const { state: writes } = this.#writeLock.toJSON();
    return { kind: 'ReadWriteLock', name: this.name, readLock: reads, writeLock: writes };
  }

  /** What `toJSON` tells, for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }
}

// One half of a read-write lock on one Redis: a weighted lock, of which a reader has one permit and a writer has all.

/** More permits than any semaphore may have: by this number the scripts tell a read-write lock from a semaphore. */
const ALL_PERMITS = 2 ** 31;

/** Which half it is. */
export type Half = 'read' | 'write';

export class ReadWriteBackend extends WeightedBackend implements HalfBackend {
  readonly kind: string;
  override readonly isShared: boolean;
  override readonly isReentrant = true;

  constructor(server: Server, newOwnerId: () => string, name: string, half: Half) {
    super(server, newOwnerId, {
      name,
      expected: 'a read-write lock',
      capacity: ALL_PERMITS,
      weight: half === 'read' ? 1 : ALL_PERMITS,
      refused: () =>
        new KeyConflictError(`lock "${name}" is no read-write lock`, { lockName: name }),
    });
    this.kind = half === 'read' ? 'ReadLock' : 'WriteLock';
    this.isShared = half === 'read';
  }

  /**
   * The server keeps no hold count. That all holds of this owner only read from now on is told without a lease (`leaseMs` 0) and lowers its
   * weight to a reader's; a call that prolongs the lease changes no weight.
   */
  override async reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit?: TimeLimit,
    isShared = false,
  ): Promise<KeepReply> {
    const reply =
      isShared && leaseMs === 0
        ? await this.lower(ownerId, 1, limit)
        : await super.reenter(ownerId, holdCount, leaseMs, limit);
    return await this.#explained(ownerId, reply);
  }

  override async confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    return await this.#explained(ownerId, await super.confirm(ownerId, leaseMs));
  }

  async isLocked(): Promise<boolean> {
    return (await this.remainTimeToLive()) > 0;
  }

  async remainTimeToLive(): Promise<number> {
    const { lock, leases } = this.keys;
    const { connection } = this.server;
    const last = await connection.run(scripts.weightedLast, [lock, leases], [], (reply) => {
      const [weight, endsInMs] = (reply as [string, number] | null) ?? [];
      return { isRead: Number(weight) < ALL_PERMITS, endsInMs };
    });
    return last.isRead === this.isShared ? (last.endsInMs ?? -2) : -2;
  }

  async forceUnlock(wordMs: number): Promise<string | undefined> {
    const [owner] = await this.forceUnlockAll(wordMs);
    return owner;
  }

  async forceUnlockAll(wordMs: number): Promise<readonly string[]> {
    const { lock, leases, line, forcedOwners } = this.keys;
    const [least, most] = this.isShared ? [1, ALL_PERMITS - 1] : [ALL_PERMITS, ALL_PERMITS];
    const forced = await this.server.connection.run(
      scripts.weightedForce,
      [lock, leases, line, forcedOwners],
      [least, most, wordMs],
      (reply) => reply as string[],
    );
    // Not before that is answered: a server that does not know the script that forces is sent it again, behind whatever else was sent.
    // If this fails, the next renewal of a place lets in the next in line.
    this.handOn().catch(() => undefined);
    return forced;
  }

  /** Why this owner is no holder any more: whoever forced it out left word, which is for this owner alone. */
  async #explained(ownerId: string, reply: KeepReply): Promise<KeepReply> {
    if (reply !== 'deleted') return reply;
    try {
      const { forcedOwners } = this.keys;
      const removed = await this.server.connection.command('hdel', forcedOwners, ownerId);
      return removed === 1 ? 'forced' : 'deleted';
    } catch {
      return 'deleted'; // that it is gone is known, whatever becomes of the word
    }
  }
}

// One half of a read-write lock: a lock that says of itself what is true of those who read, or of the one who writes.

/** A read-write lock on its server, as one of its halves sees it. */
export interface HalfBackend extends LockBackend {
  readonly isShared: boolean;
  /** Frees this half whoever holds it, and leaves word for its holders, for at most `wordMs`. Returns the owners that were forced out. */
  forceUnlockAll(wordMs: number): Promise<readonly string[]>;
}

export class HalfLock extends SingleLock<HalfBackend> {
  override get held(): HeldHere | undefined {
    const { session, backend } = this.parts;
    for (const grant of session.grants) {
      const isHeld = grant.lock.id === backend.id && grant.countOf(backend.isShared) > 0;
      const remainingMs = isHeld ? grant.remaining() : 0;
      if (remainingMs > 0) return { ownerId: grant.ownerId, remainingMs };
    }
    return undefined;
  }

  /** The server knows whether the caller's owner holds the lock; how often, and whether to read or to write, only this client knows. */
  override async getHoldCount(): Promise<number> {
    if ((await super.getHoldCount()) === 0) return 0;
    const { session, backend } = this.parts;
    const ownerId = this.currentOwnerId;
    for (const grant of session.grants)
      if (grant.lock.id === backend.id && grant.ownerId === ownerId)
        return grant.countOf(backend.isShared);
    return 0;
  }

  override async forceUnlock(): Promise<boolean> {
    const { session, backend } = this.parts;
    const owners = await session.askOnce(backend, 'not known to be forced', () =>
      backend.forceUnlockAll(2 * session.lockWatchdogTimeoutMs),
    );
    for (const grant of session.grants)
      if (grant.lock.id === backend.id && owners.includes(grant.ownerId)) grant.lose('forced');
    return owners.length > 0;
  }
}
