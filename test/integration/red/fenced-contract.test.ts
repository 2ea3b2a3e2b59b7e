// The Redlock over fenced locks keeps the contract that all kinds of lock keep, over three real masters.
import { setTimeout as sleep } from 'node:timers/promises';
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
  await sleep(2_000); // a server counts whole seconds: so none is guarded by a guard of 1 ms
});

afterAll(async () => {
  await masters[Symbol.asyncDispose]();
});

lockContract('fenced Redlock', {
  className: 'FencedRedLock',
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
    const locks = [client, ...others.get(client)!].map((each) => each.getFencedLock(name));
    return client.getRedLock(...locks, { nodeTimeout: 1_000, restartGuard: 1 });
  },
});
