// A read-write lock on one Redis: its two halves.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected, type ReadWriteLockDescription } from '../../api/description.js';
import type { Lock } from '../../api/lock.js';
import { parseName } from '../../api/options.js';
import type { ReadWriteLock, ReadWriteWaiter } from '../../api/read-write-lock.js';
import type { Server } from '../../core/server.js';
import type { Session } from '../../core/session.js';
import { addMissingMethods } from '../missing-methods.js';
import { HalfLock } from './half-lock.js';
import { ReadWriteBackend, type Half } from './read-write-backend.js';

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
