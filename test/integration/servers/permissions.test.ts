// A user with just the permissions that the README names: all kinds of locks work. With one of them missing, an error or an
// event says which.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { permittedCommands, readmePermissions, whatIsTold } from '../../support/users.js';
import { counterOf, FENCED_KINDS } from '../../support/fenced-locks.js';
import { lockContracts } from '../../support/lock-contract.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

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

lockContracts(
  (options) => clientOf('app', options),
  ['reentrant lock', 'fair lock', 'fenced lock', 'fenced fair lock'],
  ' of a user with just its permissions',
);

describe('a user who lacks', () => {
  /**
   * What can be done without: the server's version is asked otherwise, scripts are sent in full, a waiter that died is noticed later, a
   * KeyConflictError does not say what is there, and a PING that is refused is answered, too.
   */
  const DISPENSABLE = ['info', 'script|load', 'pubsub|numsub', 'type', 'ping'];

  it.each(permittedCommands(RULES).filter((command) => !DISPENSABLE.includes(command)))(
    '%s is told so by name',
    async (command) => {
      const username = `without-${command}`;
      // Nor may it load scripts, so that EVAL is needed, too.
      const without = RULES.filter((rule) => ![`+${command}`, '+script|load'].includes(rule));
      await admin.call('ACL', 'SETUSER', username, 'reset', '>secret', ...without);
      await admin.script('FLUSH');
      const newClient = (options: Partial<HoldfastOptions>): Holdfast =>
        clientOf(username, options);
      await whatIsTold(command, { newClient, admin, keyPrefix: PREFIX });
    },
  );

  describe('the keys of the last fencing tokens', () => {
    const withoutKeys = RULES.filter((rule) => !rule.startsWith('~redisson_lock_token'));
    const refusal = (name: string, script: string): RegExp =>
      new RegExp(
        `^lock "${name}": NOPERM this user has no permission for one of the keys .*"${counterOf(PREFIX + name)}".*, which ${script}.lua needs$`,
      );

    beforeAll(async () => {
      const rules = ['reset', '>secret', ...withoutKeys];
      await admin.call('ACL', 'SETUSER', 'without-counters', ...rules);
    });

    it.each([
      ...FENCED_KINDS,
      { title: 'a fenced lock whose calls are gathered', options: {}, script: 'acquire' },
    ])(
      'is told that one of the keys of $title is, and nothing is changed',
      async ({ title, options }) => {
        await using client = clientOf('without-counters');
        const isGathered = title.includes('gathered');
        const names = Array.from({ length: isGathered ? 30 : 1 }, () => uniqueName());
        const script = 'fair' in options ? 'join' : 'acquire';
        const acquire = (name: string): Promise<unknown> =>
          rejectionOf(client.getFencedLock(name, options).acquire({ wait: 5_000 }));
        const errors = await Promise.all(names.map(acquire));
        for (const [index, name] of names.entries())
          expect(errors[index]).toMatchObject({
            code: 'REDIS_UNAVAILABLE',
            lockName: name,
            message: expect.stringMatching(refusal(name, script)) as string,
          });
        for (const name of names)
          expect(await admin.exists(PREFIX + name, counterOf(PREFIX + name))).toBe(0);
      },
    );

    it('is told that one of the keys of a fenced Redlock is, and nothing is left', async () => {
      await using client = clientOf('without-counters');
      const name = uniqueName();
      const lock = client.getRedLock(client.getFencedLock(name), {
        nodeTimeout: 2_000,
        restartGuard: 1,
      });
      expect(await rejectionOf(lock.acquire({ wait: 10_000 }))).toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        message: expect.stringMatching(refusal(name, 'vote')) as string,
      });
      expect(await admin.exists(PREFIX + name, counterOf(PREFIX + name))).toBe(0);
    });

    it('that it may only read is told as one of those that it may not write', async ({ skip }) => {
      const mayRead = ['reset', '>secret', ...withoutKeys, '%R~redisson_lock_token:*'];
      const isKnown = await admin.call('ACL', 'SETUSER', 'readers', ...mayRead).catch(() => 'not');
      skip(isKnown === 'not', 'it takes ACLs that tell reading from writing, of Redis 7');
      await using client = clientOf('readers');
      const lock = client.getFencedLock(uniqueName());
      const error = await rejectionOf(lock.acquire({ wait: 2_000 }));
      expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      expect((error as Error).message).toMatch(refusal(lock.name, 'acquire'));
      expect(await admin.exists(PREFIX + lock.name)).toBe(0);
    });

    it('with replicas to acknowledge it, too', async () => {
      await admin.call('ACL', 'SETUSER', 'without-counters', '+wait');
      await using client = clientOf('without-counters', { replicas: 1 });
      const lock = client.getFencedLock(uniqueName());
      expect(await rejectionOf(lock.acquire({ wait: 5_000 }))).toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        message: expect.stringMatching(refusal(lock.name, 'acquire')) as string,
      });
    });
  });

  describe.each(FENCED_KINDS)('what $title takes', ({ options }) => {
    // Before Redis 7.2 a script says so itself of what it runs only after it has written.
    it.each([
      ['get', 'GET'],
      ['time', 'TIME'],
      ['pttl', 'PTTL'],
      ['set', '(\\w+ or )*SET( or \\w+)*'],
    ])('%s is told so by name, and nothing is changed', async (command, named) => {
      const username = `without-${command}-for-tokens`;
      const without = RULES.filter((rule) => rule !== `+${command}`);
      await admin.call('ACL', 'SETUSER', username, 'reset', '>secret', ...without);
      await using client = clientOf(username);
      const lock = client.getFencedLock(uniqueName(), options);
      for (const call of [() => lock.acquire({ wait: 2_000 }), () => lock.tryLock()])
        expect(await rejectionOf(call())).toMatchObject({
          code: 'REDIS_UNAVAILABLE',
          message: expect.stringMatching(
            new RegExp(`'${command}' command|no permission for ${named}, which`),
          ) as string,
        });
      expect(await admin.exists(PREFIX + lock.name)).toBe(0);
      expect(await admin.exists(counterOf(PREFIX + lock.name))).toBe(0);
    });
  });
});
