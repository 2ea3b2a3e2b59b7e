// Which client library is loaded, and the error where there is none, or an old one.
import { afterAll, beforeEach, expect, it, vi } from 'vitest';

const URL = 'redis://user:hunter2-secret@localhost';

/** What `require` finds. */
const packages = new Map<string, object>();

vi.resetModules();
vi.doMock('node:module', () => ({
  default: {
    createRequire: () =>
      Object.assign(
        (name: string) => {
          const found = packages.get(name);
          if (found) return found;
          throw Object.assign(new Error(`no ${name}`), { code: 'MODULE_NOT_FOUND' });
        },
        { resolve: (name: string) => `/app/node_modules/${name}/index.js` },
      ),
  },
}));

const { OptionError } = await import('../../../src/api/errors.js');
const { libraryFor } = await import('../../../src/redis/installed.js');

afterAll(() => {
  vi.doUnmock('node:module');
  vi.resetModules();
});

const createClient = vi.fn();
const nodeRedis = { createClient, createSentinel: createClient };

beforeEach(() => {
  packages.clear();
  createClient.mockClear();
});

it.each([
  ['a URL', URL, 'needs ioredis'],
  ['options of ioredis', { host: 'h' }, 'needs ioredis'],
  ['options of node-redis', { url: URL }, 'needs redis or @redis/client'],
])('without a library, the error names both: for %s', (_title, source, words) => {
  const error = errorOf(source);
  expect(error).toContain(`${words}, and holdfast finds none: `);
  expect(error).toContain('npm install ioredis (5.11 or newer, or 6), or npm install redis (5.12');
  expect(error).not.toContain('hunter2-secret');
});

it('an old version is reported with its path', () => {
  packages.set('ioredis', vi.fn()); // as version 4 exports its class
  packages.set('redis', { createClient });
  const place = (name: string): string => `older one (/app/node_modules/${name}/index.js)`;
  expect(errorOf(URL)).toContain(place('ioredis'));
  expect(errorOf({ url: URL })).toContain(place('redis'));
  expect(createClient).not.toHaveBeenCalled();
});

it.each(['redis', '@redis/client'])('a URL uses %s if ioredis is not installed', (name) => {
  packages.set(name, nodeRedis);
  libraryFor(URL);
  expect(createClient).toHaveBeenCalledOnce();
});

it('a URL uses ioredis if both are installed', () => {
  packages.set('redis', nodeRedis);
  packages.set('ioredis', { Redis: vi.fn() });
  libraryFor(URL);
  expect(createClient).not.toHaveBeenCalled();
});

function errorOf(source: unknown): string {
  try {
    libraryFor(source);
  } catch (error) {
    expect(error).toBeInstanceOf(OptionError);
    return String(error);
  }
  throw new Error('none was thrown');
}
