// A read-write lock on one Redis: its two halves.

import { inspect, type InspectOptions } from 'node:util';
import { inspected, type ReadWriteLockDescription } from '../api/description.js';
import type { Lock } from '../api/lock.js';
import { parseName } from '../api/options.js';
import type { ReadWriteLock, ReadWriteWaiter } from '../api/read-write-lock.js';
import type { Server } from '../core/server.js';
import type { Session } from '../core/session.js';
import { KeyConflictError } from '../api/errors.js';
import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import type { KeepReply, LockBackend } from '../core/protocol.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import { AS_IT_IS, shortensFor, WeightedBackend } from './weighted.js';
import { SingleLock } from './single-lock.js';

export class ReadWriteSingleLock implements ReadWriteLock {
  static {
    explainWrongCalls(ReadWriteSingleLock, KINDS.readWriteLock);
  }

  readonly #session: Session;
  readonly #writer: ReadWriteBackend;
  readonly #readLock: SingleLock;
  readonly #writeLock: SingleLock;

  constructor(session: Session, server: Server, name: unknown) {
    const lockName = parseName(name);
    const half = (which: Half): ReadWriteBackend =>
      new ReadWriteBackend(server, session.newOwnerId, lockName, which);
    this.#session = session;
    this.#writer = half('write');
    this.#readLock = new SingleLock(session, half('read'));
    this.#writeLock = new SingleLock(session, this.#writer);
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
  [inspect.custom](depth: number, options: InspectOptions): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }
}

// One half of a read-write lock on one Redis: a weighted lock, of which a reader takes one permit and a writer takes all.

/** More permits than any semaphore may have: by this number the scripts distinguish a read-write lock from a semaphore. */
const ALL_PERMITS = 2 ** 31;

/** Which half it is. */
type Half = 'read' | 'write';

export class ReadWriteBackend extends WeightedBackend implements LockBackend {
  readonly kind: string;
  override readonly isShared: boolean;
  override readonly isReentrant = true;

  constructor(server: Server, newOwnerId: () => string, name: string, half: Half) {
    const weight = half === 'read' ? 1 : ALL_PERMITS;
    super(server, newOwnerId, {
      name,
      family: 'read-write',
      expected: 'a read-write lock',
      capacity: ALL_PERMITS,
      weight,
    });
    this.kind = half === 'read' ? 'ReadLock' : 'WriteLock';
    this.isShared = half === 'read';
  }

  protected override refused(): KeyConflictError {
    const { name: lockName } = this;
    return new KeyConflictError(`lock "${lockName}" is no read-write lock`, { lockName });
  }

  /**
   * With `leaseMs` 0 and `isShared`, a downgrade: lowers the owner's weight to a reader's, since all its holds only read from now on. A
   * call that extends the lease does not change the weight.
   */
  override reenter(
    ownerId: string,
    count: number,
    leaseMs: number,
    limit?: TimeLimit,
    isShared = false,
  ): Promise<KeepReply> {
    const weight = isShared && leaseMs === 0 ? 1 : AS_IT_IS;
    return this.keep(ownerId, weight, leaseMs, shortensFor(count), limit);
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

  forceUnlock(forcedNoteTtlMs: number): Promise<readonly string[]> {
    const [least, most] = this.isShared ? [1, ALL_PERMITS - 1] : [ALL_PERMITS, ALL_PERMITS];
    return this.force(least, most, forcedNoteTtlMs);
  }
}
