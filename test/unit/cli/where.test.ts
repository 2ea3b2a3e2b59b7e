// Where Redis is, by the options of the command line, for either client library.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type * as Installed from '../../../src/redis/installed.js';
import type * as Where from '../../../src/cli/where.js';

const INSTALLED = '../../../src/redis/installed.js';
let folder: string;
let ca: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-where-'));
  ca = join(folder, 'ca.pem');
  writeFileSync(ca, 'PEM');
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

afterEach(() => {
  vi.doUnmock(INSTALLED);
  vi.resetModules();
});

async function sourceWith(isNodeRedis: boolean, values: Where.Values): Promise<unknown> {
  vi.resetModules();
  vi.doMock(INSTALLED, async (original) => ({
    ...(await original<typeof Installed>()),
    usesNodeRedis: () => isNodeRedis,
  }));
  const { sourceOf } = await import('../../../src/cli/where.js');
  return sourceOf(values);
}

const URL = 'rediss://app:s%40cret@redis.example:6380/2';
const sentinel = 's1,s2:26380,[::1]:26381';
const sentinels = [
  { host: 's1', port: 26_379 },
  { host: 's2', port: 26_380 },
  { host: '::1', port: 26_381 },
];
const pem = Buffer.from('PEM');

describe('a URL alone is given as it is', () => {
  it.each([true, false])('node-redis: %s', async (isNodeRedis) => {
    expect(await sourceWith(isNodeRedis, { url: URL })).toBe(URL);
  });
});

describe('for ioredis', () => {
  it('a CA stands beside the parts of the URL, and turns on TLS', async () => {
    expect(await sourceWith(false, { url: URL, ca })).toMatchObject({
      ...{ host: 'redis.example', port: 6380, username: 'app', password: 's@cret', db: 2 },
      tls: { ca: pem },
    });
    const plain = await sourceWith(false, { url: 'redis://h', ca, cert: ca, key: ca });
    expect(plain).toMatchObject({ host: 'h', tls: { ca: pem, cert: pem, key: pem } });
  });

  it('Sentinels replace the host of the URL', async () => {
    const source = await sourceWith(false, { url: URL, sentinel, name: 'orders' });
    expect(source).toMatchObject({
      ...{ sentinels, name: 'orders', username: 'app', password: 's@cret', db: 2 },
      ...{ tls: {}, enableTLSForSentinelMode: true, sentinelTLS: {} },
    });
    expect(source).not.toHaveProperty('host');
    expect(await sourceWith(false, { url: 'redis://h', sentinel })).toMatchObject({
      ...{ sentinels, name: 'mymaster', tls: undefined },
    });
  });
});

describe('for node-redis', () => {
  it('a CA stands beside the parts of the URL, and turns on TLS', async () => {
    expect(await sourceWith(true, { url: URL, ca })).toMatchObject({
      ...{ username: 'app', password: 's@cret', database: 2 },
      socket: { host: 'redis.example', port: 6380, tls: true, ca: pem },
    });
  });

  it('Sentinels replace the host of the URL', async () => {
    expect(await sourceWith(true, { url: URL, sentinel })).toMatchObject({
      ...{ name: 'mymaster', sentinelRootNodes: sentinels },
      nodeClientOptions: {
        ...{ username: 'app', password: 's@cret', database: 2 },
        socket: { tls: true },
      },
      sentinelClientOptions: { socket: { tls: true } },
    });
  });
});
