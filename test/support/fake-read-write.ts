// Read-write locks on a server that exists only in memory: first come, first served, readers together.
import type {
  AcquireReply,
  KeepReply,
  LockBackend,
  LockRequest,
  Waiter,
} from '../../src/core/protocol.js';
import { SingleLock } from '../../src/locks/single-lock.js';
import type { Lock } from '../../src/api/lock.js';
import type { FakeHoldfast } from './fake-holdfast.js';
import type { FakeServer } from './fake-backend.js';

interface Place {
  readonly owner: string;
  readonly isShared: boolean;
  readonly letIn: () => void;
}

interface Halves {
  readonly readLock: Lock;
  readonly writeLock: Lock;
}

/** One such lock. */
export class FakeReadWriteLock {
  readonly #server: FakeServer;
  readonly #name: string;
  /** Who holds it: `R` or `W`. */
  readonly holders = new Map<string, 'R' | 'W'>();
  #line: Place[] = [];
  #lastOwner = 0;

  constructor(server: FakeServer, name: string) {
    this.#server = server;
    this.#name = name;
  }

  /** Who has it, in order: `RR`, `W`, or nothing. */
  get held(): string {
    return [...this.holders.values()].join('');
  }

  /** Its key goes, and nobody hears of it. */
  delete(): void {
    this.holders.clear();
  }

  halves({ session }: FakeHoldfast): Halves {
    const half = (isShared: boolean): Lock => new SingleLock(session, this.#half('me', isShared));
    return { readLock: half(true), writeLock: half(false) };
  }

  /** Somebody else holds it, until the function that this returns is called. */
  hold(as: 'R' | 'W'): () => void {
    const owner = `somebody-else:${String(++this.#lastOwner)}`;
    this.holders.set(owner, as);
    return () => {
      this.#release(owner);
    };
  }

  #half(clientId: string, isShared: boolean): LockBackend {
    const server = this.#server;
    const name = this.#name;
    const how = isShared ? 'R' : 'W';
    return {
      kind: isShared ? 'ReadLock' : 'WriteLock',
      name,
      id: `read-write ${clientId} ${name}`,
      isShared,
      newOwnerId: () => `${clientId}:${String(++this.#lastOwner)}`,
      waiter: (newOwnerId, request) => this.#waiter(newOwnerId(), request, isShared),
      reenter: (owner, count, _leaseMs, _limit, sharedNow) =>
        server.ask(`keep ${name} ${owner} ${String(count)} ${sharedNow ? 'R' : 'W'}`, () =>
          this.#keep(owner, sharedNow),
        ),
      release: (owner) => server.ask(`release ${name} ${owner}`, () => this.#release(owner)),
      watch: () => undefined,
      unwatch: () => undefined,
      forceUnlock: () =>
        server.ask(`force ${name}`, () => {
          const owners = [...this.holders.keys()].filter(
            (owner) => this.holders.get(owner) === how,
          );
          for (const owner of owners) this.#release(owner);
          return owners;
        }),
      isLocked: () => server.ask('look', () => this.held.includes(how)),
      holdCount: (owner) => server.ask('look', () => Number(this.holders.has(owner))),
      remainTimeToLive: () => server.ask('look', () => (this.held.includes(how) ? 30_000 : -2)),
    };
  }

  #waiter(ownerId: string, { waitMs }: LockRequest, isShared: boolean): Waiter {
    let letIn: (() => void) | undefined;
    let isInLine = false;
    const waiter = {
      ownerId,
      mayTry: true,
      woken: Promise.resolve(),
      try: (): Promise<AcquireReply> => {
        waiter.woken = new Promise((resolve) => {
          letIn = () => {
            waiter.mayTry = true;
            resolve();
          };
        });
        const place = { owner: ownerId, isShared, letIn: () => letIn?.() };
        return this.#server.ask(`join ${this.#name} ${ownerId} ${isShared ? 'R' : 'W'}`, () =>
          this.#join(place, waitMs > 0),
        );
      },
      wait: () => {
        isInLine = true;
        waiter.mayTry = this.holders.has(ownerId);
      },
      look: () => undefined,
      leave: (leaseMs?: number) => isInLine && leaseMs === undefined,
    };
    return waiter;
  }

  #join(place: Place, mayWait: boolean): AcquireReply {
    const { owner, isShared } = place;
    if (this.holders.has(owner)) return { outcome: 'acquired' };
    if (this.#line.length === 0 && this.#hasRoom(isShared)) {
      this.holders.set(owner, isShared ? 'R' : 'W');
      return { outcome: 'acquired' };
    }
    const [holder = owner] = this.holders.keys();
    if (mayWait && !this.#line.some((other) => other.owner === owner)) this.#line.push(place);
    return { outcome: 'held', holder, holderTtlMs: 30_000 };
  }

  #keep(owner: string, isShared: boolean): KeepReply {
    if (!this.holders.has(owner)) return this.holders.size > 0 ? 'taken' : 'deleted';
    if (isShared) this.holders.set(owner, 'R');
    this.#admit();
    return 'kept';
  }

  #release(owner: string): boolean {
    const isReleased = this.holders.delete(owner);
    this.#line = this.#line.filter((place) => place.owner !== owner);
    this.#admit();
    return isReleased;
  }

  #hasRoom(isShared: boolean): boolean {
    return this.holders.size === 0 || (isShared && !this.held.includes('W'));
  }

  #admit(): void {
    for (;;) {
      const [first] = this.#line;
      if (!first || !this.#hasRoom(first.isShared)) return;
      this.#line.shift();
      this.holders.set(first.owner, first.isShared ? 'R' : 'W');
      first.letIn();
    }
  }
}
