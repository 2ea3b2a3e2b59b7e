// How long each method waits if neither its call nor its client says so.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions, type Lock } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';

let redis: MemoryRedis;
let clients: Holdfast[];

beforeEach(() => {
  redis = new MemoryRedis();
  clients = [];
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
});

async function newClient(options: Partial<HoldfastOptions> = {}): Promise<Holdfast> {
  const client = new Holdfast({ redis, ...options });
  client.on('error', () => undefined);
  clients.push(client);
  await client.ping();
  return client;
}

/** Expects that the call fails after so long, and not earlier. Returns its error. */
async function failsAfter(ms: number, call: Promise<unknown>): Promise<unknown> {
  let error: unknown;
  void rejectionOf(call).then((reason) => (error = reason));
  await redis.advance(ms - 900);
  expect(error).toBeUndefined();
  await redis.advance(1_000);
  expect(error).toBeInstanceOf(Error);
  return error;
}

const DEFAULT = '45000 ms (the default; option "wait" sets another)';

type LockOf = (client: Holdfast) => Lock;

const plain: LockOf = (client) => client.getLock('a');
const write: LockOf = (client) => client.getReadWriteLock('a').writeLock();
/** With what another owner holds it. */
const kinds: [string, LockOf, LockOf][] = [
  ['reentrant lock', plain, plain],
  ['kept lock', (client) => client.getLock('a', { keep: 100 }), plain],
  ['fair lock', (client) => client.getFairLock('a'), plain],
  ['fenced lock', (client) => client.getFencedLock('a'), plain],
  ['read lock', (client) => client.getReadWriteLock('a').readLock(), write],
  ['write lock', write, write],
  ['MultiLock', (client) => client.getMultiLock(plain(client)), plain],
  ['Redlock', (client) => client.getRedLock(plain(client), { restartGuard: false }), plain],
];

const patient: [string, (lock: Lock) => Promise<unknown>][] = [
  ['acquire()', (lock) => lock.acquire()],
  ['withLock()', (lock) => lock.withLock(() => undefined)],
  ['withLock() with other options', (lock) => lock.withLock({ lease: 900 }, () => undefined)],
];

describe.each(kinds)('a %s that another owner has', (_, lockOf, held) => {
  it.each(patient)('is waited for by %s for 45 s', async (_call, call) => {
    const [client, other] = [await newClient(), await newClient()];
    const hold = await held(other).acquire();
    const error = await failsAfter(45_000, call(lockOf(client)));
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(String(error)).toContain(`not acquired within ${DEFAULT}: `);
    await hold.release();
  });

  it('is waited for by lock(), and where Infinity is said, for ever', async () => {
    const [client, other] = [await newClient(), await newClient()];
    const hold = await held(other).acquire();
    const lock = lockOf(client);
    let entered = 0;
    const waiting = [
      client.run(async () => {
        await lock.lock();
        entered++;
        await lock.unlock();
      }),
      lock.withLock({ wait: Infinity }, () => {
        entered++;
      }),
    ];
    await redis.advance(600_000);
    expect(entered).toBe(0);
    await hold.release();
    await redis.advance(2_000);
    await Promise.all(waiting);
    expect(entered).toBe(2);
  });

  it('is waited for as long as the client says, by lock(), too', async () => {
    const [client, other] = [await newClient({ wait: 7_000 }), await newClient()];
    const hold = await held(other).acquire();
    const calls: Promise<unknown>[] = patient.map(([, call]) => call(lockOf(client)));
    const outcomes = Promise.all([lockOf(client).lock(), ...calls].map(rejectionOf));
    await redis.advance(7_200);
    for (const error of await outcomes)
      expect(String(error)).toMatch(/not acquired within 7000 ms: /);
    await hold.release();
  });

  it('is tried once by tryLock() and tryAcquire()', async () => {
    const [client, other] = [await newClient(), await newClient()];
    const hold = await held(other).acquire();
    expect(await lockOf(client).tryLock()).toBe(false);
    expect(await lockOf(client).tryAcquire()).toBeUndefined();
    await hold.release();
  });
});

it.each(['acquire', 'withPermits'] as const)(
  'permits are waited for by %s() for 45 s',
  async (method) => {
    const [client, other] = [await newClient(), await newClient()];
    const hold = await other.getSemaphore('a', { permits: 1 }).acquire();
    const ours = client.getSemaphore('a', { permits: 1 });
    const call = method === 'acquire' ? ours.acquire() : ours.withPermits(() => undefined);
    const error = await failsAfter(45_000, call);
    expect(String(error)).toContain(`1 permit not acquired within ${DEFAULT}: `);
    await hold.release();
  },
);

it('the default follows lockWatchdogTimeout, and so outlasts the lease of a holder that has died', async () => {
  const options = { lockWatchdogTimeout: 6_000 };
  const [client, other] = [await newClient(options), await newClient(options)];
  const hold = await other.getLock('a').acquire();
  const error = await failsAfter(9_000, client.getLock('a').acquire());
  expect(String(error)).toContain('within 9000 ms (the default; ');
  await hold.release();

  await other.getLock('b').acquire({ lease: 6_000 }); // as one whose holder does nothing any more
  const next = client.getLock('b').acquire();
  await redis.advance(6_500);
  await (await next).release();
});

it('the default of a MultiLock follows the longest lockWatchdogTimeout of its members', async () => {
  const client = await newClient({ lockWatchdogTimeout: 6_000 });
  const slow = await newClient({ lockWatchdogTimeout: 20_000 });
  const hold = await (await newClient()).getLock('b').acquire();
  const both = client.getMultiLock(client.getLock('a'), slow.getLock('b'));
  const error = await failsAfter(30_000, both.acquire());
  expect(String(error)).toContain('within 30000 ms (the default; ');
  await hold.release();
});

it('a Redis that is down is waited for as long, and the error says so', async () => {
  const client = await newClient();
  redis.down();
  const error = await failsAfter(45_000, client.getLock('a').acquire());
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toContain(`Redis did not answer within ${DEFAULT}`);
  redis.up();
  await redis.advance(2_000);
});

it('a Redis that stops answering in the first try is given up when the wait is over', async () => {
  const client = await newClient();
  redis.delay(9_000);
  const error = await failsAfter(5_000, client.getLock('a').acquire({ wait: 5_000 }));
  expect(String(error)).toContain('not acquired: Redis did not answer within 5000 ms');
  redis.delay(0);
  await redis.advance(20_000);
});
