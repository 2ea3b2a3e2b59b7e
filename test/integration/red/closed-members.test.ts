// Redlocks of which the clients of some members are closed.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually, NEVER, settledWithin } from '../../support/time.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

async function clientsOf(url: string): Promise<number> {
  const redis = new Redis(url);
  const list = String(await redis.client('LIST'));
  redis.disconnect();
  return list.trim().split('\n').length - 1;
}

it('a closed member gets no new connection when somebody waits', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  const holder = await nodes.client();
  const client = await nodes.client();
  const lock = client.lock(uniqueName());
  const theirs = await holder.lock(lock.name).acquire();
  await client.members[2]!.close();
  expect(await lock.tryLock(500)).toBe(false);
  await theirs.release();
  await client[Symbol.asyncDispose]();
  await holder[Symbol.asyncDispose]();
  await eventually(async () => {
    expect(await Promise.all(nodes.urls.map(clientsOf))).toEqual([0, 0, 0]);
  });
});

it('the members of a Redlock forget its client after close(), and live on', async () => {
  setFlagsFromString('--expose_gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  await using servers = await startMasters(3);
  const [url, ...others] = servers.map((server) => server.url);
  const members = others.map((redis) => newClient({ redis }));
  const useOnce = async (): Promise<WeakRef<object>> => {
    const client = newClient({ redis: url! });
    const listener = (): void => undefined;
    client.on('lost', listener);
    const name = uniqueName();
    const locks = [client, ...members].map((each) => each.getLock(name));
    const options = { restartGuard: false, nodeTimeout: 1_000 } as const;
    await client.getRedLock(...locks, options).withLock(() => undefined);
    await client.close();
    return new WeakRef(listener);
  };
  const closed: WeakRef<object>[] = [];
  for (let count = 0; count < 20; count++) closed.push(await useOnce());
  await eventually(() => {
    collectGarbage();
    // A last one may still be on the stack.
    expect(closed.filter((listener) => listener.deref()).length).toBeLessThan(5);
  });
  await Promise.all(members.map((member) => member.close()));
});

describe('when most members are closed', () => {
  it('lock() fails instead of waiting for ever', async () => {
    await using servers = await startMasters(3);
    const client = await new RedNodes(servers).client();
    const lock = client.lock(uniqueName());
    await Promise.all([client.members[1]!.close(), client.members[2]!.close()]);
    const outcome = await settledWithin(rejectionOf(lock.lock()), 5_000);
    await client[Symbol.asyncDispose]();
    expect(outcome).not.toBe(NEVER);
  });

  it('close() of the client that made the Redlock does not take commandTimeout', async () => {
    await using servers = await startMasters(3);
    const nodes = new RedNodes(servers);
    const client = await nodes.client({ lockWatchdogTimeout: 18_000 });
    const lock = client.lock(uniqueName());
    await lock.acquire();
    // In the order of `await using a, b, c`.
    await client.members[2]!.close();
    await client.members[1]!.close();
    const startedAtMs = performance.now();
    await client.members[0]!.close();
    const tookMs = performance.now() - startedAtMs;
    expect(tookMs).toBeLessThan(3_000);
  });
});

it('clients that close at the same time release all their holds, and do not wait for each other', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await nodes.loadScripts();
  const client = await nodes.client({ lockWatchdogTimeout: 30_000 });
  const prefix = uniqueName();
  for (let count = 0; count < 300; count++) await client.lock(`${prefix}-${count}`).acquire();
  const startedAtMs = performance.now();
  await client[Symbol.asyncDispose](); // all three at once
  const tookMs = performance.now() - startedAtMs;
  const left = await nodes.ask(async (redis) => (await redis.keys(`${prefix}*`)).length);
  expect(tookMs).toBeLessThan(3_000);
  expect(left).toEqual([0, 0, 0]);
});
