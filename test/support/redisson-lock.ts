// Redisson's locks as a test calls them; the calls are carried out in the Java process of redisson.ts.
import type { Redisson } from './redisson.js';

/** What one lock of Redisson's is made of. */
type LockKind = 'plain' | 'fair' | 'fenced' | 'spin' | 'read' | 'write' | 'multi' | 'red';

interface Member {
  readonly client: string;
  readonly name: string;
}

export class RedissonClient {
  readonly #java: Redisson;
  readonly #key: string;
  /** What the owners of this client begin with. */
  readonly id: string;

  constructor(java: Redisson, key: string, id: string) {
    this.#java = java;
    this.#key = key;
    this.id = id;
  }

  getLock(name: string, kind: LockKind = 'plain'): RedissonLock {
    return new RedissonLock(this.#java, kind, [this.#member(name)]);
  }

  getMultiLock(...names: string[]): RedissonLock {
    return new RedissonLock(
      this.#java,
      'multi',
      names.map((name) => this.#member(name)),
    );
  }

  /** A RedissonRedLock of one name on several clients. */
  static getRedLock(name: string, ...clients: RedissonClient[]): RedissonLock {
    const members = clients.map((client) => client.#member(name));
    return new RedissonLock(clients[0]!.#java, 'red', members);
  }

  #member(name: string): Member {
    return { client: this.#key, name };
  }
}

/** Times in milliseconds; each call is of the thread that it names, or of one that all share. */
export class RedissonLock {
  readonly #java: Redisson;
  readonly #kind: LockKind;
  readonly #members: readonly Member[];
  readonly #thread: string;

  constructor(java: Redisson, kind: LockKind, members: readonly Member[], thread = 'main') {
    this.#java = java;
    this.#kind = kind;
    this.#members = members;
    this.#thread = thread;
  }

  /** The same lock, as another thread sees it. */
  of(thread: string): RedissonLock {
    return new RedissonLock(this.#java, this.#kind, this.#members, thread);
  }

  async lock(leaseMs = -1): Promise<void> {
    await this.#ask('lock', { leaseMs });
  }

  async tryLock(waitMs = 0, leaseMs = -1): Promise<boolean> {
    return (await this.#ask('tryLock', { waitMs, leaseMs })) as boolean;
  }

  async unlock(): Promise<void> {
    await this.#ask('unlock');
  }

  /** `lockAsync(number)`, `unlockAsync(number)`: with a number of one’s own for the thread’s. */
  async lockAs(ownerNumber: number): Promise<void> {
    await this.#ask('lockAs', { ownerNumber });
  }

  async unlockAs(ownerNumber: number): Promise<void> {
    await this.#ask('unlockAs', { ownerNumber });
  }

  async forceUnlock(): Promise<boolean> {
    return (await this.#ask('forceUnlock')) as boolean;
  }

  async isLocked(): Promise<boolean> {
    return (await this.#ask('isLocked')) as boolean;
  }

  async isHeldByCurrentThread(): Promise<boolean> {
    return (await this.#ask('isHeldByCurrentThread')) as boolean;
  }

  async getHoldCount(): Promise<number> {
    return (await this.#ask('getHoldCount')) as number;
  }

  async remainTimeToLive(): Promise<number> {
    return (await this.#ask('remainTimeToLive')) as number;
  }

  /** Of a fenced lock: the last token that was given to anybody. */
  async getToken(): Promise<bigint | undefined> {
    return asToken(await this.#ask('getToken'));
  }

  async lockAndGetToken(): Promise<bigint | undefined> {
    return asToken(await this.#ask('lockAndGetToken'));
  }

  async tryLockAndGetToken(waitMs = 0): Promise<bigint | undefined> {
    return asToken(await this.#ask('tryLockAndGetToken', { waitMs }));
  }

  /** Counts up a key, `rounds` times, each time under the lock: reads, waits a moment, writes. */
  async count(counter: string, rounds: number): Promise<void> {
    await this.#ask('count', { counter, rounds });
  }

  #ask(op: string, rest: object = {}): Promise<unknown> {
    return this.#java.ask(this.#thread, op, { kind: this.#kind, members: this.#members, ...rest });
  }
}

/** (A token is exact as a number of JSON.) */
function asToken(result: unknown): bigint | undefined {
  return result === null ? undefined : BigInt(result as number);
}
