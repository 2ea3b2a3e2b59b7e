// Redisson itself, in a Java process of its own, driven by test/redisson/src/main/java/holdfast/RedissonDriver.java; and the
// servers that it shares with holdfast.
import { Cluster, Redis } from 'ioredis';
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { inject } from 'vitest';
import type { Holdfast, HoldfastOptions, RedisSource } from '../../src/index.js';
import { startChild, type Child } from './child.js';
import { newClient } from './clients.js';
import { listenedOn } from './cluster.js';
import { startRedis } from './redis-server.js';
import { startCluster } from './redis-topologies.js';
import { eventually } from './time.js';

/** Why these tests cannot run here, or undefined. */
export const redissonUnavailable: string | undefined =
  inject('redissonClasspath') === '' ? 'needs java and mvn' : undefined;

export interface RedissonOptions {
  /** Redisson’s `lockWatchdogTimeout`; so long by default that nothing but a message wakes a waiter. */
  readonly watchdogMs?: number;
  /** Redisson’s `shardedSubscriptionMode` OFF. */
  readonly hasClassicChannels?: boolean;
}

/** Fast to start, small: tests run a few of them. */
const JVM = ['-Xmx192m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

export function startRedisson(): Redisson {
  return new Redisson();
}

/** A Java process with any number of Redisson clients. */
export class Redisson implements AsyncDisposable {
  readonly #process: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #exit: Promise<unknown>;
  readonly #answers = new Map<number, (answer: Answer) => void>();
  #log = '';
  #lastId = 0;
  #clientCount = 0;

  constructor() {
    const args = [...JVM, '-cp', inject('redissonClasspath'), 'holdfast.RedissonDriver'];
    this.#process = spawn('java', args, { stdio: 'pipe' });
    this.#exit = once(this.#process, 'exit').then(() => {
      for (const id of [...this.#answers.keys()])
        this.#answered({ id, error: 'Ended', message: `the Java process ended\n${this.#log}` });
    });
    this.#process.stdin.on('error', () => undefined); // it was killed
    this.#process.stderr.on('data', (text: Buffer) => (this.#log += text.toString()));
    createInterface(this.#process.stdout).on('line', (line) => {
      this.#answered(JSON.parse(line) as Answer);
    });
  }

  /** A client of a server, or of a cluster if several nodes are given. */
  async connect(
    nodes: readonly { host: string; port: number }[],
    { watchdogMs = 60_000, hasClassicChannels = false }: RedissonOptions = {},
  ): Promise<RedissonClient> {
    const client = `c${++this.#clientCount}`;
    const addresses = nodes.map(({ host, port }) => `redis://${host}:${port}`);
    const isCluster = nodes.length > 1;
    const where = { client, nodes: addresses, isCluster, hasClassicChannels, watchdogMs };
    const id = await this.ask('main', 'connect', where);
    return new RedissonClient(this, client, id as string);
  }

  /** Has one thread of the Java process do something. */
  async ask(thread: string, op: string, rest: object): Promise<unknown> {
    const id = ++this.#lastId;
    const answer = await new Promise<Answer>((resolve) => {
      this.#answers.set(id, resolve);
      this.#process.stdin.write(`${JSON.stringify({ id, thread, op, ...rest })}\n`);
    });
    if (answer.error === undefined) return answer.result;
    throw new RedissonError(answer.error, answer.message ?? '');
  }

  /** Ends it at once, as a crash does (SIGKILL). */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #answered(answer: Answer): void {
    this.#answers.get(answer.id)?.(answer);
    this.#answers.delete(answer.id);
  }
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
  readonly message?: string;
}

/** What a Java call threw; `name` is the exception’s class. */
class RedissonError extends Error {
  override readonly name: string;

  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}

// Redisson's locks as a test calls them; the calls are carried out in the Java process of redisson.ts.

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

// The servers that holdfast and Redisson share: one alone, or a cluster; and how each side is told where they are.

export class SharedServers implements AsyncDisposable {
  /** What Redisson is told. */
  readonly nodes: readonly { host: string; port: number }[];
  /** To look with; open. */
  readonly redis: Redis | Cluster;
  readonly #masters: readonly Redis[];
  readonly #servers: AsyncDisposable;

  constructor(
    servers: AsyncDisposable,
    nodes: SharedServers['nodes'],
    redis: Redis | Cluster,
    masters: readonly Redis[],
  ) {
    this.#servers = servers;
    this.nodes = nodes;
    this.redis = redis;
    this.#masters = masters;
  }

  static start(isCluster: boolean): Promise<SharedServers> {
    return isCluster ? SharedServers.#startCluster() : SharedServers.#startAlone();
  }

  static async #startAlone(): Promise<SharedServers> {
    const server = await startRedis();
    const redis = new Redis(server.url);
    await redis.ping();
    return new SharedServers(server, [server], redis, [redis]);
  }

  static async #startCluster(): Promise<SharedServers> {
    const servers = await startCluster();
    const redis = new Cluster(servers.nodes);
    const masters = servers.masters.map(({ url }) => new Redis(url));
    await Promise.all([redis, ...masters].map((connection) => connection.ping()));
    await Promise.all(redis.nodes('master').map((node) => node.ping()));
    return new SharedServers(servers, servers.nodes, redis, masters);
  }

  get isCluster(): boolean {
    return this.redis instanceof Cluster;
  }

  /** A client of ours, whose waiters nothing but a message wakes; the test closes it. */
  newHoldfast(options: Partial<HoldfastOptions> = {}): Holdfast {
    const redis: RedisSource = this.redis;
    return newClient({ redis, lockWatchdogTimeout: 60_000, commandTimeout: 10_000, ...options });
  }

  /** One in a process of its own: test/support/children/lock-user.ts. */
  startHoldfastChild(options: Partial<HoldfastOptions>): Child {
    const [first] = this.nodes;
    return startChild('lock-user.ts', {
      HOLDFAST_TEST_REDIS_URL: `redis://${first!.host}:${first!.port}`,
      HOLDFAST_TEST_CLUSTER: this.isCluster ? JSON.stringify(this.nodes) : '',
      HOLDFAST_TEST_OPTIONS: JSON.stringify({ commandTimeout: 10_000, ...options }),
    });
  }

  /** Resolves when somebody listens for the release of a lock, and had time for the try that follows: now a message has to come. */
  async isListenedFor(name: string): Promise<void> {
    await eventually(async () => {
      for (const kind of ['sharded', 'classic'] as const)
        if ((await listenedOn(this.#masters, kind, name)).length > 0) return;
      throw new Error(`nobody listens for the release of "${name}"`);
    });
    await sleep(100);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connection of [this.redis, ...this.#masters]) connection.disconnect();
    await this.#servers[Symbol.asyncDispose]();
  }
}
