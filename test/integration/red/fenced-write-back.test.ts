// The token of a fenced Redlock on its way to the masters: lost, late, doubled, refused, or behind another client's token.
import { Redis } from 'ioredis';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { counterOf, expectGrowing, passThrough } from '../../support/fenced-locks.js';
import { commandOf } from '../../support/lock-commands.js';
import { redNodes, type RedClient } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const HOUR_US = 3_600_000_000n;

/** No connection is dropped for its silence during a test. */
const PATIENT = { lockWatchdogTimeout: 60_000 };

const nodes = redNodes(() => startMasters(3));
let proxies: TcpProxy[];
let name: string;
/** The command that writes the token back. */
let raising: RegExp;

beforeAll(async () => {
  await nodes.unguarded();
});

beforeEach(async () => {
  proxies = await Promise.all(nodes.servers.map(({ port }) => startProxy(port)));
  name = uniqueName('fenced-red');
  raising = commandOf('raiseToken', counterOf(name));
});

afterEach(async () => {
  await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
});

/** A client over the proxies. */
function proxied(options = {}): Promise<RedClient> {
  return nodes.client(
    options,
    proxies.map(({ url }) => url),
  );
}

describe('a token that does not reach a minority of the masters', () => {
  it.each(['holdBack', 'cutAfterForwarding', 'loseReplyTo'] as const)(
    'is valid for its holder, and the next one is larger (%s)',
    async (fault) => {
      await using client = await proxied({ commandTimeout: 5_000 });
      const lock = client.fencedLock(name);
      const { happened } = proxies[1]![fault](raising);
      const first = await passThrough(lock);
      await happened;
      const [known, , others] = await nodes.tokens(lock);
      expect([known, others]).toEqual([first, first]);
      expectGrowing([first, await passThrough(lock)]);
      await nodes.nothingLeft(lock);
    },
  );
});

describe('a token that most masters did not confirm', () => {
  it.each(['holdBack', 'cutAfterForwarding', 'loseReplyTo'] as const)(
    'is not issued: the lock is not granted, nothing is left, and the next token is larger (%s)',
    async (fault) => {
      await using client = await proxied();
      const lock = client.fencedLock(name);
      const before = await passThrough(lock);
      const faults = proxies.slice(1).map((proxy) => proxy[fault](raising));
      const error = await rejectionOf(lock.tryAcquire({ lease: 60_000 }));
      await Promise.all(faults.map(({ happened }) => happened));
      expect(error).toMatchObject({ code: 'NO_QUORUM', lockName: name });
      expect((error as Error).message).toContain('1 of 3 masters confirm it, 2 are needed');
      await nodes.nothingLeft(lock);
      const known = (await nodes.tokens(lock)).map((token) => token ?? 0n);
      const last = known.reduce((max, token) => (token > max ? token : max));
      await eventually(async () => {
        expectGrowing([before, last, await lock.tryLockAndGetToken()]);
      });
      await lock.unlock();
      await nodes.nothingLeft(lock);
    },
  );

  it('for lack of permission is reported as such, and nothing is left', async ({ skip }) => {
    // They may vote: they may write what they remember of leases.
    const rules = ['-set', '(+set ~holdfast_longest_lease:*)'];
    const setUser = (redis: Redis, ...given: string[]): Promise<unknown> =>
      redis.call('ACL', 'SETUSER', 'default', ...given);
    const permitted = await nodes.ask((redis) => setUser(redis, ...rules));
    skip(permitted.includes(undefined), 'it takes ACL selectors, of Redis 7');
    await using client = await proxied();
    const lock = client.fencedLock(name);
    const error = await rejectionOf(lock.acquire({ wait: 10_000 }));
    const left = await nodes.owners(lock);
    await nodes.ask((redis) => setUser(redis, 'clearselectors', '+@all'));
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: name });
    expect((error as Error).message).toContain(
      `NOPERM this user has no permission for one of the keys "${counterOf(name)}", which raise-token.lua needs`,
    );
    expect(left).toEqual(['', '', '']);
    await nodes.nothingLeft(lock);
    expect(await nodes.tokens(lock)).toEqual([0n, 0n, 0n]);
  });

  it('takes only its time from the lease: both round trips count', async () => {
    await using client = await proxied(PATIENT);
    for (const proxy of proxies) proxy.delay({ downstreamMs: 300 });
    const lock = client.fencedLock(name, { nodeTimeout: 5_000 });
    const startedAtMs = performance.now();
    const hold = await lock.acquire({ lease: 10_000 });
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(600 - 10);
    expect(hold.remaining()).toBeLessThanOrEqual(10_000 - 102 - 600 + 10);
    expect(hold.remaining()).toBeGreaterThan(10_000 - 102 - (performance.now() - startedAtMs) - 5);
    await hold.release();
    await nodes.nothingLeft(lock);
  });

  it('before the end of the lease acquires no lock, and nothing is left', async () => {
    await using client = await proxied(PATIENT);
    for (const proxy of proxies) proxy.delay({ downstreamMs: 600 });
    const lock = client.fencedLock(name, { nodeTimeout: 5_000 });
    const error = await rejectionOf(lock.acquire({ lease: 1_000, wait: 0 }));
    expect(error).toMatchObject({
      name: expect.stringMatching(/UnavailableError|QuorumError/) as string,
    });
    await nodes.nothingLeft(lock);
  });
});

describe('a caller that leaves while the token is on its way', () => {
  /** All masters have the token, and have not confirmed it. */
  async function underWay(): Promise<void> {
    await eventually(async () => {
      expect(await nodes.tokens({ name })).not.toContain(0n);
    });
  }

  it('by its signal leaves nothing', async () => {
    await using client = await proxied(PATIENT);
    for (const proxy of proxies) proxy.delay({ downstreamMs: 1_500 });
    const lock = client.fencedLock(name, { nodeTimeout: 20_000 });
    const aborter = new AbortController();
    const acquiring = rejectionOf(lock.acquire({ signal: aborter.signal }));
    await underWay();
    aborter.abort();
    expect(await acquiring).toMatchObject({ code: 'LOCK_ABORTED' });
    await nodes.nothingLeft(lock);
  });

  it('because its client closes leaves nothing', async () => {
    const client = await proxied(PATIENT);
    for (const proxy of proxies) proxy.delay({ downstreamMs: 1_500 });
    const lock = client.fencedLock(name, { nodeTimeout: 20_000 });
    const acquiring = rejectionOf(lock.acquire());
    await underWay();
    await client[Symbol.asyncDispose]();
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
    await nodes.nothingLeft(lock);
  });
});

it('a token that arrives twice, or late, lowers none', async () => {
  await using client = await proxied();
  const lock = client.fencedLock(name);
  const copies = proxies.map((proxy) => proxy.copyNext(raising));
  const hold = await lock.acquire();
  for (const copy of copies) await copy.deliver();
  expect(await nodes.tokens(lock)).toEqual([hold.token, hold.token, hold.token]);
  await hold.release();
  const next = await passThrough(lock);
  await eventually(async () => {
    expect(await nodes.tokens(lock)).toEqual([next, next, next]);
  });
  for (const copy of copies) await copy.deliver();
  expect(await nodes.tokens(lock)).toEqual([next, next, next]);
  expectGrowing([hold.token, next, await passThrough(lock)]);
});

it('a caller with a vote older than the previous holder still gets a larger token than that one', async () => {
  await using one = await proxied(PATIENT);
  const slow = await Promise.all(nodes.servers.slice(0, 2).map(({ port }) => startProxy(port)));
  const slowUrls = [...slow.map(({ url }) => url), nodes.urls[2]!];
  await using other = await nodes.client(PATIENT, slowUrls);
  const redis = new Redis(nodes.urls[1]!);
  // Its tokens are ahead of all clocks.
  const ahead = BigInt(Date.now()) * 1_000n + HOUR_US;
  await redis.set(counterOf(name), String(ahead), 'PX', 60_000);
  redis.disconnect();

  for (const proxy of slow) proxy.blackhole();
  const waiting = other.fencedLock(name, { nodeTimeout: 30_000 }).acquire({ lease: 60_000 });
  await eventually(async () => {
    expect(await nodes.owners({ name })).toEqual(['', '', expect.stringMatching(/./)]);
  });
  const { happened } = proxies[0]!.holdBack(raising);
  const first = await passThrough(one.fencedLock(name));
  await happened;
  expect(first).toBe(ahead + 1n);
  await eventually(async () => {
    expect(await nodes.owners({ name })).toEqual(['', '', expect.stringMatching(/./)]);
  });
  // The first master, which did not receive that token, gives its vote; the second does not.
  expect((await nodes.tokens({ name }))[0]).toBe(0n);
  await nodes.holdBy('somebody:1', { name }, [1]);
  for (const proxy of slow) proxy.heal('forward');
  const hold = await waiting;
  expectGrowing([first, hold.token]);
  await hold.release();
  await nodes.remove({ name }, [1]);
  await nodes.nothingLeft({ name });
  await Promise.all(slow.map((proxy) => proxy[Symbol.asyncDispose]()));
}, 60_000);
