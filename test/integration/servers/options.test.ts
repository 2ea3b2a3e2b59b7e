// Options of ioredis that would harm: they are not heeded, whatever was given.
import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { fateOf, readyClient } from '../../support/driver-heard.js';
import { proxyPerTest } from '../../support/shared-proxy.js';

/** Of ioredis 5 those that it has in common with 6. */
const DEFAULTS = new Redis({ lazyConnect: true }).options;

describe('socketTimeout', () => {
  const proxy = proxyPerTest();

  it('does not leave a server that answers later', async () => {
    const { host, port } = proxy();
    proxy().delay({ downstreamMs: 300 });
    await using one = await readyClient(ioredisDriver({ host, port, socketTimeout: 50 }));
    expect(await one.ask('echo', 'late')).toBe('late');
  });

  it('leaves no timer when a connection ends that owes an answer', async () => {
    const { host, port } = proxy();
    const one = await readyClient(ioredisDriver({ host, port, socketTimeout: 60_000 }));
    proxy().swallowConnections();
    const { promise } = fateOf(one.client, 'ping');
    await one.client.close();
    await expect(promise).rejects.toThrow('the connection was lost');
  });
});

it.skipIf(!('protocol' in DEFAULTS))(
  'himportFieldsets, of which a server knows nothing, do not make an attempt to connect fail',
  async () => {
    const fieldsets: object = { himportFieldsets: [{ name: 'set', fields: ['field'] }] };
    const { hostname: host, port } = new URL(inject('redisUrl'));
    const one = await readyClient(ioredisDriver({ host, port: Number(port), ...fieldsets }));
    expect(one.failed).toEqual([]);
    await one.client.close();
  },
);
