// The interface of every lock in the benchmarks, ours and others: the same few calls; and what several of them need for it.
import { Redis } from 'ioredis';
import { setImmediate as nextTurn } from 'node:timers/promises';

export type Release = () => Promise<unknown>;

export interface PeerClient {
  /** Waits for the lock, however long it takes, and returns its release function. */
  acquire(name: string): Promise<Release>;
  /** Waits until the caller may be inside together with others of this call; left out: there is no such lock, and `acquire` is used. */
  acquireToRead?(name: string): Promise<Release>;
  /** Like `acquire`, work, release: by the library's own call, if it has one. */
  withLock(name: string, work: () => Promise<void>): Promise<void>;
  /** Takes the lock, and has the library keep it while this process runs. */
  keep(name: string): Promise<void>;
  /** Uses these locks until their client keeps all of them without a hold, but not for ever; how many it keeps. Left out: it keeps none. */
  warmUp?(names: readonly string[]): Promise<number>;
  /** Ends its connections at once, whatever is under way. */
  close(): void;
}

export interface PeerOptions {
  /** The Redis servers: one, or the masters of a Redlock. */
  readonly urls: readonly string[];
  /** Replaces the library's default lease, or the one of its README. */
  readonly leaseMs?: number | undefined;
  /** For a semaphore: how many callers may be inside. */
  readonly permits?: number | undefined;
}

export interface Peer {
  readonly id: string;
  /** The name in reports. */
  readonly label: string;
  /** A floor is not a usable lock: it shows the least possible cost. */
  readonly role: 'ours' | 'competitor' | 'floor';
  /** The settings that differ from the library's defaults. */
  readonly tuned?: string;
  /** The settings matter only while it waits. */
  readonly isTunedForWaiting?: true;
  /** More than one caller may be inside: not comparable with locks. */
  readonly isShared?: true;
  /** The longest sleep between two queries of a lock that another caller holds; 0 if a message wakes it. */
  readonly pollMs: number;
  /** Resolves when it is connected. */
  connect(options: PeerOptions): Promise<PeerClient>;
}

// A plain ioredis client, connected, with the default options, for libraries that do not bring their own.

export async function connected(url: string): Promise<Redis> {
  const redis = new Redis(url);
  redis.on('error', () => undefined); // a server that falls silent is part of the measurement
  await redis.ping();
  return redis;
}

// Asks again when a library gives up, as a caller that must have the lock would.

/** Calls `acquire` until it succeeds; throws errors that are not refusals, and every error once the run is over. */
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
      await nextTurn(); // a library that refuses without asking the server must not block the event loop
    }
  }
}

// Keeps a lock by the library's call that renews it while work is under way.

/** Resolves when the work begins, which never ends. */
export function keptBy(withLock: (work: () => Promise<void>) => Promise<void>): Promise<void> {
  return new Promise((entered, reject) => {
    withLock(() => {
      entered();
      return new Promise<void>(() => undefined);
    }).catch(reject);
  });
}
