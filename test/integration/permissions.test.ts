// A user with just the permissions that the README names: all kinds of locks work. With one of them missing, an error or an
// event says which.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast, LockLostError, type HoldfastOptions, type Lock } from '../../src/index.js';
import { lockContract } from '../support/lock-contract.js';
import { permittedCommands, readmePermissions } from '../support/permissions.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { uniqueName } from '../support/unique-name.js';

const PREFIX = 'app-under-test:';
const RULES = readmePermissions('server', PREFIX).filter((rule) => !rule.startsWith('>'));

let server: RedisServer;
let admin: Redis;

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
  await admin.call('ACL', 'SETUSER', 'app', 'reset', '>secret', ...RULES);
});

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

function clientOf(username: string, options: Partial<HoldfastOptions> = {}): Holdfast {
  const { host, port } = server;
  const redis = { host, port, username, password: 'secret' };
  return new Holdfast({ redis, keyPrefix: PREFIX, ...options });
}

lockContract('reentrant lock of a user with just its permissions', {
  className: 'Lock',
  newClient: (options) => clientOf('app', options),
  getLock: (client, name) => client.getLock(name),
});

lockContract('fair lock of a user with just its permissions', {
  className: 'FairLock',
  newClient: (options) => clientOf('app', options),
  getLock: (client, name) => client.getFairLock(name),
});

describe('a user who lacks', () => {
  /**
   * What can be done without: the server's version is asked otherwise, a waiter that died is noticed later, a
   * KeyConflictError does not say what is there, and a PING that is refused is answered, too.
   */
  const DISPENSABLE = ['info', 'pubsub|numsub', 'type', 'ping'];

  it.each(permittedCommands(RULES).filter((command) => !DISPENSABLE.includes(command)))(
    '%s is told so by name',
    async (command) => {
      const username = `without-${command}`;
      const without = RULES.filter((rule) => rule !== `+${command}`);
      await admin.call('ACL', 'SETUSER', username, 'reset', '>secret', ...without);
      await admin.script('FLUSH'); // so that EVAL is needed, too
      const told = await toldOf(username, new RegExp(`\\b${command}\\b`, 'i'));
      expect(told).toEqual([expect.any(String)]);
    },
  );
});

/** The first of what errors and events say that matches, while a user goes through what locks can do. */
async function toldOf(username: string, pattern: RegExp): Promise<string[]> {
  const told: string[] = [];
  const tell = ({ message }: Error): void => {
    told.push(message);
  };
  const options = { lockWatchdogTimeout: 1_500, commandTimeout: 1_000 };
  await using one = clientOf(username, options);
  await using two = clientOf(username, options);
  for (const client of [one, two])
    client.on('error', ({ error }) => {
      tell(error);
    });
  const name = uniqueName('denied');
  const steps = [
    () => oneAfterTheOther(one.getLock(name), two.getLock(name)),
    () => oneAfterTheOther(one.getFairLock(name), two.getFairLock(name)),
    () => one.getLock(name).forceUnlock(),
    () => one.run(() => one.getLock(name).getHoldCount()),
    () => one.getFairLock(name).getWaiters(),
    () => one.getLock(name).remainTimeToLive(),
    () => one.getLock(name).isLocked(),
    () => conflict(one.getLock(name)),
  ];
  for (const step of steps) await step().catch(tell);
  const found = (): string[] => told.filter((message) => pattern.test(message)).slice(0, 1);
  await expect.poll(found, { timeout: 8_000, message: told.join('\n') }).toHaveLength(1);
  await admin.del(PREFIX + name);
  return found();
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

async function conflict(lock: Lock): Promise<void> {
  await admin.set(PREFIX + lock.name, 'not a lock', 'PX', 10_000);
  await lock.acquire({ wait: 500 });
}
