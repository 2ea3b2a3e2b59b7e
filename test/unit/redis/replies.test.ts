// What a script replies: nothing but what its header says passes. Something that answers every command with `1`, `OK` or nothing is no Redis, and
// nobody gets, has or releases a lock by it.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, UnavailableError, type Hold, type HoldfastError } from '../../../src/index.js';
import { isReplyOf } from '../../../src/redis/replies.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { commandsFor, SCENARIOS } from '../../support/script-scenarios.js';
import { ScriptServer, type ScriptName } from '../../support/script-server.js';
import { TappedRedis } from '../../support/tapped-redis.js';
import { rejectionOf } from '../../support/clients.js';

/** What other servers, proxies and mix-ups answer. */
const ODD: readonly unknown[] = [
  ...[
    0,
    1,
    2,
    -1,
    -2,
    1.5,
    '',
    '0',
    '1',
    'PONG',
    'OK',
    'kept',
    'done',
    'yours',
    null,
    undefined,
    true,
  ],
  ...[[], [0], [1], [null], ['x'], ['kept'], ['done'], [1, 1], ['x', 'x'], ['x', 1], ['x', 1, '1']],
  ...[
    ['x', -2],
    ['x', 1, 1.5],
    ['1', 1],
    [1, '1'],
    [[]],
    [[1]],
    [1, [], []],
    [0, '', 0],
    [0, 0, []],
    {},
  ],
];

/** Which of them each script does give, when it is called for one lock without a fencing token; none: no reply that is so short. */
const DOCUMENTED: Record<ScriptName, readonly unknown[]> = {
  acquire: [1],
  confirm: ['kept'],
  forceUnlock: [null],
  gather: [[1], [null]],
  handOver: [[0, '', 0]],
  inspect: [null],
  join: [1, 2, ['x', 1, '1']],
  look: [null],
  raiseToken: [1, '0', '1'],
  reenter: ['kept'],
  release: [0, 1, 2],
  releaseTo: [['done']],
  remember: [1],
  renew: ['kept', ['kept']],
  renewPlaces: [[0], [1]],
  vote: [[0], [1]],
  waiters: [[], ['x'], ['kept'], ['done'], ['x', 'x']],
  weightedAdopt: ['done'],
  weightedForce: [[], ['x'], ['kept'], ['done'], ['x', 'x']],
  weightedHandOver: [[0, 0, []]],
  weightedJoin: [1, 2, ['x', 1, '1']],
  weightedLast: [null, ['1', 1]],
  weightedLook: [[1, [], []]],
  weightedRenew: [['kept']],
  weightedRenewPlaces: [[0], [1]],
  weightedSetCapacity: [1],
};

describe.each(Object.keys(DOCUMENTED) as ScriptName[])('%s', (script) => {
  const scenarios = SCENARIOS.filter((scenario) => scenario.script === script);

  it('has no other replies than the documented ones', () => {
    const { keys, args } = script === 'weightedRenew' ? oneHolder : scenarios[0]!;
    const accepted = ODD.filter((reply) =>
      isReplyOf(scripts[script], keys, args.map(String), reply),
    );
    expect(accepted).toEqual(DOCUMENTED[script]);
  });

  it.each(scenarios)('$title gives one of them', ({ before, keys, args }) => {
    const server = new ScriptServer(['grants:listening', 'grants:deaf']);
    for (const words of commandsFor(before, server.nowMs)) server.command(...words);
    const reply = server.run(script, keys, args);
    expect(isReplyOf(scripts[script], keys, args.map(String), reply)).toBe(true);
  });
});

const oneHolder = { keys: ['lock', 'leases', 'forced'], args: [0, 'me:1'] };

it.each([
  ['acquire', ['lock', 'counter'], ['me:1', '1', '1'], 1],
  ['acquire', ['lock', 'counter'], ['me:1', '1', '1'], 2],
  ['join', ['lock', 'line', 'places', 'counter'], ['me:1'], 1],
  ['releaseTo', ['lock', 'forced', 'counter'], ['me:1'], ['done']],
  ['vote', ['lock', 'longest', 'counter'], ['me:1'], [0]],
  ['gather', ['lock', 'counter'], ['f', '1', '', 'me:1', '1', '1'], [1]],
  ['acquire', ['lock'], ['me:1', '1'], '1795708800123000'],
  ['acquire', ['lock'], ['me:1', '1'], 2],
] as const)(
  '%s with %j answers a token exactly if it has a counter',
  (script, keys, args, reply) => {
    expect(isReplyOf(scripts[script], keys, args, reply)).toBe(false);
  },
);

describe('a reply that the script never gives', () => {
  let redis: MemoryRedis;
  let tap: TappedRedis;
  let client: Holdfast;

  beforeEach(async () => {
    redis = new MemoryRedis();
    tap = new TappedRedis(redis);
    client = new Holdfast({ redis: tap });
    await client.ping();
  });

  afterEach(async () => {
    await client.close();
  });

  const semaphore = () => client.getSemaphore('x', { permits: 2 });
  const readLock = () => client.getReadWriteLock('x').readLock();
  const writeLock = () => client.getReadWriteLock('x').writeLock();
  const ofHold = (call: (hold: Hold) => Promise<void>) => async (): Promise<void> => {
    await call(await client.getLock('x').acquire());
  };

  it.each<readonly [ScriptName, string, () => Promise<unknown>]>([
    ['acquire', 'acquire()', () => client.getLock('x').acquire()],
    ['acquire', 'tryLock()', () => client.getLock('x').tryLock()],
    ['acquire', 'withLock()', () => client.getLock('x').withLock(() => 'done')],
    ['acquire', 'acquire() of a fenced lock', () => client.getFencedLock('x').acquire()],
    ['join', 'tryLock() of a fair lock', () => client.getFairLock('x').tryLock()],
    [
      'join',
      'acquire() of a fenced and fair lock',
      () => client.getFencedLock('x', { fair: true }).acquire(),
    ],
    ['weightedJoin', 'tryAcquire()', () => semaphore().tryAcquire()],
    ['weightedJoin', 'tryLock() of a read lock', () => readLock().tryLock()],
    ['weightedJoin', 'lock() of a write lock', () => writeLock().lock()],
    ['reenter', 'extend()', ofHold((hold) => hold.extend(60_000).finally(() => hold.release()))],
    ['release', 'release()', ofHold((hold) => hold.release())],
    [
      'confirm',
      'release() with lockAtLeastFor',
      async () => (await client.getLock('x').acquire({ lockAtLeastFor: 100 })).release(),
    ],
    [
      'handOver',
      'release() of a fair lock',
      async () => (await client.getFairLock('x').acquire()).release(),
    ],
    [
      'weightedHandOver',
      'release() of a permit',
      async () => (await semaphore().acquire()).release(),
    ],
    ['look', 'isLocked()', () => client.getLock('x').isLocked()],
    ['look', 'remainTimeToLive()', () => client.getLock('x').remainTimeToLive()],
    ['weightedLast', 'isLocked() of a read lock', () => readLock().isLocked()],
    ['forceUnlock', 'forceUnlock()', () => client.getLock('x').forceUnlock()],
    ['weightedForce', 'forceUnlock() of a read lock', () => readLock().forceUnlock()],
    ['waiters', 'getWaiters()', () => client.getFairLock('x').getWaiters()],
    ['weightedLook', 'availablePermits()', () => semaphore().availablePermits()],
    ['weightedSetCapacity', 'setPermits()', () => semaphore().setPermits(3)],
    ['inspect', 'inspect()', () => client.inspect('x')],
  ])('of %s is the error of %s', async (script, _, call) => {
    for (const reply of [
      ['PONG', "'PONG'"],
      [-1, '-1'],
      [{}, '{}'],
      [true, 'true'],
    ] as const) {
      tap.answerNext(script, reply[0]);
      const error = (await rejectionOf(call())) as HoldfastError;
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error.message).toContain(`${scripts[script].name}.lua was answered with ${reply[1]}`);
      await redis.advance(31_000);
      expect(redis.holders('x')).toEqual([]); // what it may have done is undone, or ends
    }
  });
});

it.each<readonly [ScriptName, unknown]>([
  ['vote', 1],
  ['vote', null],
  ['vote', [1, '1']],
])('a Redlock is not acquired by %s answered with %j', async (script, reply) => {
  const first = new MemoryRedis();
  const masters = [first, new MemoryRedis({ timeOf: first }), new MemoryRedis({ timeOf: first })];
  const taps = masters.map((master) => new TappedRedis(master));
  const clients = taps.map((tap) => new Holdfast({ redis: tap }));
  await Promise.all(clients.map((client) => client.ping()));
  const lock = clients[0]!.getRedLock(...clients.map((client) => client.getLock('x')));
  for (const tap of taps) tap.answerNext(script, reply);
  const error = (await rejectionOf(lock.acquire())) as HoldfastError;
  expect(error.message).toContain(`${script}.lua was answered with`);
  await first.advance(1);
  for (const master of masters) expect(master.holders('x')).toEqual([]);
  await Promise.all(clients.map((client) => client.close()));
});
