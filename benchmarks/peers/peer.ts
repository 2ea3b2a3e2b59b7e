// What every lock is to the benchmarks, ours and those of others: the same few calls; and what several need to have them.
import { Redis } from 'ioredis';
import { setImmediate as nextTurn } from 'node:timers/promises';

export type Release = () => Promise<unknown>;

export interface PeerClient {
  /** Waits for the lock, however long it takes, and returns what releases it. */
  acquire(name: string): Promise<Release>;
  /** Waits until it may be inside beside others who came by this call; left out: there is no such lock, and `acquire` is what there is. */
  acquireToRead?(name: string): Promise<Release>;
  /** As `acquire`, work, release: by the call that the library has for it, where it has one. */
  withLock(name: string, work: () => Promise<void>): Promise<void>;
  /** Takes it, and has the library keep it for as long as this process runs. */
  keep(name: string): Promise<void>;
  /** Ends its connections at once, whatever is under way. */
  close(): void;
}

export interface PeerOptions {
  /** The Redis servers: one, or the masters of a Redlock. */
  readonly urls: readonly string[];
  /** Instead of the lease that is the default of the library, or the one of its README. */
  readonly leaseMs?: number | undefined;
  /** How many may be inside, for a semaphore. */
  readonly permits?: number | undefined;
}

export interface Peer {
  readonly id: string;
  /** For people. */
  readonly label: string;
  /** A floor is no lock to use: it says what cannot be cheaper. */
  readonly role: 'ours' | 'competitor' | 'floor';
  /** What was set where this is not the library at its defaults. */
  readonly tuned?: string;
  /** What was set shows only while it waits. */
  readonly isTunedForWaiting?: true;
  /** More than one may be inside: not to be compared with locks. */
  readonly isShared?: true;
  /** How long it sleeps between two looks at a lock that somebody else holds, at most; 0 where a message wakes it. */
  readonly pollMs: number;
  /** Resolves when it is connected. */
  connect(options: PeerOptions): Promise<PeerClient>;
}

// A plain ioredis client, connected, with the default options: what the libraries that bring none of their own are given.

export async function connected(url: string): Promise<Redis> {
  const redis = new Redis(url);
  redis.on('error', () => undefined); // a server that falls silent is part of what is measured
  await redis.ping();
  return redis;
}

// Asks anew when a library gives up: whoever must have the lock would do the same.

/** Calls `acquire` until it succeeds; errors that are no refusals are thrown, and so is everything once it is over. */
export async function insist<T>(
  acquire: () => Promise<T>,
  isRefusal: (error: unknown) => boolean,
  isOver: () => boolean,
): Promise<T> {
  for (;;) {
    try {
      return await acquire();
    } catch (error) {
      if (!isRefusal(error) || isOver()) throw error;
      await nextTurn(); // one that refuses without asking the server must not keep the process to itself
    }
  }
}

// Keeps a lock by the call of a library that renews it while work is under way.

/** Resolves when the work began, which never ends. */
export function keptBy(withLock: (work: () => Promise<void>) => Promise<void>): Promise<void> {
  return new Promise((entered, reject) => {
    withLock(() => {
      entered();
      return new Promise<void>(() => undefined);
    }).catch(reject);
  });
}
