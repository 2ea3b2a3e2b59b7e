// The Redlock keeps the contract that all kinds of lock keep, over three real masters.
import { afterAll, beforeAll } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { lockContract } from '../../support/lock-contract.js';
import { startMasters } from '../../support/redis-topologies.js';

let masters: Awaited<ReturnType<typeof startMasters>>;
/** For the client of the first master, those of the others. */
const others = new WeakMap<Holdfast, Holdfast[]>();

beforeAll(async () => {
  masters = await startMasters(3);
});

afterAll(async () => {
  await masters[Symbol.asyncDispose]();
});

lockContract('Redlock', {
  className: 'RedLock',
  newClient: (options) => {
    const [client, ...rest] = masters.map(({ url }) => newClient({ ...options, redis: url }));
    others.set(client!, rest);
    const close = client!.close.bind(client);
    client!.close = async () => {
      await close();
      await Promise.all(rest.map((other) => other.close()));
    };
    return client!;
  },
  getLock: (client, name) => {
    const locks = [client, ...others.get(client)!].map((each) => each.getLock(name));
    // The first attempt of a new client connects to all three, which may take a busy machine over a second.
    return client.getRedLock(...locks, { nodeTimeout: 2_500, restartGuard: false });
  },
});
