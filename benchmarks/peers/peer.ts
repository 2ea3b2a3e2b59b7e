// What every lock is to the benchmarks, ours and those of others: the same few calls.

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
