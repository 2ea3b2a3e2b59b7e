// The verbs doctor, acl and bench, as real processes against a real server.
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { checksIn, holdfast } from '../../support/cli-command.js';
import { sharedConnection } from '../../support/clients.js';
import { startRedis } from '../../support/redis-server.js';
import { documentedPermissions } from '../../support/users.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();

describe('doctor, acl and bench', () => {
  it('doctor finds nothing wrong with the test server', async () => {
    const { out, code } = await holdfast('doctor', '--json');
    const found = checksIn(out);
    expect(code).toBe(0);
    for (const check of ['version', 'permissions', 'wake-up', 'replication'])
      expect(found[check], check).toMatchObject({ state: 'ok' });
  });

  it('doctor says how full the memory is, and what to do', async () => {
    await using server = await startRedis();
    const own = new Redis(server.url);
    const url = ['--url', server.url];
    const memory = async (): Promise<{ state: string; found: string }> =>
      checksIn((await holdfast('doctor', '--json', ...url)).out)['memory']!;
    const found = await memory();
    expect(found.state).toBe('ok');
    expect(found.found).toMatch(/^\d+\.\d [KM]B used of the .* of its machine, no maxmemory/);
    const used = Number(/used_memory:(\d+)/.exec(await own.info('memory'))![1]);
    await own.config('SET', 'maxmemory', String(Math.round(used * 1.15)));
    expect(await memory()).toMatchObject({
      state: 'warn',
      found: expect.stringMatching(
        / [89]\d % of maxmemory \(noeviction\): when it is full, Redis refuses new locks/,
      ) as string,
    });
    await own.config('SET', 'maxmemory', '1');
    expect(await memory()).toMatchObject({
      state: 'fail',
      found: expect.stringContaining('it is full, so Redis refuses new locks (OOM)') as string,
    });
    own.disconnect();
  }, 60_000);

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
