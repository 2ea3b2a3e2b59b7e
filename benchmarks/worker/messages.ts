// What the benchmarks and their worker processes tell each other, a line of JSON at a time; those in Java
// (benchmarks/redisson/RedissonWorker.java) understand the same. Times are in milliseconds on the machine's monotonic clock.

/** Which lock of which library, and where. */
export interface Target {
  /** The id of a peer. */
  readonly peer: string;
  readonly urls: readonly string[];
  readonly leaseMs?: number;
  /** Of a semaphore: how many may be inside. */
  readonly permits?: number;
}

/** Take and release, over and over, where nobody else wants it. */
export interface PairsOrder extends Target {
  readonly do: 'pairs';
  readonly call: 'acquire' | 'withLock';
  /** In front of the names. */
  readonly name: string;
  /** How many are in flight, each on a name of its own. */
  readonly lanes: number;
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

/** So many callers want one lock, each again as soon as it has released it. */
export interface CrowdOrder extends Target {
  readonly do: 'crowd';
  readonly name: string;
  readonly callers: number;
  /** Nobody asks before, so that those of several processes begin together. */
  readonly fromMs: number;
  /** Nobody asks any more from then on; -1: they never stop. */
  readonly toMs: number;
  /**
   * Where the key is that is looked at inside: read, awaited and written by who is to be alone, read twice by who reads, counted up
   * and down by who has a permit. None: nothing is done inside.
   */
  readonly counterUrl?: string;
  /** Each so-manieth time a caller writes, else it reads; not set: it always writes. */
  readonly writeEvery?: number;
}

/** Asked for when they are done: what became of them. */
interface DisbandOrder {
  readonly do: 'disband';
  readonly name: string;
}

export interface Crowd {
  /** Who came in between `fromMs` and `toMs`, counted from 0. */
  readonly callers: readonly number[];
  /** The number that each of them found inside: the order of those who write, across all processes. */
  readonly numbers: readonly number[];
  /** How long those waited, and those who still did at the end, in milliseconds. */
  readonly waitsMs: readonly number[];
  /** Those of them who wanted to write. */
  readonly writerWaitsMs: readonly number[];
  /** All stays, also those that began after the end. */
  readonly entries: number;
  /** How many of them counted the number up. */
  readonly writes: number;
  /** Who found inside what must not be: a number that changed while it read, or more than there are permits. */
  readonly intrusions: number;
  /** Callers that did not get in within a second after everybody had stopped asking. */
  readonly stuck: number;
}

/** How many stays of a crowd begin within the next so many milliseconds. */
interface TallyOrder {
  readonly do: 'tally';
  readonly name: string;
  readonly durationMs: number;
}

/** Take it and hold it. */
interface HoldOrder extends Target {
  readonly do: 'hold';
  readonly name: string;
}

/** Let go of what was taken by `hold`; the answer is when that began. */
interface LetGoOrder {
  readonly do: 'let go';
  readonly name: string;
}

/** Begin to wait for it, and release it at once when it comes. */
interface WaitOrder extends Target {
  readonly do: 'wait';
  readonly name: string;
}

/** The answer is when the wait ended, which it may first have to do. */
interface TellOrder {
  readonly do: 'tell';
  readonly name: string;
}

/** Take so many, `name:0` and so on, and have the library keep them. */
export interface KeepOrder extends Target {
  readonly do: 'keep';
  readonly name: string;
  readonly count: number;
}

/** What this process takes. */
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
  | UsageOrder
  | HeapOrder;

export type AnswerTo<O extends Order> = O extends PairsOrder
  ? Pairs
  : O extends DisbandOrder
    ? Crowd
    : O extends UsageOrder
      ? Usage
      : O extends TallyOrder | LetGoOrder | TellOrder | HeapOrder
        ? number
        : null;

/** Orders are carried out side by side; answers come as they are ready. */
export interface Request {
  readonly id: number;
  readonly order: Order;
}

export interface Reply {
  readonly id: number;
  readonly answer?: unknown;
  /** Why it could not be done. */
  readonly error?: string;
}
