// The verbs ls, show and force, as an operator calls them: real processes against a real server.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { expectOneLine, holdfast, start } from '../../support/cli-command.js';
import { newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { keepLock } from '../../support/kept-locks.js';
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
    expect(shown.out).toMatch(/held for \d+ (ms|s), since 20.*Z by its client's clock, lease left/);
    expect(shown.out).toMatch(/ {2}1\. {2}web-\S+-[0-9a-f]{12}:\d{16}, asked \d+ (ms|s) ago/);
    expect(shown.out).toContain(`last fencing token ${String(hold.token)}`);
    expect(shown.out).toContain(`npx holdfast force ${name}`);
    const json = JSON.parse((await holdfast('ls', name, '--json')).out) as object;
    expect(json).toMatchObject({ name, kind: 'lock', holders: [{ ownerId: hold.ownerId }] });
    await hold.release();
    await (await call).release();
    expect(await holdfast('show', name)).toMatchObject({
      code: 1,
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
    expect(shown.out).toContain(
      `  kept, perhaps idle, by ${holder!.ownerId}\n    perhaps nobody is inside`,
    );
    expect(shown.out).not.toContain('held by');
    const { holders } = JSON.parse(json.out) as { holders: object[] };
    expect(holders).toMatchObject([{ ownerId: holder!.ownerId, state: 'kept' }]);
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

  it('ls leaves out what was released and stays taken, unless asked for all; show tells until when', async () => {
    const hold = await client.getLock(name).acquire({ lockAtLeastFor: 60_000 });
    expect((await holdfast('ls', name)).out).toContain(hold.ownerId);
    await hold.release();
    const [listed, all, shown, json] = await Promise.all([
      holdfast('ls', name, '--limit', '1'),
      holdfast('ls', name, '--all'),
      holdfast('show', name),
      holdfast('ls', name, '--all', '--json'),
    ]);
    expect(listed.out).toBe('No locks.\n');
    expect(all.out).toMatch(new RegExp(`^${name} +lock +${hold.ownerId} \\(released\\) `, 'm'));
    expect(shown.out).toMatch(/ {2}taken until 20\S*Z, released by web-.*\n {4}nobody is inside/);
    expect(JSON.parse(json.out)).toMatchObject({ holders: [{ state: 'released', holdCount: 0 }] });
    expect((await holdfast('force', name, '--yes')).code).toBe(0);
    expect(await redis.exists(name)).toBe(0);
    await redis.del(`holdfast_forced:{${name}}`);
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

  it('force takes no pattern, and frees readers and writers', async () => {
    const hold = await client.getReadWriteLock(name).readLock().acquire();
    expectOneLine(await holdfast('force', `${name.slice(0, -1)}*`, '--yes'), 'never a pattern');
    expect((await holdfast('force', name, '--yes')).code).toBe(0);
    await expect(hold.release()).rejects.toMatchObject({ lossReason: 'forced' });
  });

  it('force --owner frees the permits of one owner, and the next in line gets them', async () => {
    const semaphore = client.getSemaphore(name, { permits: 2 });
    const [stuck, other] = [await semaphore.acquire(), await semaphore.acquire()];
    const waiting = nextEvent(client, 'waiting');
    const next = semaphore.acquire();
    await waiting;
    const refused = await holdfast('force', name, '--yes');
    expectOneLine(refused, 'is a semaphore', `--owner ${stuck.ownerId}`);
    expect(refused.code).toBe(64);
    expect((await holdfast('show', name)).out).toContain(`force --owner ${stuck.ownerId} ${name}`);
    const nobody = await holdfast('force', name, '--yes', '--owner', 'web:1');
    expectOneLine(nobody, 'web:1 does not hold');
    expect(nobody.code).toBe(1);
    const freed = await holdfast('force', name, '--yes', '--owner', stuck.ownerId);
    expect(freed).toMatchObject({ code: 0, err: '' });
    expect(freed.out).toContain(`What ${stuck.ownerId} had of "${name}" was freed.`);
    const got = await next;
    await expect(stuck.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect([got.signal.aborted, other.signal.aborted]).toEqual([false, false]);
    await got.release();
    await other.release();
  });

  it('force --owner frees one reader of several, and leaves the other alone', async () => {
    const reading = client.getReadWriteLock(name).readLock();
    const [stuck, other] = [await reading.acquire(), await reading.acquire()];
    const ended = await holdfast('force', name, '--yes', '--json', '--owner', stuck.ownerId);
    expect(ended).toMatchObject({ code: 0, out: `{"name":"${name}","forced":true}\n` });
    await expect(stuck.extend(1_000)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await other.release();
  });

  it('force --owner frees a plain lock only from this owner', async () => {
    const hold = await client.getLock(name).acquire();
    expect((await holdfast('force', name, '--yes', '--owner', 'web:1')).code).toBe(1);
    expect(await client.getLock(name).isLocked()).toBe(true);
    expect((await holdfast('force', name, '--yes', '--owner', hold.ownerId)).code).toBe(0);
    await expect(hold.release()).rejects.toMatchObject({ lossReason: 'forced' });
  });

  it('ls sorts by name in natural order, by age and by waiters, and leaves out what is young', async () => {
    const names = ['2', '10', '9'].map((end) => `${name}:${end}`) as [string, string, string];
    const ownerId = (agoMs: number): string =>
      `web-1-4711-0123456789ab:${String((Date.now() - agoMs) * 1_000)}`;
    await redis.hset(names[0], ownerId(60_000), 1);
    await redis.hset(names[1], ownerId(900_000), 1);
    await redis.hset(names[2], ownerId(500), 1);
    for (const each of names) await redis.pexpire(each, 60_000);
    const waiting = nextEvent(client, 'waiting');
    const call = client.getLock(names[2]).acquire();
    await waiting;
    const listed = async (...options: string[]): Promise<string[]> => {
      const { out } = await holdfast('ls', name, ...options);
      return [...out.matchAll(/:(2|10|9) /g)].map(([, end = '']) => end);
    };
    const orders = [[], ['--sort', 'age'], ['--sort', 'waiting'], ['--older', '5m']];
    expect(await Promise.all(orders.map((options) => listed(...options)))).toEqual([
      ['2', '9', '10'],
      ['10', '2', '9'],
      ['9', '2', '10'],
      ['10'],
    ]);
    expect(await listed('--sort', 'age', '--limit', '1')).toEqual(['10']);
    const { out } = await holdfast('ls', name, '--older', '20', '--sort', 'age', '--json');
    const found = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { name: string });
    expect(found.map((lock) => lock.name)).toEqual([names[1], names[0]]);
    await redis.del(names);
    await (await call).release();
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

it('no verb writes an escape sequence of a name, and JSON stays JSON', async () => {
  const odd = `${name}\u001b[31mred\u001b]0;title\u0007\u009b2J\u202eabc\u{e0001}`;
  const hold = await client.getLock(odd).acquire();
  const watching = start('watch', name, '--interval', '100ms');
  const verbs = [
    ['ls', name],
    ['ls', name, '--json'],
    ['show', odd],
    ['show', odd, '--json'],
    ['run', odd, '-n', '--', 'true'],
    ['force', odd, '--owner', '\u001b[31m', '--yes'],
    ['force', odd, '--yes'],
    ['show', odd],
    ['force', odd, '--yes'],
    ['ls', odd],
  ];
  for (const verb of verbs) {
    const { out, err } = await holdfast(...verb);
    expect(out + err).not.toMatch(/[\p{Cf}]|(?!\n)\p{Cc}/u);
    if (!verb.includes('--json')) continue;
    expect(JSON.parse(out)).toMatchObject({ name: odd });
  }
  await hold.release().catch(() => undefined);
  await watching.said('released by');
  expect(watching.out).not.toMatch(/[\p{Cf}]|(?!\n)\p{Cc}/u);
  watching.child.kill('SIGTERM');
  await watching.end();
});

it('ls ends in silence when nobody reads it any more', async () => {
  const hold = await client.getLock(name).acquire();
  const listing = start('ls');
  listing.child.stdout!.destroy();
  expect(await listing.end()).toMatchObject({ code: 0, err: '' });
  await hold.release();
});
