// A name belongs to one kind of lock. A query of another kind fails and names what is there, instead of reporting a free lock.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, type Holdfast } from '../../../src/index.js';
import { newClient, rejectionOf, sharedConnection } from '../../support/clients.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let client: Holdfast;
let name: string;

beforeEach(async () => {
  name = uniqueName('kind');
  client = newClient({ lockWatchdogTimeout: 30_000 });
  await client.ping();
});

afterEach(async () => {
  await client.close();
  await redis.del(name, `redisson_lock_token:{${name}}`);
});

type Kind = 'lock' | 'read-write lock' | 'semaphore';
type Look = readonly [title: string, kind: Kind, look: () => Promise<unknown>];

/** Makes a lock or another value at the name. */
const TAKEN_BY: readonly [title: string, kind: Kind | undefined, take: () => Promise<unknown>][] = [
  ['a string', undefined, () => redis.set(name, 'text')],
  ['a list', undefined, () => redis.rpush(name, 'a')],
  ['a hash of something else', undefined, () => redis.hset(name, 'field', 'value')],
  ['a hash without an end', undefined, () => redis.hset(name, { capacity: 3, used: 0 })],
  [
    'Redisson’s read-write lock',
    undefined,
    () => redis.hset(name, { mode: 'write', 'c4d5:1:write': 1 }),
  ],
  ['a lock', 'lock', () => client.getLock(name).acquire()],
  ['a fair lock', 'lock', () => client.getFairLock(name).acquire()],
  ['a fenced lock', 'lock', () => client.getFencedLock(name).acquire()],
  ['a read lock', 'read-write lock', () => client.getReadWriteLock(name).readLock().acquire()],
  ['a write lock', 'read-write lock', () => client.getReadWriteLock(name).writeLock().acquire()],
  ['a semaphore', 'semaphore', () => client.getSemaphore(name, { permits: 3 }).acquire()],
];

const LOOKS: readonly Look[] = [
  ['isLocked()', 'lock', () => client.getLock(name).isLocked()],
  ['remainTimeToLive()', 'lock', () => client.getLock(name).remainTimeToLive()],
  ['isLocked() of a fair lock', 'lock', () => client.getFairLock(name).isLocked()],
  ['getWaiters() of a fair lock', 'lock', () => client.getFairLock(name).getWaiters()],
  ['getQueueLength()', 'lock', () => client.getFairLock(name).getQueueLength()],
  ['isLocked() of a fenced lock', 'lock', () => client.getFencedLock(name).isLocked()],
  ['getToken()', 'lock', () => client.getFencedLock(name).getToken()],
  ...(['readLock', 'writeLock'] as const).flatMap((half): Look[] => [
    [
      `isLocked() of the ${half}`,
      'read-write lock',
      () => client.getReadWriteLock(name)[half]().isLocked(),
    ],
    [
      `remainTimeToLive() of the ${half}`,
      'read-write lock',
      () => client.getReadWriteLock(name)[half]().remainTimeToLive(),
    ],
  ]),
  [
    'getWaiters() of a read-write lock',
    'read-write lock',
    () => client.getReadWriteLock(name).getWaiters(),
  ],
  [
    'availablePermits()',
    'semaphore',
    () => client.getSemaphore(name, { permits: 3 }).availablePermits(),
  ],
  [
    'getWaiters() of a semaphore',
    'semaphore',
    () => client.getSemaphore(name, { permits: 3 }).getWaiters(),
  ],
];

const FORCES: readonly Look[] = [
  ['forceUnlock()', 'lock', () => client.getLock(name).forceUnlock()],
  ['forceUnlock() of a fair lock', 'lock', () => client.getFairLock(name).forceUnlock()],
  ...(['readLock', 'writeLock'] as const).map(
    (half) =>
      [
        `forceUnlock() of the ${half}`,
        'read-write lock',
        () => client.getReadWriteLock(name)[half]().forceUnlock(),
      ] as const,
  ),
];

describe.each(TAKEN_BY)('at the name of %s', (_title, kind, take) => {
  const others = [...LOOKS, ...FORCES].filter(([, looksAt]) => looksAt !== kind);

  it.each(others)('%s throws, names the key, and changes nothing', async (_look, _kind, look) => {
    await take();
    const before = await redis.dump(name);
    const error = await rejectionOf(look());
    expect(error).toBeInstanceOf(KeyConflictError);
    expect(error).toMatchObject({ lockName: name, key: name, keyType: await redis.type(name) });
    expect(await redis.dump(name)).toEqual(before);
  });

  it('queries of its own kind are answered', async () => {
    await take();
    for (const [title, looksAt, look] of LOOKS)
      if (looksAt === kind)
        expect(await look().catch((error: unknown) => error), title).not.toBeInstanceOf(Error);
  });
});

describe('a hold whose name another kind has by now', () => {
  it.each([
    ['a lock', () => client.getLock(name)],
    ['a fair lock', () => client.getFairLock(name)],
    ['a write lock', () => client.getReadWriteLock(name).writeLock()],
  ])('%s: queries of the hold count and the holder are refused', async (_title, lockOf) => {
    await client.run(async () => {
      const lock = lockOf();
      await lock.lock(60_000);
      await redis.del(name, `holdfast_leases:{${name}}`);
      await client.detach(() => client.getSemaphore(name, { permits: 3 }).acquire());
      for (const look of [() => lock.getHoldCount(), () => lock.isHeldByCurrentOwner()])
        expect(await rejectionOf(look())).toBeInstanceOf(KeyConflictError);
      await client.getSemaphore(name, { permits: 3 }).availablePermits();
      expect(await rejectionOf(lock.unlock())).toMatchObject({ code: 'LOCK_LOST' });
    });
  });
});

it('a MultiLock reports that one of its members is something else', async () => {
  const free = client.getLock(`${name}:free`);
  const multi = client.getMultiLock(free, client.getLock(name));
  await client.getSemaphore(name, { permits: 1 }).acquire();
  for (const look of [
    () => multi.isLocked(),
    () => multi.remainTimeToLive(),
    () => multi.forceUnlock(),
  ])
    expect(await rejectionOf(look())).toMatchObject({ code: 'KEY_CONFLICT', key: name });
});

it('a Redlock reports so when most of its masters have something else, and follows the majority otherwise', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using masters = await nodes.client();
  const lock = masters.lock(name);
  const fenced = masters.fencedLock(name);
  const looks = [
    () => lock.isLocked(),
    () => lock.remainTimeToLive(),
    () => lock.forceUnlock(),
    () => fenced.getToken(),
  ];
  const take = (index: number): Promise<unknown> =>
    masters.members[index]!.getSemaphore(name, { permits: 1 }).acquire();
  await take(0);
  expect(await Promise.all(looks.map((look) => look()))).toEqual([false, -2, false, undefined]);
  await take(1);
  for (const look of looks)
    expect(await rejectionOf(look())).toMatchObject({ code: 'KEY_CONFLICT', key: name });
});
