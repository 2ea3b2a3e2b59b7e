// A read-write lock on one Redis: its two halves.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected, type ReadWriteLockDescription } from '../../api/description.js';
import type { Lock } from '../../api/lock.js';
import { parseName } from '../../api/options.js';
import type { ReadWriteLock } from '../../api/read-write-lock.js';
import type { Server } from '../../core/server.js';
import type { Session } from '../../core/session.js';
import { HalfLock } from './half-lock.js';
import { ReadWriteBackend, type Half } from './read-write-backend.js';

export class ReadWriteSingleLock implements ReadWriteLock {
  readonly #readLock: HalfLock;
  readonly #writeLock: HalfLock;

  constructor(session: Session, server: Server, name: unknown) {
    const lockName = parseName(name);
    const half = (which: Half): HalfLock =>
      new HalfLock(session, new ReadWriteBackend(server, session.newOwnerId, lockName, which));
    this.#readLock = half('read');
    this.#writeLock = half('write');
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

  toJSON(): ReadWriteLockDescription {
    const { state: reads } = this.#readLock.toJSON();
    const { state: writes } = this.#writeLock.toJSON();
    return { kind: 'ReadWriteLock', name: this.name, readLock: reads, writeLock: writes };
  }

  /** The same for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }
}
