// Redlocks work over three real masters: the contract in full is kept in memory (test/unit/contract).
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll } from 'vitest';
import type { Holdfast, HoldfastOptions } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { redlockKind } from '../../support/lock-contract-kinds.js';
import { lockCase } from '../../support/lock-contract.js';
import { startMasters } from '../../support/redis-topologies.js';

let masters: Awaited<ReturnType<typeof startMasters>>;

beforeAll(async () => {
  masters = await startMasters(3);
  await sleep(2_000); // a server counts whole seconds, so a guard of 1 ms guards none
});

afterAll(async () => {
  await masters[Symbol.asyncDispose]();
});

const newClients = (options: Partial<HoldfastOptions>): Holdfast[] =>
  masters.map(({ url }) => newClient({ ...options, redis: url }));

// A busy machine may take over a second to answer.
const plain = { nodeTimeout: 2_500, restartGuard: false } as const;
lockCase('Redlock', redlockKind('Redlock', newClients, plain));
const fenced = { nodeTimeout: 1_000, restartGuard: 1 };
lockCase('fenced Redlock', redlockKind('fenced Redlock', newClients, fenced));
