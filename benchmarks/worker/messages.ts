// The messages between the benchmarks and their worker processes, a line of JSON at a time; those in Java
// (benchmarks/redisson/RedissonWorker.java) understand the same. Times are in milliseconds on the machine's monotonic clock.

/** Which lock of which library, and where. */
export interface Target {
  /** The id of a peer. */
  readonly peer: string;
  readonly urls: readonly string[];
  readonly leaseMs?: number;
  /** Of a semaphore: how many callers may be inside. */
  readonly permits?: number;
}

/** Acquire and release, over and over, without contention. */
export interface PairsOrder extends Target {
  readonly do: 'pairs';
  readonly call: 'acquire' | 'withLock';
  /** The prefix of the names. */
  readonly name: string;
  /** How many are in flight, each on a name of its own. */
  readonly lanes: number;
  /** How many names there are, if more: each lane goes through its share of them. */
  readonly names?: number;
  readonly durationMs: number;
}

export interface Pairs {
  readonly count: number;
  readonly durationMs: number;
  /** From the call to the end of the release, in microseconds. */
  readonly p50Micros: number;
  readonly p99Micros: number;
  /** What this process spent, in microseconds of a core. */
  readonly cpuMicros: number;
}

/** `callers` callers want one lock, each again as soon as it has released it. */
export interface CrowdOrder extends Target {
  readonly do: 'crowd';
  readonly name: string;
  readonly callers: number;
  /** No caller asks before this time, so that those of several processes begin together. */
  readonly fromMs: number;
  /** No caller asks after this time; -1: they never stop. */
  readonly toMs: number;
  /**
   * The key for the work inside: a caller that must be alone reads, awaits and writes it, a reader reads it twice, a holder of a permit
   * counts it up and down. Left out: there is no work inside.
   */
  readonly counterUrl?: string;
  /** A caller writes every n-th time and reads otherwise; not set: it always writes. */
  readonly writeEvery?: number;
  /** The longest rest of a caller between two stays, of random length; not set: it has none. */
  readonly restMs?: number;
}

/** Asked for when they are done: the results of the callers. */
interface DisbandOrder {
  readonly do: 'disband';
  readonly name: string;
}

export interface Crowd {
  /** Which callers entered between `fromMs` and `toMs`, by their indexes from 0. */
  readonly callers: readonly number[];
  /** The number that each of them found inside: the order of the writers, across all processes. */
  readonly numbers: readonly number[];
  /** How long those waited, and those that still waited at the end, in milliseconds. */
  readonly waitsMs: readonly number[];
  /** The waits of the writers. */
  readonly writerWaitsMs: readonly number[];
  /** All stays, including those that began after the end. */
  readonly entries: number;
  /** How many of them counted the number up. */
  readonly writes: number;
  /** Callers that found a violation inside: a number that changed while it read, or more than there are permits. */
  readonly intrusions: number;
  /** Callers that did not get in within a second after everybody had stopped asking. */
  readonly stuck: number;
}

/** How many stays of a crowd begin within this many milliseconds. */
interface TallyOrder {
  readonly do: 'tally';
  readonly name: string;
  readonly durationMs: number;
}

/** Acquire the lock and hold it. */
interface HoldOrder extends Target {
  readonly do: 'hold';
  readonly name: string;
}

/** Release what `hold` acquired; the answer is when the release began. */
interface LetGoOrder {
  readonly do: 'let go';
  readonly name: string;
}

/** Begin to wait for the lock, and release it at once when it comes. */
interface WaitOrder extends Target {
  readonly do: 'wait';
  readonly name: string;
}

/** The answer is when the wait ended; it comes after that. */
interface TellOrder {
  readonly do: 'tell';
  readonly name: string;
}

/** Acquire this many locks, `name:0` and so on, and have the library keep them. */
export interface KeepOrder extends Target {
  readonly do: 'keep';
  readonly name: string;
  readonly count: number;
}

/** Use this many locks, `name:0` and so on, until the client keeps all of them without a hold; the answer is how many it keeps. */
interface WarmUpOrder extends Target {
  readonly do: 'warm up';
  readonly name: string;
  readonly count: number;
}

/** Acquire the lock and release it; the answer is how long the acquisition took. */
interface TakeOrder extends Target {
  readonly do: 'take';
  readonly name: string;
}

/** What this process uses. */
interface UsageOrder {
  readonly do: 'usage';
}

/** Bytes of heap after a collection; Node.js has to be started with --expose-gc. */
interface HeapOrder {
  readonly do: 'heap';
}

export interface Usage {
  readonly atMs: number;
  readonly cpuMicros: number;
}

export type Order =
  | PairsOrder
  | CrowdOrder
  | DisbandOrder
  | TallyOrder
  | HoldOrder
  | LetGoOrder
  | WaitOrder
  | TellOrder
  | KeepOrder
  | WarmUpOrder
  | TakeOrder
  | UsageOrder
  | HeapOrder;

export type AnswerTo<O extends Order> = O extends PairsOrder
  ? Pairs
  : O extends DisbandOrder
    ? Crowd
    : O extends UsageOrder
      ? Usage
      : O extends TallyOrder | LetGoOrder | TellOrder | WarmUpOrder | TakeOrder | HeapOrder
        ? number
        : null;

/** Orders are carried out concurrently; answers come as they are ready. */
export interface Request {
  readonly id: number;
  readonly order: Order;
}

export interface Reply {
  readonly id: number;
  readonly answer?: unknown;
  /** Why the order failed. */
  readonly error?: string;
}
