// Errors without a listener: one warning of the process in each outage, never silence.
import { beforeEach, expect, it, vi } from 'vitest';
import { newClient, rejectionOf } from '../../support/clients.js';
import { startRedis } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

let warnings: string[];

beforeEach(() => {
  warnings = [];
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
    warnings.push(String(warning));
  });
});

it('a Redis that is down on first use causes a warning', async () => {
  await using client = newClient({ redis: 'redis://127.0.0.1:1' });
  await rejectionOf(client.getLock(uniqueName()).tryLock());
  await rejectionOf(client.getLock(uniqueName()).tryLock(400));
  expect(warnings).toEqual([
    expect.stringContaining(
      'the commands connection to Redis (127.0.0.1:1) failed: connect ECONNREFUSED',
    ),
  ]);
});

it('each outage causes one warning, whichever connections, renewals and releases fail in it', async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server.port, server.host);
  await using holder = newClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
  holder.on('error', () => undefined);
  const contested = holder.getLock(uniqueName());
  const held = await contested.acquire();
  await using client = newClient({ redis: proxy.url, lockWatchdogTimeout: 3_000 });
  const waits = proxy.copyNext(/^subscribe /i);
  const locking = client.getLock(contested.name).acquire();
  await waits.happened;
  for (let outages = 1; outages <= 3; outages++) {
    const hold = await client.getLock(uniqueName()).acquire();
    proxy.refuse();
    proxy.cut();
    await rejectionOf(hold.release());
    await rejectionOf(client.getLock(uniqueName()).tryLock());
    const waitsAgain = proxy.copyNext(/^subscribe /i);
    await proxy.accept();
    await waitsAgain.happened;
    expect(warnings, warnings.join('\n')).toHaveLength(outages);
    await expect.poll(() => client.status, { timeout: 10_000 }).toBe('ready');
  }
  await held.release();
  await (await locking).release();
});

it('with a listener there is no warning', async () => {
  const heard = vi.fn();
  await using client = newClient({ redis: 'redis://127.0.0.1:1' });
  client.on('error', heard);
  await rejectionOf(client.getLock(uniqueName()).tryLock());
  expect(heard).toHaveBeenCalledOnce();
  expect(warnings).toEqual([]);
});
