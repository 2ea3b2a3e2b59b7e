// The part of the driver contract about commands: scripts, how replies are read, what a failure is.
import { Redis } from 'ioredis';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { failureKind, isReply, isUnknownScript } from '../../src/redis/failure.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import type { DriverKind } from './driver-contract.js';
import { fateOf, opened, readyClient, type OpenedClient } from './driver-heard.js';
import { rejectionOf } from './clients.js';
import { eventually } from './eventually.js';
import { socketWrites } from './socket-writes.js';
import { uniqueName } from './unique-name.js';

export function commandTests({ toServer }: DriverKind): void {
  let one: OpenedClient;

  beforeEach(async () => {
    one = await readyClient(toServer(inject('redisUrl')));
  });

  afterEach(async () => {
    await one.client.close();
  });

  describe('a script', () => {
    it('that the server does not know fails as such; sent in full it runs, and is known by its hash', async () => {
      const source = `return 'of ${uniqueName()}: ' .. KEYS[1] .. ARGV[1]`;
      const sha1 = (await one.ask('eval', 'return redis.sha1hex(ARGV[1])', 0, source)) as string;
      const failure = await rejectionOf(one.ask('evalsha', sha1, 1, 'k', 'a'));
      expect(isUnknownScript(failure)).toBe(true);
      expect(await one.ask('eval', source, 1, 'k', 'a')).toMatch(/^of .*: ka$/);
      expect(await one.ask('evalsha', sha1, 1, 'k', 'a')).toMatch(/^of .*: ka$/);
    });

    it('of the library runs', async () => {
      const { source } = scripts.acquire;
      const name = uniqueName();
      expect(await one.ask('eval', source, 1, name, 'me:1', 60_000)).toBe(1);
      expect(await one.ask('eval', source, 1, name, 'you:1', 60_000)).toEqual([
        'me:1',
        expect.any(Number),
      ]);
      await one.ask('del', name);
    });
  });

  describe('a reply', () => {
    it.each([
      ['an integer', 'return 42', 42],
      ['a negative one', 'return -2', -2],
      ['a large one', 'return 4503599627370497', 2 ** 52 + 1],
      ['a string', "return 'text'", 'text'],
      ['an empty one', "return ''", ''],
      ['one of digits', "return '42'", '42'],
      ['one beyond ASCII', "return 'Zürich ✓'", 'Zürich ✓'],
      ['a status', "return redis.status_reply('FINE')", 'FINE'],
      ['nil', 'return false', null],
      ['an array', "return {1, 'two', {3, false}, {}}", [1, 'two', [3, null], []]],
    ])('%s', async (_what, source, reply) => {
      expect(await one.ask('eval', source, 0)).toEqual(reply);
    });

    it('of a plain command', async () => {
      const name = uniqueName();
      expect(await one.ask('exists', name)).toBe(0);
      expect(await one.ask('hget', name, 'field')).toBeNull();
      expect(await one.ask('pttl', name)).toBe(-2);
      expect(await one.ask('type', name)).toBe('none');
      expect(await one.ask('info', 'server')).toMatch(/^redis_version:\d/m);
    });
  });

  it('an argument that is a number goes as its digits', async () => {
    expect(await one.ask('eval', 'return ARGV', 0, 30_000, -1)).toEqual(['30000', '-1']);
  });

  it('what is gathered in one turn is written at once', async () => {
    const writes = await socketWrites(async () => {
      one.client.gather();
      const sent = ['a', 'b', 'c'].map((echo) => one.ask('ping', echo));
      expect(await Promise.all(sent)).toEqual(['a', 'b', 'c']);
    });
    expect(writes.filter((text) => /ping/i.test(text))).toHaveLength(1);
  });

  it('what was gathered is written before the end of the turn when that is asked for', async () => {
    const writes = await socketWrites(async () => {
      one.client.gather();
      const first = ['a', 'b'].map((echo) => one.ask('ping', echo));
      one.client.flush();
      one.client.gather();
      const second = ['c', 'd'].map((echo) => one.ask('ping', echo));
      expect(await Promise.all([...first, ...second])).toEqual(['a', 'b', 'c', 'd']);
    });
    expect(writes.filter((text) => /ping/i.test(text))).toHaveLength(2);
  });

  describe('a failure', () => {
    it.each([
      ['transient', "return redis.error_reply('TRYAGAIN later')"],
      ['denied', "return redis.error_reply('NOPERM you may not')"],
      ['conflict', "return redis.error_reply('WRONGTYPE it is another')"],
      ['conflict', "return redis.error_reply('KEYCONFLICT it is no lock')"],
      ['defect', "return redis.error_reply('ERR of another kind')"],
      ['defect', 'return nonsense +'],
    ])('that is %s is told by the server’s words: %s', async (kind, source) => {
      const fate = fateOf(one.client, 'eval', source, 0);
      const failure = await rejectionOf(fate.promise);
      expect(failureKind(failure)).toBe(kind);
      expect(isReply(failure)).toBe(true);
      expect(fate).toMatchObject({ replies: [], failures: [failure] });
    });

    it('may be answered with something better', async () => {
      const better = one.client.send<unknown>(
        'eval',
        ["return redis.error_reply('ERR no')", 0],
        (reply) => reply,
        () => Promise.resolve('better'),
      );
      expect(await better).toBe('better');
    });

    it('of what is read from the reply is the reader’s', async () => {
      const wrong = new TypeError('the reader is wrong');
      const asked = one.client.send(
        'ping',
        [],
        () => {
          throw wrong;
        },
        () => 'not asked',
      );
      expect(await rejectionOf(asked)).toBe(wrong);
    });
  });

  it('a user who may not run a command is told so, and no password', async () => {
    const admin = new Redis(inject('redisUrl'));
    const user = uniqueName().replaceAll(':', '-');
    const password = `secret-of-${user}`;
    await admin.call('ACL', 'SETUSER', user, 'on', `>${password}`, '~*', '&*', '+@all', '-hget');
    try {
      const { host } = new URL(inject('redisUrl'));
      await using limited = await readyClient(toServer(`redis://${user}:${password}@${host}`));
      const failure = await rejectionOf(limited.ask('hget', 'k', 'f'));
      expect(failureKind(failure)).toBe('denied');
      const other = opened(toServer(`redis://${user}:wrong-${password}@${host}`));
      await eventually(() => {
        expect(other.failed.map(failureKind)).toContain('denied');
      });
      await other.client.close();
      expect(other.count('ready')).toBe(0);
      expect(inspect([failure, other.failed], { depth: 10, showHidden: true })).not.toContain(
        password,
      );
    } finally {
      await admin.call('ACL', 'DELUSER', user);
      admin.disconnect();
    }
  });
}
