// holdfast/testing: a Redis in memory, for tests of code that uses holdfast.

import { OptionError } from '../api/errors.js';
import {
  invalid,
  parseBoolean,
  parseCount,
  parseDuration,
  parseOptions,
  parseText,
} from '../api/options.js';
import { LockKeys } from '../redis/keys.js';
import { LIBRARY, type Library } from '../redis/port.js';
import { memoryLibrary, WholeNetwork } from './connection.js';
import { MOST_UNDONE } from './keyspace.js';
import { MemoryClock } from './memory-clock.js';
import { MemoryServer } from './server.js';

/**
 * Options of a {@link MemoryRedis}.
 *
 * @group Testing
 */
export interface MemoryRedisOptions {
  /**
   * How many replicas the server has, from 0 to 1,000. They acknowledge writes, for the option `replicas` of a `Holdfast`, and one of them
   * takes over in a `failover()`. Default: 0.
   */
  replicas?: number | undefined;
  /**
   * Another `MemoryRedis` whose time this one shares: `advance()` of either moves both. For a Redlock or a MultiLock over several servers.
   * Default: none, it has a time of its own.
   */
  timeOf?: MemoryRedis | undefined;
}

/**
 * Options of `MemoryRedis.restart()`.
 *
 * @group Testing
 */
export interface RestartOptions {
  /** Whether all keys are gone after the restart. Default: false, they stay as they were. */
  empty?: boolean | undefined;
}

/**
 * Options of `MemoryRedis.failover()`.
 *
 * @group Testing
 */
export interface FailoverOptions {
  /**
   * How many of the newest writes the replica that takes over misses, from 0 to 1,000. A write is a command or script that changed
   * something, such as an acquisition, a release or a renewal. Default: the writes of the time by which `lag()` keeps the replicas behind.
   */
  lose?: number | undefined;
}

/**
 * A holder of a lock.
 *
 * @group Testing
 */
export interface MemoryHolder {
  /** The `ownerId` of the hold: `<clientId>:<n>`. */
  readonly ownerId: string;
  /**
   * How often this owner holds the lock, as far as the server knows: 0 for a moment after a fair lock was handed over. Of a semaphore, how
   * many permits it holds.
   */
  readonly count: number;
  /** How the owner holds a read-write lock; undefined: it is another kind of lock. */
  readonly access: 'read' | 'write' | undefined;
  /** How long the server keeps the lock without a renewal, in milliseconds; `Infinity`: forever. */
  readonly remaining: number;
}

/** More replicas than any server has. */
const MOST_REPLICAS = 1_000;

/** How many `MemoryRedis`s there are in this process: their names tell them apart. */
let lastNumber = 0;

/** The capacity of a read-write lock, and the weight of a writer. */
const ALL_PERMITS = 2 ** 31;

/**
 * A Redis in memory, for tests. Give it as `redis` to as many `Holdfast`s as you like; each of them stands for one program. It runs the
 * scripts of holdfast, and no others.
 *
 * Its time is that of the process until `advance()` jumps ahead, for the server and all its clients. It serves one process, and one copy of
 * holdfast in it: code in another process, worker or test file has a server of its own.
 *
 * @example
 * ```ts
 * const redis = new MemoryRedis();
 * const holdfast = new Holdfast({ redis });
 * const hold = await holdfast.getLock('report').acquire({ lease: 60_000 });
 * await redis.advance(60_000);
 * console.log(hold.signal.aborted); // true
 * ```
 *
 * @group Testing
 */
export class MemoryRedis {
  readonly #clock: MemoryClock;
  readonly #network: WholeNetwork;
  readonly #server: MemoryServer;
  readonly #replicas: number;

  /**
   * Starts a server, which is up at once and has no keys. It reports an uptime of a day, so that a Redlock trusts it.
   *
   * @throws OptionError an option is unknown or out of range
   */
  constructor(options: MemoryRedisOptions = {}) {
    const known = ['replicas', 'timeOf'] as const;
    const { replicas, timeOf } = parseOptions('the options of new MemoryRedis()', options, known);
    this.#replicas = parseCount(replicas ?? 0, 'replicas', MOST_REPLICAS);
    if (timeOf !== undefined && !(timeOf instanceof MemoryRedis))
      throw invalid('timeOf', timeOf, 'a MemoryRedis of the same copy of holdfast');
    const clock = timeOf ? timeOf.#clock : new MemoryClock();
    this.#clock = clock;
    this.#network = new WholeNetwork(clock, () => {
      clock.stir();
    });
    const name = `MemoryRedis ${String(++lastNumber)}`;
    this.#server = new MemoryServer(clock, { name, replicaCount: this.#replicas });
  }

  /**
   * Jumps ahead in time, for this server and all its clients. Every renewal, expiry, message and time limit in between happens in order,
   * and the code that awaits it goes on before the next one happens. Timers that are not holdfast's, such as those of the code under test,
   * stay where they are. Resolves when all is done. Calls run one after another.
   *
   * @param ms - milliseconds, a whole number from 0 to 2^31-1
   * @throws OptionError `ms` is out of range
   */
  async advance(ms: number): Promise<void> {
    await this.#clock.advance(parseDuration(ms, 'ms', 0));
  }

  /** Cuts all connections, and refuses new ones until `up()`. Keys stay as they are, and leases run on. */
  down(): void {
    this.#server.down();
  }

  /** Lets clients connect again after `down()`. They try at least every 1.25 s. */
  up(): void {
    this.#server.up();
  }

  /**
   * Lets the next scripts run, but loses their replies: the connection is cut instead, so the client cannot know whether the script ran.
   * Everything that locks do is a script.
   *
   * @param count - of how many scripts, a whole number of at least 0; 0 calls it off. Default: 1
   * @throws OptionError `count` is out of range
   */
  loseReplies(count = 1): void {
    this.#server.loseReplies(parseCount(count, 'count'));
  }

  /**
   * Delays everything between clients and server from now on, in each direction. With more than half the `commandTimeout` of a `Holdfast`,
   * the server does not answer in time.
   *
   * @param ms - milliseconds, a whole number from 0 to 2^31-1; 0, as at first: no delay
   * @throws OptionError `ms` is out of range
   */
  delay(ms: number): void {
    this.#network.delayMs = parseDuration(ms, 'ms', 0);
  }

  /**
   * Keeps the replicas behind from now on: they acknowledge each write that much later, and a replica that takes over misses the newest
   * writes.
   *
   * @param ms - milliseconds, a whole number from 0 to 2^31-1; 0, as at first: not at all
   * @throws OptionError `ms` is out of range, or it has no replicas
   */
  lag(ms: number): void {
    this.#assertReplicated('lag()');
    this.#server.lagMs = parseDuration(ms, 'ms', 0);
  }

  /**
   * Restarts the server: all connections are cut, and its uptime is 0. If it was down, it is up again. Clients reconnect by themselves.
   *
   * @throws OptionError an option is unknown or not usable
   */
  restart(options: RestartOptions = {}): void {
    const { empty } = parseOptions('the options of restart()', options, ['empty']);
    this.#server.restart(parseBoolean(empty ?? false, 'empty'));
  }

  /**
   * Lets a replica take over, without the newest writes, and cuts all connections. So a lock that was acquired a moment ago may be free
   * again, although its holder relies on it. The new master has as many replicas as before.
   *
   * @throws OptionError an option is unknown or out of range, or it has no replicas
   */
  failover(options: FailoverOptions = {}): void {
    this.#assertReplicated('failover()');
    const { lose } = parseOptions('the options of failover()', options, ['lose']);
    const lost = lose === undefined ? undefined : parseCount(lose, 'lose', MOST_UNDONE);
    this.#server.failOver(lost);
  }

  /**
   * The owners that hold a lock of any kind now, as far as the server knows; empty: nobody.
   *
   * @param name - the lock's name, with the `keyPrefix` of its `Holdfast` before it if that has one
   * @throws OptionError `name` is not a string of at least one character
   */
  holders(name: string): MemoryHolder[] {
    const { keys } = this.#server;
    const key = parseText(name, 'name');
    const lock = keys.entry(key);
    if (!(lock?.value instanceof Map)) return [];
    const capacity = lock.value.get('capacity');
    const isReadWrite = Number(capacity) === ALL_PERMITS;
    const leases = capacity === undefined ? undefined : keys.sortedSet(new LockKeys(key).leases);
    const holders = [...lock.value]
      .filter(([field]) => field.includes(':'))
      .map(([ownerId, value]): MemoryHolder => {
        const count = Number.parseInt(value, 10);
        const access = count === ALL_PERMITS ? 'write' : 'read';
        const untilMs = capacity === undefined ? lock.untilMs : (leases?.score(ownerId) ?? 0);
        return {
          ownerId,
          count: isReadWrite ? 1 : count,
          access: isReadWrite ? access : undefined,
          remaining: untilMs - keys.nowMs,
        };
      });
    return holders.filter(({ remaining }) => remaining > 0);
  }

  /** The names of all keys that exist now, sorted: of locks, and of what belongs to them (queues, tokens, …). */
  keys(): string[] {
    return this.#server.keys.names;
  }

  /** The server as a client library, for `new Holdfast()`. @internal */
  [LIBRARY](): Library {
    this.#clock.clientCount++;
    return memoryLibrary(this.#server, this.#network);
  }

  #assertReplicated(what: string): void {
    if (this.#replicas > 0) return;
    throw new OptionError(`${what} needs a replica: new MemoryRedis({ replicas: 1 })`);
  }
}
