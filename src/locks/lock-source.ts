// Where locks come from: of each kind the one of a name, or of several locks.

import type { Events } from '../api/events.js';
import type { FairLock } from '../api/fair-lock.js';
import type { FencedLock, FencedLockOptions } from '../api/fenced-lock.js';
import type { Lock } from '../api/lock.js';
import { parseName, type RedLockOptions } from '../api/options.js';
import type { ReadWriteLock } from '../api/read-write-lock.js';
import type { Semaphore, SemaphoreOptions } from '../api/semaphore.js';
import type { Server } from '../core/server.js';
import type { Session } from '../core/session.js';
import { FairLockBackend } from './fair/fair-backend.js';
import { FairSingleLock } from './fair/fair-single-lock.js';
import { fencedLock, fencedLockOver } from './fenced/fenced-single-lock.js';
import { MultiLock } from './multi/multi-lock.js';
import { ReadWriteSingleLock } from './read-write/read-write-single-lock.js';
import { FencedRedLockBackend } from './red/fenced-red-backend.js';
import { parseRedLock } from './red/masters.js';
import { QuorumServices } from './red/quorum-services.js';
import { RedLockBackend } from './red/red-backend.js';
import { ReentrantLockBackend } from './reentrant/reentrant-backend.js';
import { SingleSemaphore } from './shared/single-semaphore.js';
import { SingleLock } from './single-lock.js';

/** What makes the locks of one client. */
export abstract class LockSource {
  readonly #session: Session;
  readonly #server: Server;
  readonly #events: Events;
  #quorum: QuorumServices | undefined;

  /** @internal */
  protected constructor(session: Session, server: Server, events: Events) {
    this.#session = session;
    this.#server = server;
    this.#events = events;
  }

  /**
   * The reentrant lock of this name. Not fair: who is woken first, tries first.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getLock(name: string): Lock {
    return new SingleLock(this.#session, this.#backend(ReentrantLockBackend, name));
  }

  /**
   * The fair lock of this name: reentrant, first come first served. The same lock as `getLock(name)`, whose callers do not
   * stand in line.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getFairLock(name: string): FairLock {
    return new FairSingleLock(this.#session, this.#backend(FairLockBackend, name));
  }

  /**
   * The fenced lock of this name: each holder gets a token larger than all before it, for the guarded resource to check. Otherwise it
   * behaves as `getLock(name)`, or with `fair` as `getFairLock(name)`, and is the same lock.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name or an option is not usable
   */
  getFencedLock(name: string, options: FencedLockOptions = {}): FencedLock {
    return fencedLock(this.#session, this.#server, name, options);
  }

  /**
   * The read-write lock of this name: many may read at the same time, whoever writes is alone; first come, first served.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @throws {@link OptionError} the name is not usable
   */
  getReadWriteLock(name: string): ReadWriteLock {
    return new ReadWriteSingleLock(this.#session, this.#server, name);
  }

  /**
   * The semaphore of this name: as many holders as there are permits, first come first served, each permit a lease. A name is that of
   * a semaphore or of a lock, not of both.
   *
   * @param name - 1 to 1,024 bytes; in a cluster it may bring its own `{hash tag}`
   * @param options - `permits`: how many there are, the same number for all who use it
   * @throws {@link OptionError} the name or the number is not usable
   */
  getSemaphore(name: string, options: SemaphoreOptions): Semaphore {
    return new SingleSemaphore(this.#session, this.#server, name, options);
  }

  /**
   * A lock of several locks: all of them, or none. They may be reentrant, fair, fenced, one half of a read-write lock, or Redlocks,
   * and of different clients. Inside it, each member is held, too: a fenced one has its own token there, and the whole has none.
   * Callers may name the same locks in different orders.
   *
   * @param locks - at least one, each once, no MultiLock. Two that turn out to be the same key of the same server, by two clients, are an
   *   {@link OptionError} when it is acquired
   * @throws {@link OptionError} a member cannot be one
   */
  getMultiLock(...locks: Lock[]): Lock {
    return new MultiLock(this.#session, locks);
  }

  /**
   * A lock on several independent masters, held by whoever most of them say holds it: it outlives the loss of any minority of
   * them. Redis' Redlock, see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
   *
   * @param locks - locks of `getLock` of one name, each from its own Holdfast on its own master; an odd number is best. Or all of
   *   `getFencedLock`, and not `fair`: then it is a fenced lock, too, whose tokens grow over all masters
   * @throws {@link OptionError} a member cannot be one
   */
  getRedLock(...locks: FencedLock[]): FencedLock;
  /** A Redlock over locks of `getLock`, without tokens. */
  getRedLock(...locks: Lock[]): Lock;
  /**
   * A Redlock over locks of `getFencedLock`, with options, which come last.
   *
   * @param locksAndOptions - the locks, and then {@link RedLockOptions}
   * @throws {@link OptionError} a member cannot be one, or an option is not usable
   */
  getRedLock(...locksAndOptions: [...FencedLock[], RedLockOptions]): FencedLock;
  /** A Redlock over locks of `getLock`, with options, which come last. */
  getRedLock(...locksAndOptions: [...Lock[], RedLockOptions]): Lock;
  getRedLock(...given: unknown[]): Lock {
    const parts = parseRedLock(given);
    const quorum = (this.#quorum ??= new QuorumServices(this.#session, this.#events));
    return parts.isFenced
      ? fencedLockOver(quorum.session, new FencedRedLockBackend(parts, quorum))
      : new SingleLock(quorum.session, new RedLockBackend(parts, quorum));
  }

  /** What the Redlocks of this client share; undefined: it has made none. @internal */
  protected get quorum(): QuorumServices | undefined {
    return this.#quorum;
  }

  #backend<Backend>(
    Kind: new (...args: ConstructorParameters<typeof ReentrantLockBackend>) => Backend,
    name: unknown,
  ): Backend {
    const { newOwnerId } = this.#session;
    return new Kind(this.#server, this.#server.keyPrefix, parseName(name), newOwnerId);
  }
}
