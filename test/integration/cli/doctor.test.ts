// The verbs doctor, acl and bench, as real processes against a real server.
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { checksIn, holdfast } from '../../support/cli-command.js';
import { sharedConnection } from '../../support/clients.js';
import { type RedisServer, startRedis } from '../../support/redis-server.js';
import { documentedPermissions } from '../../support/users.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();

/** A user with the documented permissions, but for some; `args`: those of the command line. */
async function userWithout(
  ...left: readonly string[]
): Promise<AsyncDisposable & { readonly args: readonly string[] }> {
  const user = uniqueName('user').replaceAll(':', '-');
  const all = documentedPermissions('server', 'app:');
  const rules = all.filter((rule) => !left.includes(rule) && !rule.startsWith('>'));
  expect(rules).toHaveLength(all.length - left.length - 1);
  await redis.call('ACL', 'SETUSER', user, ...rules, '>secret');
  const { host, port } = redis.options;
  const url = `redis://${user}:secret@${host ?? ''}:${String(port)}`;
  return {
    args: ['--url', url, '--key-prefix', 'app:'],
    async [Symbol.asyncDispose]() {
      await redis.call('ACL', 'DELUSER', user);
    },
  };
}

/** A proxy that passes all on but what a server tells of changes. */
async function mute({ host, port }: RedisServer): Promise<AsyncDisposable & { url: string }> {
  const proxy = createServer((client) => {
    const server = connect(port, host);
    client.pipe(server);
    server.on('data', (data: Buffer) => {
      if (!data.includes('message\r\n$20\r\n__redis__:invalidate')) client.write(data);
    });
    for (const [one, other] of [[client, server] as const, [server, client] as const])
      one.on('close', () => other.destroy()).on('error', () => undefined);
  });
  await once(proxy.listen(0), 'listening');
  return {
    url: `redis://localhost:${String((proxy.address() as AddressInfo).port)}`,
    async [Symbol.asyncDispose]() {
      proxy.close();
      await once(proxy, 'close');
    },
  };
}

describe('doctor, acl and bench', () => {
  it('doctor finds nothing wrong with the test server', async () => {
    const { out, code } = await holdfast('doctor', '--json');
    const found = checksIn(out);
    expect(code).toBe(0);
    for (const check of ['version', 'permissions', 'wake-up', 'replication'])
      expect(found[check], check).toMatchObject({ state: 'ok' });
    expect(found['tracking']).toEqual({
      state: 'ok',
      found: expect.stringMatching(/^a deleted key is told after \d+\.\d ms$/) as string,
    });
    expect(await redis.keys('holdfast-doctor-*')).toEqual([]);
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
    await using user = await userWithout(...left);
    const { out, code } = await holdfast('doctor', '--json', ...user.args);
    const found = checksIn(out);
    expect(code).toBe(1);
    expect(found['tracking']!.state).toBe('unknown');
    expect(found['permissions']!.state).toBe('fail');
    expect(found['permissions']!.found).toContain(named);
    expect(out).not.toContain('secret');
  });

  it.each([
    ['+client|id', "'client|id'"],
    ['+client|tracking', "'client|tracking'"],
    ['&__redis__:invalidate', 'channel'],
  ])('doctor warns that a deleted key is not told: without %s', async (left, named) => {
    await using user = await userWithout(left);
    const { out, code } = await holdfast('doctor', '--json', ...user.args);
    const { permissions, tracking } = checksIn(out);
    expect(code).toBe(0);
    expect(permissions!.state).toBe('ok');
    expect(tracking!.state).toBe('warn');
    expect(tracking!.found).toContain(named);
    expect(tracking!.found).toContain('allow +info +client|id +client|tracking &__redis__:invalid');
    expect(await redis.keys('app:holdfast-doctor-*')).toEqual([]);
  });

  it('doctor warns of a server that accepts tracking and tells nothing', async () => {
    await using server = await startRedis();
    await using proxy = await mute(server);
    const { out, code } = await holdfast('doctor', '--json', '--url', proxy.url);
    expect(code).toBe(0);
    expect(checksIn(out)['tracking']).toMatchObject({
      state: 'warn',
      found: expect.stringMatching(/is a proxy in between\?.* at its next renewal/) as string,
    });
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
