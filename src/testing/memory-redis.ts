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
   * How many replicas it has: they acknowledge writes, for the option `replicas` of a `Holdfast`, and one of them takes over in a
   * `failover()`. Default: 0.
   */
  replicas?: number | undefined;
  /**
   * Another one whose time it shares: `advance()` moves both, whichever it is called of. For a Redlock or MultiLock over several. Default: none, it has a
   * time of its own.
   */
  timeOf?: MemoryRedis | undefined;
}

/**
 * Options of `MemoryRedis.restart()`.
 *
 * @group Testing
 */
export interface RestartOptions {
  /** Whether all keys are gone. Default: false, they are as they were. */
  empty?: boolean | undefined;
}

/**
 * Options of `MemoryRedis.failover()`.
 *
 * @group Testing
 */
export interface FailoverOptions {
  /**
   * How many of the newest writes the replica that takes over has not got, from 0 to 1,000; a write is a command or script that has changed
   * something, such as an acquisition, a release or a renewal. Default: those of the time for which `lag()` keeps the replicas behind.
   */
  lose?: number | undefined;
}

/**
 * Somebody who holds a lock.
 *
 * @group Testing
 */
export interface MemoryHolder {
  /** The `ownerId` of the hold: `<clientId>:<n>`. */
  readonly ownerId: string;
  /**
   * How often the lock is held by this owner, as far as the server knows: 0 for a moment when a fair lock was handed over. Of a semaphore, how many
   * permits are held.
   */
  readonly count: number;
  /** How the owner holds a read-write lock; undefined: it is another lock. */
  readonly access: 'read' | 'write' | undefined;
  /** For how long the server keeps it if nobody renews it, in milliseconds; `Infinity`: for ever. */
  readonly remaining: number;
}

/** More replicas than any server has. */
const MOST_REPLICAS = 1_000;

/** How many there are in this process: their names tell them apart. */
let lastNumber = 0;

/** The capacity of a read-write lock, and the weight of a writer. */
const ALL_PERMITS = 2 ** 31;

/**
 * A Redis in memory, for tests: give it as `redis` to as many `Holdfast`s as you like, each of which then stands for one program. It runs the scripts of
 * holdfast itself, and no others.
 *
 * Its time is that of the process until `advance()` jumps ahead, for itself and for all its clients. It is for one process, and for one copy of it:
 * what runs in another process, worker or test file has a server of its own.
 *
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
   * It is up at once, with no keys. It says that it has been up for a day, so that a Redlock trusts it.
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
   * Jumps ahead by so many milliseconds, for this server and all its clients. Every renewal, expiry, message and time limit in between comes in its
   * turn, and what awaits it goes on, before the next one comes. Timers that are not of holdfast, such as those of the code under test, stay where they
   * are. Resolves when all that is done. Calls go one after another.
   *
   * @param ms - from 0 to 2^31-1
   * @throws OptionError `ms` is out of range
   */
  async advance(ms: number): Promise<void> {
    await this.#clock.advance(parseDuration(ms, 'ms', 0));
  }

  /** Cuts all connections, and refuses new ones until `up()`. Keys stay as they are, and leases run on. */
  down(): void {
    this.#server.down();
  }

  /** Lets clients connect again after `down()`. They try so every 1.25 s at the latest. */
  up(): void {
    this.#server.up();
  }

  /**
   * The next so many scripts run, but their replies are lost: the connection is cut instead. Whoever sent one cannot know whether it ran. All that locks
   * do is a script; 0 calls it off.
   *
   * @param count - default: 1
   * @throws OptionError `count` is out of range
   */
  loseReplies(count = 1): void {
    this.#server.loseReplies(parseCount(count, 'count'));
  }

  /**
   * From now on whatever a client sends takes so long to arrive, and likewise what the server says to a client. What is longer than half the
   * `commandTimeout` of a `Holdfast` is a server that does not answer in time.
   *
   * @param ms - in milliseconds; 0, as at first: no time
   * @throws OptionError `ms` is out of range
   */
  delay(ms: number): void {
    this.#network.delayMs = parseDuration(ms, 'ms', 0);
  }

  /**
   * From now on the replicas are so far behind: they acknowledge each write that much later, and one that takes over has not got the newest ones.
   *
   * @param ms - in milliseconds; 0, as at first: not at all
   * @throws OptionError `ms` is out of range, or it has no replicas
   */
  lag(ms: number): void {
    this.#assertReplicated('lag()');
    this.#server.lagMs = parseDuration(ms, 'ms', 0);
  }

  /**
   * Restarts the server: all connections are cut, and it has been up for no time. It is up again if it was down. Clients connect again by
   * themselves.
   *
   * @throws OptionError an option is unknown or not usable
   */
  restart(options: RestartOptions = {}): void {
    const { empty } = parseOptions('the options of restart()', options, ['empty']);
    this.#server.restart(parseBoolean(empty ?? false, 'empty'));
  }

  /**
   * A replica takes over, without the newest writes, and all connections are cut. So a lock that was acquired a moment ago may be free again, although its
   * holder relies on it. It has as many replicas as before.
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
   * Who holds a lock of any kind now, as the server knows it; empty: nobody.
   *
   * @param name - the lock's name, behind the `keyPrefix` of its `Holdfast` if that has one
   * @throws OptionError `name` is no text
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

  /** The names of all keys that there are now, sorted: of locks, and of what belongs to them (lines, tokens …). */
  keys(): string[] {
    return this.#server.keys.names;
  }

  /** As a client library, for `new Holdfast()`. @internal */
  [LIBRARY](): Library {
    this.#clock.clientCount++;
    return memoryLibrary(this.#server, this.#network);
  }

  #assertReplicated(what: string): void {
    if (this.#replicas > 0) return;
    throw new OptionError(`${what} needs a replica: new MemoryRedis({ replicas: 1 })`);
  }
}
