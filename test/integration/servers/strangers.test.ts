// What answers at the address and is no Redis, or a proxy that refuses what connections begin with: calls are told at once.
import { describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast } from '../../../src/index.js';
import { startAnswering, type Answer } from '../../support/answering-server.js';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

type Place = Readonly<Record<'host' | 'port', unknown>>;

/** With credentials, as each library is given them. */
const FORMS: [string, (at: Place) => object][] = [
  ['ioredis', (at) => ({ ...at, username: 'app', password: 'secret' })],
  ['node-redis', (at) => ({ socket: at, username: 'app', password: 'secret' })],
];

const INFO = 'redis_version:7.4.0\r\nrun_id:a\r\nuptime_in_seconds:99\r\n';

/** Answers AUTH and SELECT as Redis does, and the rest like this. */
function behindAuth(answer: Answer): Answer {
  return (words) => (/^(auth|select|client)$/i.test(words[0] ?? '') ? '+OK\r\n' : answer(words));
}

/** The client is refused: a call that would wait for ever, and one that makes a single attempt, get an error; returns its text. */
async function refusal(client: Holdfast): Promise<string> {
  const errors = eventsOf(client, 'error');
  const recovered = eventsOf(client, 'recovered');
  const lock = client.getLock(uniqueName());
  const error = await settledWithin(rejectionOf(lock.lock()), 5_000);
  expect(error).toBeInstanceOf(UnavailableError);
  expect(client.status).toBe('refused');
  expect(await rejectionOf(lock.tryLock())).toBeInstanceOf(UnavailableError);
  expect(await rejectionOf(lock.isLocked())).toBeInstanceOf(UnavailableError);
  expect(errors).toHaveLength(1);
  expect(recovered).toEqual([]);
  return String(error);
}

describe.each(FORMS)('a client of %s', (library, options) => {
  it.each([
    ['+PONG\r\n', '"PONG"'],
    ['+OK\r\n', '"OK"'],
    [':1\r\n', '1'],
    [':0\r\n', '0'],
    ['$-1\r\n', 'null'],
    ['*0\r\n', '[]'],
    ['$0\r\n\r\n', '""'],
    ['*1\r\n:0\r\n', '[0]'],
    [`+${'HTTP '.repeat(100)}\r\n`, '"HTTP HTTP '],
  ])('is refused by what answers %j to everything', async (reply, shown) => {
    await using stranger = await startAnswering(() => reply);
    await using client = newClient({ redis: options(stranger) });
    const told = await refusal(client);
    expect(told).toContain(`no Redis answers there: it answers INFO with ${shown}`);
    expect(told.length).toBeLessThan(250);
  });

  it.each(["ERR unknown command 'AUTH'", "ERR unsupported command 'AUTH'", 'ERR not here'])(
    'is refused at once when AUTH is answered by: %s',
    async (words) => {
      await using proxy = await startAnswering(() => `-${words}\r\n`);
      await using client = newClient({ redis: options(proxy) });
      const told = await refusal(client);
      expect(told).toContain(words);
      expect(told).toContain('the answer to AUTH: option "redis", its username and password');
    },
  );

  it('is refused at once by a server in protected mode', async () => {
    const words = '-DENIED Redis is running in protected mode\r\n';
    await using guarded = await startAnswering(() => words);
    await using client = newClient({ redis: options(guarded) });
    expect(await refusal(client)).toContain('DENIED Redis is running in protected mode');
  });

  it('is told the command and the option when its database is refused', async () => {
    await using proxy = await startAnswering(([name = '']) =>
      /^select$/i.test(name) ? "-ERR unsupported command 'SELECT'\r\n" : '+OK\r\n',
    );
    const redis = { ...options(proxy), [library === 'ioredis' ? 'db' : 'database']: 3 };
    await using client = newClient({ redis });
    const told = await refusal(client);
    expect(told).toContain('Redis refuses SELECT, for option "redis" with database 3: ERR unsupp');
  });

  it('is told who hangs up at INFO, and gets in when that is over', async () => {
    let isOver = false;
    await using proxy = await startAnswering(
      behindAuth(([name = '']) => {
        if (/^info$/i.test(name)) return isOver ? `$${INFO.length}\r\n${INFO}\r\n` : null;
        return '+OK\r\n';
      }),
    );
    await using client = newClient({ redis: options(proxy) });
    const errors = eventsOf(client, 'error');
    const error = await rejectionOf(client.getLock(uniqueName()).tryLock());
    expect(String(error)).toContain(
      'it ended at INFO: Redis was stopped, or a proxy is there that does not know INFO',
    );
    expect(client.status).toBe('connecting');
    expect(errors).toHaveLength(1);
    isOver = true;
    await expect.poll(() => client.status, { timeout: 5_000 }).toBe('ready');
  });

  it('begins with AUTH, whatever protocol it was given, and sends no HELLO and no script', async () => {
    await using server = await startAnswering(
      behindAuth(([name = '']) =>
        /^info$/i.test(name) ? `$${INFO.length}\r\n${INFO}\r\n` : '+PONG\r\n',
      ),
    );
    const redis = { ...options(server), protocol: 3, RESP: 3 };
    await using client = newClient({ redis });
    await client.ping();
    const names = server.commands.map(([name = '']) => name.toUpperCase());
    expect(names[0]).toBe('AUTH');
    expect(names).toContain('INFO');
    expect(names).not.toContain('HELLO');
    expect(names).not.toContain('SCRIPT');
  });
});
