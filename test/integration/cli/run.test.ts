// The verb run, as a real process against a real server.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { Command, expectOneLine, holdfast, start } from '../../support/cli-command.js';
import { newClient, sharedConnection } from '../../support/clients.js';
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

describe('run', () => {
  const script = (text: string): string[] => ['--', process.execPath, '-e', text];

  it('holds the lock while the command runs, and exits as it does', async () => {
    const running = start(
      'run',
      name,
      ...script(
        "console.log('in ' + process.env.HOLDFAST_LOCK); setTimeout(() => process.exit(7), 1_500)",
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
      '3s',
      ...script('setInterval(() => undefined, 1e6)'),
    );
    await expect.poll(() => client.getLock(name).isLocked(), { timeout: 20_000 }).toBe(true);
    running.child.stderr!.destroy();
    expect((await running.end()).code).toBe(76);
  });

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
      "process.on('SIGTERM', () => setTimeout(() => { console.error('bye'); process.exit() }, 1_500)); console.log('ready'); setInterval(() => undefined, 1000)";
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
    const options = ['--lease', '3s', '--grace', '700ms'];
    // It ends when nobody has its standard error any more, and so when the last process has gone.
    const ended = await holdfast('run', name, ...options, ...inShell(stubborn));
    expect(ended.code).toBe(76);
    expect(ended.out).toMatch(/pid \d+/);
  });

  it('stops its command when it is stopped itself, and does not let it go on after its lease', async () => {
    const ticking = "console.log('ready'); setInterval(() => console.log('tick'), 50)";
    const running = start('run', name, '--lease', '3s', ...script(ticking));
    await running.said('tick');
    running.child.kill('SIGTSTP');
    await new Promise((resolve) => setTimeout(resolve, 500));
    const stoppedAt = running.out;
    await new Promise((resolve) => setTimeout(resolve, 3_000));
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
    ['a fixed lease', ['--lease', '9s']],
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
      '3s',
      '--grace',
      '700ms',
      ...script(stubborn),
    );
    expect(ended.code).toBe(76);
    expect(ended.out).toBe('ready\nasked\n');
    expect(ended.err).toContain('the command gets SIGTERM');
    await client.getLock(name).withLock(() => undefined);
  });
});
