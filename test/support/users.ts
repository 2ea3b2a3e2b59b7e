// Users of Redis in tests: what one may do as the README says, who lacks a command, whose password changes, and what may be told of it.
import { Redis, type Cluster } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'vitest';
import {
  LockLostError,
  type Holdfast,
  type HoldfastOptions,
  type Lock,
  type Semaphore,
} from '../../src/index.js';
import type { RedisServer } from './redis-server.js';
import { eventually } from './time.js';
import { uniqueName } from './unique-name.js';

/** Well above what the steps take, and far below what a lease of the default length would. */
const PROMPTLY_MS = 8_000;

/** A user who may not do everything. */
export interface DeniedUser {
  readonly newClient: (options: Partial<HoldfastOptions>) => Holdfast;
  /** May do everything. */
  readonly admin: Redis | Cluster;
  readonly keyPrefix: string;
  /** Once the clients have connected. */
  readonly prepare?: (lockName: string) => Promise<void>;
}

/** Fails unless the command is named; returns the words. */
export async function whatIsTold(command: string, user: DeniedUser): Promise<string> {
  const { newClient, admin, keyPrefix, prepare } = user;
  const [container, subcommand] = command.split('|');
  // Redis 6.2 says of CLUSTER SLOTS: "the 'cluster' command or its subcommand".
  const pattern = subcommand
    ? new RegExp(`\\b${command.replace('|', '[| ]')}\\b|'${container}' command or its sub`, 'i')
    : new RegExp(`\\b${command}\\b`, 'i');
  await using clients = listenedTo(newClient);
  const { one, two, told } = clients;
  const tell = ({ message }: Error): void => {
    told.push(message);
  };
  const name = uniqueName('denied');
  await prepare?.(keyPrefix + name);
  const steps = [
    () => oneAfterTheOther(one.getLock(name), two.getLock(name)),
    () => oneAfterTheOther(one.getFairLock(name), two.getFairLock(name)),
    () => one.getLock(name).forceUnlock(),
    () => permits(one.getSemaphore(name, { permits: 1 }), two.getSemaphore(name, { permits: 1 })),
    () => one.getFencedLock(name).withLock({ wait: 1_000 }, () => undefined),
    () => one.run(() => one.getLock(name).getHoldCount()),
    () => one.getFairLock(name).getWaiters(),
    () => one.getLock(name).remainTimeToLive(),
    () => one.getLock(name).isLocked(),
    () => conflict(one.getLock(name)),
  ];
  const found = (): string | undefined => told.find((message) => pattern.test(message));
  for (const step of steps) if (found() === undefined) await step().catch(tell);
  await expect
    .poll(found, { timeout: PROMPTLY_MS, message: told.join('\n') })
    .toEqual(expect.any(String));
  await admin.del(keyPrefix + name);
  return found() ?? '';

  async function conflict(lock: Lock): Promise<void> {
    await admin.set(keyPrefix + lock.name, 'not a lock', 'PX', 10_000);
    await lock.acquire({ wait: 500 });
  }
}

/** Two clients of the user, and what their `error` events say; the array grows. */
function listenedTo(newClient: DeniedUser['newClient']): AsyncDisposable & {
  readonly one: Holdfast;
  readonly two: Holdfast;
  readonly told: string[];
} {
  const options = { lockWatchdogTimeout: 1_500, commandTimeout: 1_000 };
  const [one, two] = [newClient(options), newClient(options)];
  const told: string[] = [];
  for (const client of [one, two]) client.on('error', ({ error }) => told.push(error.message));
  const close = async (): Promise<void> => {
    await Promise.all([one.close(), two.close()]);
  };
  return { one, two, told, [Symbol.asyncDispose]: close };
}

/** Fails unless the user can do with such a lock all that there is to do; returns what `error` events have told. */
export async function isUsable(
  { newClient, admin, keyPrefix }: DeniedUser,
  lockOf: (client: Holdfast, name: string) => Lock,
): Promise<readonly string[]> {
  await using clients = listenedTo(newClient);
  const { one, two, told } = clients;
  const name = uniqueName('permitted');
  const lock = lockOf(one, name);
  await oneAfterTheOther(lock, lockOf(two, name));
  expect(await lock.isLocked()).toBe(false);
  expect(await lock.remainTimeToLive()).toBe(-2);
  expect(await one.run(() => lock.getHoldCount())).toBe(0);
  await admin.del(`redisson_lock_token:{${keyPrefix}${name}}`);
  return told;
}

/** Two callers: one holds the permits while the other waits for them. */
async function permits(first: Semaphore, second: Semaphore): Promise<void> {
  await using hold = await first.acquire({ wait: 1_000 });
  await first.availablePermits();
  const waiting = second.withPermits({ wait: 2_000 }, () => undefined);
  await Promise.all([waiting, sleep(100).then(() => hold.release())]);
}

/** Two callers: one holds, re-enters and extends, while the other waits for it. */
async function oneAfterTheOther(first: Lock, second: Lock): Promise<void> {
  await using hold = await first.acquire({ wait: 1_000 });
  await hold.run(() => first.withLock(() => undefined));
  await hold.extend(5_000);
  const waiting = second.withLock({ wait: 2_000, lease: 700 }, () => sleep(100));
  await Promise.all([waiting, sleep(100).then(() => hold.release())]);
  await first
    .withLock(() => second.forceUnlock().then(() => sleep(600)))
    .catch((error: unknown) => {
      if (!(error instanceof LockLostError)) throw error;
    });
}

// The permissions that the docs say a user needs: two lines, as arguments of ACL SETUSER.

const PAGE = new URL('../../docs/how-to/permissions.md', import.meta.url);

/** The arguments behind ACL SETUSER <user>, for a key prefix of one's own. */
export function documentedPermissions(kind: 'server' | 'cluster', keyPrefix: string): string[] {
  const lines = [...readFileSync(PAGE, 'utf8').matchAll(/^ACL SETUSER app (.*(?:\n {2}.*)*)/gm)];
  const [, rules = ''] = lines[kind === 'server' ? 0 : 1] ?? [];
  return rules.split(/\s+/).map((rule) => rule.replace('app:', keyPrefix));
}

/** The commands among such rules, in lower case: "hset", "pubsub|numsub". */
export function permittedCommands(rules: readonly string[]): string[] {
  return rules.filter((rule) => /^\+[a-z]/.test(rule)).map((rule) => rule.slice(1));
}

// A user of some servers whose password is changed, which ends all connections that it has.

type Addressed = Pick<RedisServer, 'url'>;

export class ChangingUser implements AsyncDisposable {
  readonly username = 'app';
  /** All that it has had so far, the last one included. */
  readonly passwords: string[] = [];
  readonly #admins: readonly Redis[];

  private constructor(servers: readonly Addressed[]) {
    this.#admins = servers.map(({ url }) => new Redis(url));
  }

  static async on(...servers: Addressed[]): Promise<ChangingUser> {
    const user = new ChangingUser(servers);
    await user.#all((redis) =>
      redis.acl('SETUSER', user.username, 'on', 'resetpass', '~*', '&*', '+@all'),
    );
    await user.setPassword(user.newPassword());
    return user;
  }

  get password(): string {
    return this.passwords.at(-1)!;
  }

  newPassword(): string {
    const password = `secret-${randomBytes(8).toString('hex')}`;
    this.passwords.push(password);
    return password;
  }

  async setPassword(password: string): Promise<void> {
    await this.#all((redis) => redis.acl('SETUSER', this.username, 'resetpass', `>${password}`));
  }

  async kill(): Promise<void> {
    await this.#all((redis) => redis.call('CLIENT', 'KILL', 'USER', this.username));
  }

  /** Resolves when some connection of the user subscribes that is none of those of `before`. */
  async subscribedAnew(before: readonly string[]): Promise<void> {
    await eventually(async () => {
      const anew = (await this.subscribers()).filter((id) => !before.includes(id));
      expect(anew).not.toEqual([]);
    });
  }

  /** Its connections that have subscribed to something. */
  subscribers(): Promise<string[]> {
    return this.connections('TYPE', 'pubsub');
  }

  /** Its connections; `which`: arguments of CLIENT LIST. */
  async connections(...which: readonly string[]): Promise<string[]> {
    const lists = await this.#all((redis) => redis.call('CLIENT', 'LIST', ...which));
    return lists.flatMap((list, index) =>
      String(list)
        .split('\n')
        .filter((line) => line.includes(` user=${this.username} `))
        .map((line) => `${index} ${/^id=\d+/.exec(line)?.[0] ?? ''}`),
    );
  }

  #all(ask: (redis: Redis) => Promise<unknown>): Promise<unknown[]> {
    return Promise.all(this.#admins.map(ask));
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const redis of this.#admins) redis.disconnect();
    return Promise.resolve();
  }
}

// Everything that a value says, however it is looked at: messages, stacks, causes, inspection to the bottom, JSON.

/** All texts of the value and of what it carries, whether or not it would be printed. */
export function allWords(value: unknown): string {
  const words: string[] = [inspect(value, { depth: Infinity, showHidden: true, getters: true })];
  const seen = new Set<unknown>();
  const collect = (part: unknown): void => {
    if (typeof part === 'string') words.push(part);
    if (typeof part !== 'object' || part === null || seen.has(part)) return;
    seen.add(part);
    words.push(json(part));
    if (part instanceof Error) words.push(String(part));
    for (const key of Reflect.ownKeys(part)) collect((part as Record<PropertyKey, unknown>)[key]);
  };
  collect(value);
  return words.join('\n');
}

function json(value: object): string {
  const above = new Set<unknown>();
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === 'bigint') return String(part);
    if (typeof part !== 'object' || part === null) return part;
    if (above.has(part)) return '(again)';
    above.add(part);
    return part;
  });
}
