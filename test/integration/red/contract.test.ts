// Redlocks keep the contract that all kinds of lock keep, over three real masters.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll } from 'vitest';
import { newClient } from '../../support/clients.js';
import { redlockContracts } from '../../support/lock-contract.js';
import { startMasters } from '../../support/redis-topologies.js';

let masters: Awaited<ReturnType<typeof startMasters>>;

beforeAll(async () => {
  masters = await startMasters(3);
  await sleep(2_000); // a server counts whole seconds, so a guard of 1 ms guards none
});

afterAll(async () => {
  await masters[Symbol.asyncDispose]();
});

// A busy machine may take over a second to answer.
redlockContracts(
  (options) => masters.map(({ url }) => newClient({ ...options, redis: url })),
  { nodeTimeout: 2_500, restartGuard: false },
  { nodeTimeout: 1_000, restartGuard: 1 },
);
