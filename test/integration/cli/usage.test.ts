// How npx holdfast is called: wrong usage, help, exit codes, and where Redis is.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { Command, expectOneLine, holdfast, start } from '../../support/cli-command.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startSentinel } from '../../support/redis-topologies.js';
import { startTlsServer, tlsUnavailable } from '../../support/tls.js';
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
    [['show', '-x'], '-x', 64],
    [['ls', '--', 'a', 'b'], 'what is "b"?', 64],
    [['run', 'a', '--grace', '20', '--', 'true'], '--grace is "20"', 64],
    [['run', 'a', '--wait', '30000', '--', 'true'], 'say 30s or 30000s', 64],
    [['run', 'a', '--lease', '6000', '--', 'true'], 'say 6s or 6000s', 64],
    [['watch', '--interval', '2d'], '--interval is "2d"', 64],
    [['watch', '--interval', '99ms'], 'at least 100ms', 64],
    [['ls', '--older', '1000'], 'say 1s or 1000s', 64],
    [['ls', '--sort', 'size'], 'name, age or waiting', 64],
    [['bench', '--seconds', '3000'], 'say 3s or 3000s', 64],
    [['ls', '--name', 'mymaster'], '--sentinel', 64],
    [['force', 'x', '--yes', '--owner', ''], '--owner is empty', 64],
    [['ls', '--sentinel', 'redis://a'], 'host:port', 64],
    [['ls', '--ca', '/no/such/file'], '/no/such/file', 64],
    [['ls', '--cert', '/no/such/file'], 'give both', 64],
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
    expect(ended.err).toContain('the list of locks');
    expect(ended.err).not.toContain('*');
    const there = ['--url', 'redis://127.0.0.1:1'];
    for (const verb of [['doctor'], ['show', name], ['watch'], ['force', name], ['bench']])
      expect((await holdfast(...verb, ...there)).code, verb[0]).toBe(69);
    expect((await holdfast('run', name, '-n', ...there, '--', 'true')).code).toBe(69);
  });

  it('an output that cannot be written is no "nobody holds it"', async () => {
    const full = openSync('/dev/full', 'w');
    const showing = new Command(['show', name], {}, { stdout: full });
    closeSync(full);
    expect((await showing.end()).code).toBe(70);
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
  it('lists the verbs', async () => {
    const { out, code } = await holdfast('--help');
    expect(code).toBe(0);
    for (const verb of ['ls', 'show', 'watch', 'force', 'run', 'doctor', 'acl', 'bench', 'ui'])
      expect(out).toMatch(new RegExp(`^ {2}${verb}\\b`, 'm'));
  });

  it.each([
    ['show', { '0': 'somebody holds it', '1': 'nobody holds it' }, ['75', '126, 127']],
    ['run', { '69': 'Redis is not available', '75': 'another owner', '76': 'lost' }, []],
    ['doctor', { '1': 'a check failed' }, ['65', '75']],
    ['acl', { '64': 'wrong usage' }, ['1', '69', '75']],
  ])('of %s has the exit codes of this verb', async (verb, codes, others) => {
    const { out } = await holdfast(verb, '--help');
    const lines = out.slice(out.indexOf('exit codes:')).split('\n');
    const meaning = (code: string): string | undefined =>
      lines.find((line) => line.startsWith(`  ${code} `));
    for (const [code, part] of Object.entries(codes)) expect(meaning(code), code).toContain(part);
    for (const code of others) expect(meaning(code), code).toBeUndefined();
  });

  it('of run says what happens when it is killed itself', async () => {
    expect((await holdfast('run', '--help')).out).toContain('leaves its command alone');
  });
});

it('--version prints the version of the package', async () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  expect(await holdfast('--version')).toMatchObject({ code: 0, out: `${version}\n`, err: '' });
});

it('a name may begin with -, behind --', async () => {
  const odd = `-${name}`;
  const held = start('run', '--wait', '5', '--', odd, '--', 'sleep', '20');
  await expect.poll(() => client.getLock(odd).isLocked(), { timeout: 20_000 }).toBe(true);
  const shown = await holdfast('show', '--', odd);
  expect(shown.code).toBe(0);
  expect(shown.out).toContain(`npx holdfast force -- ${odd}`);
  expect((await holdfast('ls', '--', odd)).out).toContain(odd);
  expect((await holdfast('force', '--yes', '--', odd)).code).toBe(0);
  expect((await held.end()).code).toBe(76);
});

describe('where Redis is', () => {
  it.skipIf(tlsUnavailable)('--ca trusts the CA of a file, and connects by TLS', async () => {
    await using server = await startTlsServer();
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
    const ca = join(folder, 'ca.pem');
    writeFileSync(ca, server.ca);
    const url = ['--url', `rediss://127.0.0.1:${String(server.port)}`];
    const plain = ['--url', `redis://127.0.0.1:${String(server.port)}`];
    try {
      const stranger = await holdfast('show', name, ...url);
      expectOneLine(stranger, 'certificate');
      expect(stranger.code).toBe(69);
      expect((await holdfast('run', name, ...url, '--ca', ca, '--', 'true')).code).toBe(0);
      expect((await holdfast('show', name, ...plain, '--ca', ca)).code).toBe(1);
      expect((await holdfast('doctor', ...url, '--ca', ca)).code).toBe(0);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.skipIf(topologiesUnavailable)(
    '--sentinel asks Sentinels for the master',
    async () => {
      await using setup = await startSentinel();
      const { host, port } = setup.sentinels[0]!;
      const there = [
        ...['--sentinel', `127.0.0.1:1,${host}:${String(port)}`, '--name', setup.name],
        ...['--url', 'redis://user-of-no-host.invalid'],
      ];
      const held = start('run', name, ...there, '--', 'sleep', '20');
      await expect.poll(async () => (await holdfast('show', name, ...there)).code).toBe(0);
      held.child.kill('SIGTERM');
      expect((await held.end()).code).toBe(143);
      expect((await holdfast('ls', ...there)).out).toBe('No locks.\n');
    },
    60_000,
  );
});

it('ui says which port it cannot use', async () => {
  const { port } = redis.options;
  const ended = await holdfast('ui', '--port', String(port));
  expectOneLine(ended, `port ${String(port)} of 127.0.0.1 cannot be used: EADDRINUSE`);
  expect(ended.code).toBe(64);
  expectOneLine(await holdfast('ui', '--port', '70000'), 'at most 65535');
});
