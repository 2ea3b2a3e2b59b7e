// Each kind of lock keeps the contract that all kinds of lock keep, on a server in memory.
import { afterAll, beforeAll, vi } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { lockContract } from '../../support/lock-contract.js';

// The contract sleeps by real timers where there is a real server; here all time is fake, and passes while nothing else happens.
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)),
}));

beforeAll(() => {
  vi.useFakeTimers();
  vi.setTimerTickMode('nextTimerAsync');
});

afterAll(() => {
  vi.useRealTimers();
});

const redis = new MemoryRedis();
const others = [1, 2].map(() => new MemoryRedis({ timeOf: redis }));
const newClient = (options: Partial<HoldfastOptions>): Holdfast =>
  new Holdfast({ redis, ...options });

lockContract('reentrant lock', {
  className: 'Lock',
  newClient,
  getLock: (client, name) => client.getLock(name),
});

lockContract('fair lock', {
  className: 'FairLock',
  newClient,
  getLock: (client, name) => client.getFairLock(name),
});

lockContract('fenced lock', {
  className: 'FencedLock',
  newClient,
  getLock: (client, name) => client.getFencedLock(name),
});

lockContract('fenced fair lock', {
  className: 'FencedFairLock',
  newClient,
  getLock: (client, name) => client.getFencedLock(name, { fair: true }),
});

lockContract('write lock', {
  className: 'WriteLock',
  newClient,
  getLock: (client, name) => client.getReadWriteLock(name).writeLock(),
});

lockContract('read lock', {
  className: 'ReadLock',
  newClient,
  getLock: (client, name) => client.getReadWriteLock(name).readLock(),
  getRival: (client, name) => client.getReadWriteLock(name).writeLock(),
});

lockContract('multi lock', {
  className: 'MultiLock',
  newClient,
  membersTell: true,
  getLock: (client, name) =>
    client.getMultiLock(client.getLock(`${name}:reentrant`), client.getFairLock(`${name}:fair`)),
});

/** For the client of the first master of a Redlock, those of the others. */
const members = new WeakMap<Holdfast, readonly Holdfast[]>();

function newRedClient(options: Partial<HoldfastOptions>): Holdfast {
  const client = newClient(options);
  const rest = others.map((other) => newClient({ ...options, redis: other }));
  members.set(client, rest);
  const close = client.close.bind(client);
  client.close = async () => {
    await Promise.all([close(), ...rest.map((other) => other.close())]);
  };
  return client;
}

lockContract('Redlock', {
  className: 'RedLock',
  newClient: newRedClient,
  getLock: (client, name) => {
    const locks = [client, ...members.get(client)!].map((each) => each.getLock(name));
    return client.getRedLock(...locks, { restartGuard: false });
  },
});

lockContract('fenced Redlock', {
  className: 'FencedRedLock',
  newClient: newRedClient,
  getLock: (client, name) => {
    const locks = [client, ...members.get(client)!].map((each) => each.getFencedLock(name));
    return client.getRedLock(...locks);
  },
});
