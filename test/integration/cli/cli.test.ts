// npx holdfast, as an operator calls it: real processes against a real server.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { checksIn, Command, type Ended, expectOneLine } from '../../support/cli-command.js';
import { newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { keepLock } from '../../support/kept-locks.js';
import { startRedis } from '../../support/redis-server.js';
import { documentedPermissions } from '../../support/users.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let client: Holdfast;
let name: string;

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 30_000, clientId: 'web' });
  name = uniqueName('cli');
});

afterEach(async () => {
  await client.close();
});

const start = (...args: string[]): Command => new Command(args);
const holdfast = (...args: string[]): Promise<Ended> => start(...args).end();

describe('bad input is one line, and another exit code than 0', () => {
  it.each([
    [[], 'no verb', 64],
    [['lock'], 'no verb "lock"', 64],
    [['constructor'], 'no verb "constructor"', 64],
    [['ls', '--max', '3'], "Unknown option '--max'", 64],
    [['ls', '--limit', 'many'], '--limit is "many"', 64],
    [['ls', '--kind', 'mutex'], "kinds has 'mutex'", 64],
    [['ls', 'a', 'b'], 'what is "b"?', 64],
    [['show'], 'a name is missing', 64],
    [['show', ''], 'at least one character', 64],
    [['run', 'a'], 'no command', 64],
    [['run', 'a', '-n', '-w', '3', '--', 'true'], 'one of --nonblock and --wait', 64],
    [['run', 'a', '-s', '--fenced', '--', 'true'], '--fenced is of plain locks', 64],
    [['run', 'a', '-s', '-x', '--', 'true'], 'one of --shared, --exclusive', 64],
    [['run', 'a', '--lease', '0', '--', 'true'], '--lease is "0"', 64],
    [['ls', '--', 'true'], 'ls runs no command', 64],
    [['run', 'a', '--grace', '20000', '--', 'true'], 'at most 15000', 64],
    [['acl'], '--prefix is missing', 64],
    [['ls', '--url', 'http://h'], 'redis://', 64],
  ])('%j', async (args, part, code) => {
    const ended = await holdfast(...args);
    expectOneLine(ended, part);
    expect(ended.code).toBe(code);
  });

  it('there is no Redis', async () => {
    const ended = await holdfast('ls', '--url', 'redis://user:s3cret@127.0.0.1:1');
    expectOneLine(ended, 'ECONNREFUSED 127.0.0.1:1');
    expect(ended.err).not.toContain('s3cret');
    expect(ended.code).toBe(69);
    for (const command of [['doctor'], ['show', name]])
      expect((await holdfast(...command, '--url', 'redis://127.0.0.1:1')).code).toBe(69);
    const run = await holdfast('run', name, '--url', 'redis://127.0.0.1:1', '--', 'true');
    expect(run.code).toBe(69);
  });

  it('the key is no lock', async () => {
    await redis.set(name, 'mine');
    const ended = await holdfast('show', name);
    expectOneLine(ended, `"${name}"`, 'string');
    expect(ended.code).toBe(65);
    expect((await holdfast('force', name, '--yes')).code).toBe(65);
    expect(await redis.get(name)).toBe('mine');
    await redis.del(name);
  });
});

describe('--help', () => {
  it('lists the verbs and the exit codes', async () => {
    const { out, code } = await holdfast('--help');
    expect(code).toBe(0);
    for (const verb of ['ls', 'show', 'watch', 'force', 'run', 'doctor', 'acl', 'bench', 'ui'])
      expect(out).toMatch(new RegExp(`^ {2}${verb}\\b`, 'm'));
    expect(out).toContain('exit codes: 0 done');
  });

  it('of run says what happens when it is killed itself', async () => {
    expect((await holdfast('run', '--help')).out).toContain('leaves its command alone');
  });
});

describe('ls, show and force', () => {
  it('show a lock, who holds it since when, and who waits', async () => {
    const hold = await client.getFencedLock(name, { fair: true }).acquire();
    const waiting = nextEvent(client, 'waiting');
    const call = client.getFairLock(name).acquire();
    await waiting;
    const list = await holdfast('ls', name);
    expect(list.out).toMatch(new RegExp(`^${name} +lock +${hold.ownerId} .* 1 in line$`, 'm'));
    const shown = await holdfast('show', name);
    expect(shown.out).toContain(`held by ${hold.ownerId}`);
    expect(shown.out).toContain(`client ${client.clientId}`);
    expect(shown.out).toMatch(
      /call began \d+ (ms|s) ago, at 20.*Z by its client's clock, lease left/,
    );
    expect(shown.out).toMatch(/ {2}1\. {2}web-[0-9a-f]{12}:\d{16}, call began \d+ (ms|s) ago/);
    expect(shown.out).toContain(`last fencing token ${String(hold.token)}`);
    expect(shown.out).toContain(`npx holdfast force ${name}`);
    const json = JSON.parse((await holdfast('ls', name, '--json')).out) as object;
    expect(json).toMatchObject({ name, kind: 'lock', holders: [{ ownerId: hold.ownerId }] });
    await hold.release();
    await (await call).release();
    expect(await holdfast('show', name)).toMatchObject({
      code: 0,
      out: `Nobody holds "${name}" or stands in its line.\n`,
    });
    expect((await holdfast('show', name, '--json')).out).toBe('null\n');
  });

  it('show a lock without expiry, and force frees it', async () => {
    const ownerId = 'web-1-4711-0123456789ab:1795708800123000';
    await redis.hset(name, ownerId, 1);
    const listed = await holdfast('ls', name);
    expect(listed.out).toMatch(new RegExp(`^${name} +lock +${ownerId} .* without expiry +-$`, 'm'));
    expect((await holdfast('show', name)).out).toMatch(/by its client's clock, without expiry$/m);
    expect(await holdfast('force', name, '--yes')).toMatchObject({ code: 0 });
    expect(await redis.exists(name)).toBe(0);
    await redis.del(`holdfast_forced:{${name}}`);
  });

  it('show a lock that its client keeps, and force takes it from there', async () => {
    // Kept for longer than a slow machine takes to start three processes.
    await using keeper = newClient({ lockWatchdogTimeout: 180_000, clientId: 'keeper' });
    const lock = await keepLock(keeper, name, 20_000);
    const [listed, shown, json] = await Promise.all([
      holdfast('ls', name),
      holdfast('show', name),
      holdfast('show', name, '--json'),
    ]);
    const [holder] = (await client.inspect(name))!.holders;
    expect(listed.out).toMatch(new RegExp(`^${name} +lock +${holder!.ownerId} \\(kept\\) `, 'm'));
    expect(shown.out).toContain(`  kept by ${holder!.ownerId}\n    perhaps nobody is inside`);
    expect(shown.out).not.toContain('held by');
    const { holders } = JSON.parse(json.out) as { holders: object[] };
    expect(holders).toMatchObject([{ ownerId: holder!.ownerId, isKept: true }]);
    expect(holders[0]).not.toHaveProperty('holdCount');
    const lost = vi.fn();
    keeper.on('lost', lost);
    expect((await holdfast('force', name, '--yes')).out).toContain(`"${name}" was freed.`);
    await expect.poll(() => keeper.stats().kept).toBe(0);
    expect(lost).not.toHaveBeenCalled(); // nobody was inside
    await redis.del(`holdfast_forced:{${name}}`); // so nobody asks for this word
    await lock.withLock(({ ownerId }) => {
      expect(ownerId).not.toBe(holder!.ownerId);
    });
  });

  it('force asks; without a terminal it needs --yes', async () => {
    const hold = await client.getLock(name).acquire();
    const refused = await holdfast('force', name);
    expect(refused).toMatchObject({ code: 64 });
    expect(refused.err).toContain('give --yes');
    expect(hold.signal.aborted).toBe(false);
    expect(await client.getLock(name).isLocked()).toBe(true);
    const lost = nextEvent(client, 'lost');
    const forced = await holdfast('force', name, '--yes');
    expect(forced.code).toBe(0);
    expect(forced.out).toContain(`held by ${hold.ownerId}`);
    expect(forced.out).toContain(`"${name}" was freed.`);
    expect(await client.getLock(name).isLocked()).toBe(false);
    await expect(hold.extend(1_000)).rejects.toMatchObject({ lossReason: 'forced' });
    await lost;
    const again = await holdfast('force', name, '--yes');
    expectOneLine(again, `Nobody holds "${name}"`);
    expect(again.code).toBe(1);
  });

  it('force takes no pattern, frees readers and writers, and refuses a semaphore', async () => {
    const hold = await client.getReadWriteLock(name).readLock().acquire();
    expectOneLine(await holdfast('force', `${name.slice(0, -1)}*`, '--yes'), 'never a pattern');
    expect((await holdfast('force', name, '--yes')).code).toBe(0);
    await expect(hold.release()).rejects.toMatchObject({ lossReason: 'forced' });
    const seats = `${name}:seats`;
    const permit = await client.getSemaphore(seats, { permits: 2 }).acquire();
    const refused = await holdfast('force', seats, '--yes');
    expect(refused.code).toBe(64);
    expect(refused.err).toMatch(/^holdfast: .*is a semaphore.*\n$/);
    await permit.release();
  });
});

it('force on a writer leaves the readers alone that it lets in', async () => {
  const rw = client.getReadWriteLock(name);
  const writer = await rw.writeLock().acquire();
  const readers = [rw.readLock().acquire(), rw.readLock().acquire()];
  expect((await holdfast('force', name, '--yes')).code).toBe(0);
  await expect(writer.release()).rejects.toMatchObject({ lossReason: 'forced' });
  for (const reader of await Promise.all(readers)) {
    expect(reader.signal.aborted).toBe(false);
    await reader.release();
  }
});

it('shows the control characters of a name, and quotes it for a shell', async () => {
  const odd = `${name}\n$(id) 'x'`;
  const hold = await client.getLock(odd).acquire();
  const { out } = await holdfast('ls', name);
  expect(out).toContain(`${name}\\u{a}$(id)`);
  expect((await holdfast('show', odd)).out).toContain(`force '${name}\\u{a}$(id) '\\''x'\\'''`);
  await hold.release();
});

it('ls ends in silence when nobody reads it any more', async () => {
  const hold = await client.getLock(name).acquire();
  const listing = start('ls');
  listing.child.stdout!.destroy();
  expect(await listing.end()).toMatchObject({ code: 0, err: '' });
  await hold.release();
});

it('ui says which port it cannot use', async () => {
  const { port } = redis.options;
  const ended = await holdfast('ui', '--port', String(port));
  expectOneLine(ended, `port ${String(port)} of 127.0.0.1 cannot be used: EADDRINUSE`);
  expect(ended.code).toBe(64);
  expectOneLine(await holdfast('ui', '--port', '70000'), 'at most 65535');
});

describe('watch', () => {
  it('prints changes of holders as lines, and ends by SIGTERM', async () => {
    const watching = start('watch', name, '--interval', '100');
    await expect
      .poll(
        async () => {
          await client
            .getLock(name)
            .withLock(() => new Promise((resolve) => setTimeout(resolve, 250)));
          return watching.out;
        },
        { timeout: 20_000 },
      )
      .toMatch(/held by web-.*\n.*released by web-/);
    watching.child.kill('SIGTERM');
    expect(await watching.end()).toMatchObject({ code: 0, err: '' });
  });

  it('tells a lock that is kept from one that is held', async () => {
    const watching = start('watch', name, '--interval', '100');
    await expect
      .poll(
        async () => {
          await keepLock(client, name, 300);
          await expect.poll(() => client.stats().kept).toBe(0); // nobody used it for so long
          return watching.out;
        },
        { timeout: 20_000 },
      )
      .toMatch(/: kept by web-.*\n.*released by web-/);
    watching.child.kill('SIGTERM');
    expect(await watching.end()).toMatchObject({ code: 0, err: '' });
  });

  it('does not report a lock as new that --limit had cut off', async () => {
    await using server = await startRedis();
    await using holder = newClient({ redis: server.url });
    using monitor = Object.assign(new Redis(server.url), {
      [Symbol.dispose]: () => {
        monitor.disconnect();
      },
    });
    const scanCount = async (): Promise<number> =>
      Number(/cmdstat_scan:calls=(\d+)/.exec(await monitor.info('commandstats'))?.[1] ?? 0);
    /** Waits until the command has looked once more: each look begins with a SCAN, and two more have begun. */
    const looked = async (): Promise<void> => {
      const before = await scanCount();
      await expect.poll(scanCount, { timeout: 20_000 }).toBeGreaterThan(before + 1);
    };
    const env = { HOLDFAST_REDIS_URL: server.url };
    const holds = await Promise.all(
      ['a', 'b', 'c'].map((end) => holder.getLock(name + end).acquire()),
    );
    const { out } = await new Command(['ls', name, '--limit', '2'], env).end();
    const isListed = ({ lockName }: Hold): boolean => out.includes(lockName);
    const cutOff = holds.find((hold) => !isListed(hold))!;
    const watching = new Command(['watch', name, '--interval', '100', '--limit', '2'], env);
    await looked();
    await Promise.all(holds.filter(isListed).map((hold) => hold.release()));
    await looked();
    await cutOff.release();
    await watching.said(`${cutOff.lockName}: released by`);
    expect(watching.out).not.toContain('held by');
    watching.child.kill('SIGTERM');
    expect(await watching.end()).toMatchObject({ code: 0, err: '' });
  }, 60_000);

  it('says that Redis is away, and goes on when it is back', async () => {
    await using server = await startRedis();
    const env = { HOLDFAST_REDIS_URL: server.url };
    const watching = new Command(['watch', name, '--interval', '100'], env);
    const sees = async (what: string): Promise<void> => {
      const held = async (): Promise<string> => {
        const done = await new Command(['run', name, '--', 'sleep', '0.4'], env).end();
        expect(done).toMatchObject({ code: 0, err: '' });
        return watching.out;
      };
      await expect.poll(held, { timeout: 30_000 }).toMatch(what);
    };
    await sees('held by');
    await server.kill();
    await expect.poll(() => watching.err, { timeout: 20_000 }).toContain('cannot be reached');
    await server.start();
    watching.out = '';
    await sees('held by');
    watching.child.kill('SIGTERM');
    expect(await watching.end()).toMatchObject({ code: 0 });
  }, 90_000);
});

describe('run', () => {
  const script = (text: string): string[] => ['--', process.execPath, '-e', text];

  it('holds the lock while the command runs, and exits as it does', async () => {
    const running = start(
      'run',
      name,
      ...script(
        "console.log('in ' + process.env.HOLDFAST_LOCK); setTimeout(() => process.exit(7), 3_000)",
      ),
    );
    await running.said(`in ${name}`);
    const [holder] = (await client.inspect(name))!.holders;
    expect(holder).toMatchObject({ holdCount: 1 });
    expect(await running.end()).toMatchObject({ code: 7, err: '' });
    expect(await client.getLock(name).isLocked()).toBe(false);
  });

  it('gives its command no token of a run around it', async () => {
    const tell = script("console.log('token', process.env.HOLDFAST_TOKEN)");
    const inner = new Command(['run', name, ...tell], { HOLDFAST_TOKEN: '7' });
    expect(await inner.end()).toMatchObject({ code: 0, out: 'token undefined\n' });
  });

  it('ends its command in time though nobody reads its warnings', async () => {
    const running = start(
      'run',
      name,
      '--lease',
      '3000',
      ...script('setInterval(() => undefined, 1e6)'),
    );
    await expect.poll(() => client.getLock(name).isLocked(), { timeout: 20_000 }).toBe(true);
    running.child.stderr!.destroy();
    expect((await running.end()).code).toBe(76);
  });

  it('ends its command in time when Redis stays away, and exits 76', async () => {
    await using server = await startRedis();
    const stubborn =
      "process.on('SIGTERM', () => console.log('asked')); console.log('ready'); setInterval(() => undefined, 1000)";
    const options = ['--grace', '15000', '--url', server.url];
    const running = start('run', name, ...options, ...script(stubborn));
    await running.said('ready');
    await server.kill();
    const ended = await running.end();
    expect(ended).toMatchObject({ code: 76, out: 'ready\nasked\n' });
    expect(ended.err).toContain('the command gets SIGTERM');
  }, 90_000);

  it.each([
    [['-x'], 'read-write', { mode: 'write' }],
    [['-s'], 'read-write', { mode: 'read' }],
    [['--permits', '3'], 'semaphore', { permits: 1 }],
    [['--fair', '--fenced'], 'lock', { holdCount: 1 }],
  ])('%j takes a %s', async (options, kind, holder) => {
    const running = start(
      'run',
      name,
      ...options,
      ...script(
        "console.log('token', process.env.HOLDFAST_TOKEN); process.stdin.resume(); setTimeout(() => undefined, 400)",
      ),
    );
    await running.said('token');
    expect(await client.inspect(name)).toMatchObject({ kind, holders: [holder] });
    if (options.includes('--fenced')) expect(running.out).toMatch(/token \d{10,}/);
    expect(await running.end()).toMatchObject({ code: 0 });
    await redis.del(`redisson_lock_token:{${name}}`);
  });

  it('exits 75 if the lock is held, or as it is told, and runs nothing', async () => {
    const hold = await client.getLock(name).acquire();
    const busy = await holdfast('run', name, '-n', ...script("console.log('ran')"));
    expectOneLine(busy, `lock "${name}"`, hold.ownerId);
    expect(busy.code).toBe(75);
    const other = await holdfast(
      'run',
      name,
      '-w',
      '0.3',
      '-E',
      '3',
      ...script("console.log('ran')"),
    );
    expectOneLine(other, `lock "${name}"`);
    expect(other.code).toBe(3);
    await hold.release();
  });

  it.each([
    [['no-such-command-here'], 127],
    [['/'], 126],
  ])('%j cannot be run: the lock is free again', async (command, code) => {
    const ended = await holdfast('run', name, '--', ...command);
    expectOneLine(ended, command[0]!);
    expect(ended.code).toBe(code);
    expect(await client.getLock(name).isLocked()).toBe(false);
  });

  it('passes signals on, and exits 128 + n for a command that one has ended', async () => {
    const handles = start(
      'run',
      name,
      ...script(
        "process.on('SIGTERM', () => process.exit(9)); console.log('ready'); setInterval(() => undefined, 1000)",
      ),
    );
    await handles.said('ready');
    handles.child.kill('SIGTERM');
    expect((await handles.end()).code).toBe(9);
    const dies = start(
      'run',
      name,
      ...script("console.log('ready'); setInterval(() => undefined, 1000)"),
    );
    await dies.said('ready');
    dies.child.kill('SIGHUP');
    expect((await dies.end()).code).toBe(129);
    expect(await client.getLock(name).isLocked()).toBe(false);
  });

  const inShell = (text: string): string[] => [
    ...['--', 'sh', '-c', `"$0" -e "$1" | cat`],
    ...[process.execPath, text],
  ];

  it('passes a signal on to all that the command has started, and keeps the lock until they have ended', async () => {
    const slow =
      "process.on('SIGTERM', () => setTimeout(() => { console.error('bye'); process.exit() }, 3_000)); console.log('ready'); setInterval(() => undefined, 1000)";
    const running = start('run', name, ...inShell(slow));
    await running.said('ready');
    running.child.kill('SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await client.getLock(name).isLocked()).toBe(true);
    expect(await running.end()).toMatchObject({ code: 143, err: 'bye\n' });
    expect(await client.getLock(name).isLocked()).toBe(false);
  });

  it('kills all that the command has started when the lease has ended', async () => {
    const stubborn =
      "process.on('SIGTERM', () => undefined); console.log('pid', process.pid); setInterval(() => undefined, 1000)";
    const options = ['--lease', '6000', '--grace', '700'];
    // It ends when nobody has its standard error any more, and so when the last process has gone.
    const ended = await holdfast('run', name, ...options, ...inShell(stubborn));
    expect(ended.code).toBe(76);
    expect(ended.out).toMatch(/pid \d+/);
  });

  it('stops its command when it is stopped itself, and does not let it go on after its lease', async () => {
    const ticking = "console.log('ready'); setInterval(() => console.log('tick'), 50)";
    const running = start('run', name, '--lease', '6000', ...script(ticking));
    await running.said('tick');
    running.child.kill('SIGTSTP');
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const stoppedAt = running.out;
    await new Promise((resolve) => setTimeout(resolve, 5_500));
    expect(running.out).toBe(stoppedAt);
    running.child.kill('SIGCONT');
    expect(await running.end()).toMatchObject({ code: 76, out: stoppedAt });
  });

  it('ends by a signal while it waits, and runs nothing', async () => {
    const hold = await client.getFairLock(name).acquire();
    const waits = start('run', name, '--fair', ...script("console.log('ran')"));
    await expect
      .poll(async () => (await client.getFairLock(name).getWaiters()).length, { timeout: 20_000 })
      .toBe(1);
    waits.child.kill('SIGTERM');
    expect(await waits.end()).toMatchObject({ code: 143, out: '' });
    expect(await client.getFairLock(name).getWaiters()).toEqual([]);
    await hold.release();
  });

  it.each([
    ['a lease that is renewed', []],
    // Nothing else asks the server before this lease ends: the command would get SIGTERM then.
    ['a fixed lease', ['--lease', '9000']],
  ])('kills the command when the lock is forced out, and exits 76: %s', async (_lease, options) => {
    const stubborn =
      "process.on('SIGTERM', () => console.log('asked')); console.log('pid', process.pid); setInterval(() => undefined, 1000)";
    const running = start('run', name, ...options, ...script(stubborn));
    await running.said(/pid \d+/);
    await client.getLock(name).forceUnlock();
    const ended = await running.end();
    expect(ended.code).toBe(76);
    expect(ended.err).toContain('forceUnlock');
    expect(ended.out).not.toContain('asked');
    const pid = Number(/pid (\d+)/.exec(ended.out)![1]);
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  it('asks the command to end before the end of a lease that is not renewed, then kills it', async () => {
    const stubborn =
      "process.on('SIGTERM', () => console.log('asked')); console.log('ready'); setInterval(() => undefined, 1000)";
    const ended = await holdfast(
      'run',
      name,
      '--lease',
      '6000',
      '--grace',
      '700',
      ...script(stubborn),
    );
    expect(ended.code).toBe(76);
    expect(ended.out).toBe('ready\nasked\n');
    expect(ended.err).toContain('the command gets SIGTERM');
    await client.getLock(name).withLock(() => undefined);
  });
});

describe('doctor, acl and bench', () => {
  it('doctor finds nothing wrong with the test server', async () => {
    const { out, code } = await holdfast('doctor', '--json');
    const found = checksIn(out);
    expect(code).toBe(0);
    for (const check of ['version', 'permissions', 'wake-up', 'replication'])
      expect(found[check], check).toMatchObject({ state: 'ok' });
  });

  it.each([
    [['+hlen', '+publish'], 'publish, hlen'],
    [['~holdfast_*:{app:*', '&holdfast_grants:{app:*'], 'the key holdfast_forced:{app:'],
    [['&holdfast_grants:{app:*'], 'the channel holdfast_grants:{app:'],
    [['&holdfast_wishes:*'], 'the channel holdfast_wishes:doctor'],
  ])('doctor names what a user may not do: without %j', async (left, named) => {
    const user = uniqueName('user').replaceAll(':', '-');
    const rules = documentedPermissions('server', 'app:').filter((rule) => !left.includes(rule));
    expect(rules).toHaveLength(documentedPermissions('server', 'app:').length - left.length);
    await redis.call(
      'ACL',
      'SETUSER',
      user,
      ...rules.filter((rule) => !rule.startsWith('>')),
      '>secret',
    );
    const { host, port } = redis.options;
    const url = `redis://${user}:secret@${host ?? ''}:${String(port)}`;
    const { out, code } = await holdfast('doctor', '--json', '--url', url, '--key-prefix', 'app:');
    await redis.call('ACL', 'DELUSER', user);
    const found = checksIn(out);
    expect(code).toBe(1);
    expect(found['permissions']!.state).toBe('fail');
    expect(found['permissions']!.found).toContain(named);
    expect(out).not.toContain('secret');
  });

  it('acl prints the lines of the docs', async () => {
    for (const kind of ['server', 'cluster'] as const) {
      const options = kind === 'cluster' ? ['--cluster'] : [];
      const { out } = await holdfast('acl', '--prefix', 'app:', ...options);
      const [, , , ...rules] = out.trim().split(' ');
      expect(rules.sort()).toEqual(documentedPermissions(kind, 'app:').sort());
    }
    const { out } = await holdfast('acl', '--prefix', 'a*', '--look', '--replicas', '--user', 'me');
    expect(out).toContain('ACL SETUSER me on');
    expect(out).toContain('~a\\** ');
    expect(out).toContain('+wait +scan');
  });

  it('bench counts pairs', async () => {
    const { out, code } = await holdfast('bench', '--seconds', '0.3', '--json');
    expect(code).toBe(0);
    const rows = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { inFlight: number; perSecond: number });
    expect(rows.map(({ inFlight }) => inFlight)).toEqual([1, 256]);
    for (const { perSecond } of rows) expect(perSecond).toBeGreaterThan(0);
  });
});
