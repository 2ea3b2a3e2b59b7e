// The verb watch, as a real process against a real server, also on a terminal.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { Command, start } from '../../support/cli-command.js';
import { CliTerminal, terminalUnavailable } from '../../support/cli-terminal.js';
import { newClient } from '../../support/clients.js';
import { keepLock } from '../../support/kept-locks.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

let client: Holdfast;
let name: string;

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 30_000, clientId: 'web' });
  name = uniqueName('cli');
});

afterEach(async () => {
  await client.close();
});

describe('watch', () => {
  it('prints changes of holders as lines, and ends by SIGTERM', async () => {
    const watching = start('watch', name, '--interval', '100ms');
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
    const watching = start('watch', name, '--interval', '100ms');
    await expect
      .poll(
        async () => {
          await keepLock(client, name, 300);
          await expect.poll(() => client.stats().kept).toBe(0); // nobody used it for so long
          return watching.out;
        },
        { timeout: 20_000 },
      )
      .toMatch(/: kept, perhaps idle, by web-.*\n.*released by web-/);
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
    const watching = new Command(['watch', name, '--interval', '100ms', '--limit', '2'], env);
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
    const watching = new Command(['watch', name, '--interval', '100ms'], env);
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

describe.skipIf(terminalUnavailable)('watch on a terminal', () => {
  it.each([
    ['q', { key: 'q' }],
    ['Ctrl-C', { key: '\u0003' }],
    ['SIGINT', { signal: 'SIGINT' }],
    ['SIGTERM', { signal: 'SIGTERM' }],
    ['SIGHUP', { signal: 'SIGHUP' }],
  ] as const)(
    'draws on a screen of its own, and gives the terminal back after %s',
    async (_, end) => {
      const hold = await client.getLock(name).acquire();
      const terminal = new CliTerminal(['watch', name, '--interval', '100ms'], 80, 24);
      await terminal.shows(name);
      expect(terminal.isAlternate).toBe(true);
      expect(terminal.rows()[0]).toContain('(q ends)');
      expect(terminal.rows()[2]).toMatch(/^NAME .*WAITING$/);
      if ('key' in end) terminal.press(end.key);
      else terminal.signal(end.signal);
      expect(await terminal.end()).toBe(0);
      expect([terminal.isAlternate, terminal.isUsable]).toEqual([false, true]);
      expect(terminal.rows()[0]).toBe('before');
      await hold.release();
    },
  );

  it('gives the terminal back when it ends by an error', async () => {
    const hold = await client.getLock(name).acquire();
    const terminal = new CliTerminal(['watch', name], 80, 24);
    await terminal.shows(name);
    terminal.signal('SIGUSR2'); // throws inside
    expect(await terminal.end()).toBe(70);
    expect([terminal.isAlternate, terminal.isUsable]).toEqual([false, true]);
    expect(terminal.rows().join('\n')).toContain('boom');
    await hold.release();
  });

  it('fits the screen when the terminal changes its size', async () => {
    const long = `${name}:${'long'.repeat(40)}`;
    const hold = await client.getLock(long).acquire();
    const terminal = new CliTerminal(['watch', name, '--interval', '1h'], 80, 24);
    await terminal.shows('NAME');
    expect(terminal.rows().join('')).not.toContain(long);
    terminal.resize(240, 30);
    await terminal.shows(long);
    terminal.resize(60, 10);
    await expect.poll(() => terminal.rows()[2], { timeout: 20_000 }).toMatch(/^NAME .*WAITING$/);
    expect(terminal.rows()[3]).toContain('…');
    terminal.press('q');
    expect(await terminal.end()).toBe(0);
    await hold.release();
  });
});
