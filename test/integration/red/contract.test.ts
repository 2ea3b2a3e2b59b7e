// The Redlock, over plain locks and over fenced ones, keeps the contract that all kinds of lock keep, over three real masters.
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

for (const isFenced of [false, true]) {
  lockContract(isFenced ? 'fenced Redlock' : 'Redlock', {
    className: isFenced ? 'FencedRedLock' : 'RedLock',
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
      const clients = [client, ...others.get(client)!];
      const locks = clients.map((each) => each[isFenced ? 'getFencedLock' : 'getLock'](name));
      // The first attempt of a new client connects to all three, which may take a busy machine over a second.
      return client.getRedLock(...locks, { nodeTimeout: 2_500, restartGuard: 1 });
    },
  });
}
