// A client's callers in line for a fair lock: which grants they take, how their places are renewed, and when the client queries the lock.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Hold, Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';
import { TappedRedis } from '../../support/tapped-redis.js';

const LEASE_MS = 30_000;
const CHANNEL = 'redisson_lock__channel:{orders}';

let redis: MemoryRedis;
let tap: TappedRedis;
/** The client whose scripts are recorded. */
let client: Holdfast;
/** The client that has the lock first. */
let other: Holdfast;
let held: Hold;
let ends: AbortController;
let entered: Hold[];

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] }); // time passes by advance() alone
  redis = new MemoryRedis();
  tap = new TappedRedis(redis);
  client = newClient(tap, 'me');
  other = newClient(redis, 'other');
  held = await other.getFairLock('orders').acquire();
  ends = new AbortController();
  entered = [];
});

afterEach(async () => {
  ends.abort();
  await Promise.all([client.close(), other.close()]);
  vi.useRealTimers();
});

function newClient(source: unknown, clientId: string): Holdfast {
  const made = new Holdfast({ redis: source as HoldfastOptions['redis'], clientId });
  made.on('error', () => undefined);
  return made;
}

/** `count` callers of the client wait in line; resolves when they are subscribed as well. */
async function wait(count = 1, options: { lease?: number } = {}): Promise<void> {
  for (let i = 0; i < count; i++)
    client
      .getFairLock('orders')
      .acquire({ signal: ends.signal, ...options })
      .then(
        (hold) => entered.push(hold),
        () => undefined,
      );
  await redis.advance(1);
}

function owners(): Promise<string[]> {
  return other.getFairLock('orders').getWaiters();
}

/** The nonce of the latest join or renewal. */
function nonce(): string {
  const join = tap.last('join').args[3] ?? '';
  const renewal = tap.all('renewPlaces').at(-1)?.args[1] ?? '';
  return String(Math.max(Number(join), Number(renewal)));
}

/** Whether the latest renewal or join of the place said that its client listens. */
function saidToListen(): string | undefined {
  const at = tap.sent.findLastIndex(({ name }) => name === 'join' || name === 'renewPlaces');
  const { name, args } = tap.sent[at]!;
  return name === 'join' ? args[6] : args[3];
}

/** The next renewal of the place finds it gone. */
async function gone(): Promise<void> {
  tap.answerNext('renewPlaces', ['gone']);
  await redis.advance(10_500);
}

describe('a grant', () => {
  it('is taken without a command to the server', async () => {
    await wait();
    await held.release();
    await redis.advance(0);
    expect(entered).toHaveLength(1);
    expect(tap.all('join')).toHaveLength(1);
    expect(entered[0]!.remaining()).toBeGreaterThan(LEASE_MS - 1_000);
  });

  it('counts from the sending of the renewal with its nonce', async () => {
    await wait();
    await redis.advance(14_000); // the renewal was sent 4 s ago
    await held.release();
    await redis.advance(0);
    expect(entered[0]!.remaining()).toBeLessThanOrEqual(LEASE_MS - 4_000);
    expect(entered[0]!.remaining()).toBeGreaterThan(LEASE_MS - 5_000);
  });

  it('of a fixed lease lasts that long from the turn on, and is confirmed', async () => {
    await wait(1, { lease: 5_000 });
    await redis.advance(9_000);
    await held.release();
    await redis.advance(0);
    expect(entered[0]!.remaining()).toBeLessThanOrEqual(5_000);
    expect(entered[0]!.remaining()).toBeGreaterThan(4_500);
    expect(tap.last('confirm').args.slice(0, 2)).toEqual([entered[0]!.ownerId, '5000']);
  });

  it("with less than half of its place's lease left is only taken when the server confirms it", async () => {
    await wait();
    tap.deafen();
    const release = tap.holdAnswers('renewPlaces');
    const first = nonce();
    const [owner] = await owners();
    await held.release();
    await redis.advance(LEASE_MS / 2);
    await tap.tellGrant(`${first} ${owner ?? ''}`);
    expect(tap.all('join')).toHaveLength(2);
    expect(entered).toHaveLength(1);
    release();
  });

  it.each([
    ['a nonce that its place never had', (owner: string) => `999 ${owner}`],
    ['no nonce', (owner: string) => owner],
    ['something that is no nonce', (owner: string) => `1x ${owner}`],
    ['a negative nonce', (owner: string) => `-1 ${owner}`],
    ['a nonce with an exponent', (owner: string) => `1e3 ${owner}`],
    ['a token that is none', (owner: string) => `1:0x10 ${owner}`],
    ['no token behind the colon', (owner: string) => `1: ${owner}`],
    ['no owner', () => '1:5'],
    ['the name of somebody else', () => '1 you:99'],
    ['nothing', () => ''],
    ['a list of nothing', () => '["'],
    ['an end that is none', () => 'end 5'],
  ])('with %s changes nothing', async (_what, say) => {
    await wait();
    const [owner = ''] = await owners();
    const { length } = tap.sent;
    await tap.tellGrant(say(owner));
    await redis.advance(5_000);
    expect(entered).toEqual([]);
    expect(tap.sent).toHaveLength(length);
    await held.release();
    await redis.advance(0);
    expect(entered).toHaveLength(1);
  });

  it('with a nonce older than that of an answered renewal is refused', async () => {
    await wait();
    const older = nonce();
    const [owner = ''] = await owners();
    await redis.advance(10_500);
    expect(Number(nonce())).toBeGreaterThan(Number(older));
    await tap.tellGrant(`${older} ${owner}`);
    expect(entered).toEqual([]);
  });

  it('that was lost is found by the next renewal', async () => {
    await wait();
    tap.deafen();
    await held.release();
    await redis.advance(1);
    expect(entered).toEqual([]);
    await redis.advance(10_500);
    expect(entered).toHaveLength(1);
    expect(tap.all('join')).toHaveLength(1);
  });

  it('of a fixed lease that was lost is confirmed when a renewal has found it', async () => {
    await wait(1, { lease: 2_000 });
    tap.deafen();
    await held.release();
    await redis.advance(10_500);
    expect(entered).toHaveLength(1);
    const [holder] = redis.holders('orders');
    expect(holder).toMatchObject({ ownerId: entered[0]!.ownerId, count: 1 });
    expect(holder!.remaining).toBeLessThanOrEqual(2_000);
  });

  it('that comes again while the lock is held, or after its release, changes nothing', async () => {
    await wait();
    const message = `${nonce()} ${(await owners())[0] ?? ''}`;
    await held.release();
    await redis.advance(0);
    const { length } = tap.sent;
    await tap.tellGrant(message);
    expect(tap.sent).toHaveLength(length);
    await entered[0]!.release();
    await tap.tellGrant(message);
    expect(redis.holders('orders')).toEqual([]);
  });

  it('for a caller that gave up goes to the next one', async () => {
    await wait(2);
    tap.deafen();
    const message = `${nonce()} ${(await owners())[0] ?? ''}`;
    await held.release();
    ends.abort();
    await redis.advance(1);
    await tap.tellGrant(message);
    await redis.advance(1);
    expect(redis.holders('orders')).toEqual([]);
    expect(redis.keys()).toEqual([]);
  });

  it.each(['beside others of its client', 'when the others of its client have left'])(
    'that overtakes the answer to the join is taken when that comes: %s',
    async (beside) => {
      await wait();
      if (beside.startsWith('when')) {
        ends.abort();
        ends = new AbortController();
        await redis.advance(1);
      }
      const answer = tap.holdAnswers('join');
      await wait();
      const owner = (await owners()).at(-1);
      await tap.tellGrant(`${tap.last('join').args[3] ?? ''} ${owner ?? ''}`);
      expect(entered).toEqual([]);
      answer();
      await redis.advance(0);
      expect(entered.map(({ ownerId }) => ownerId)).toEqual([owner]);
    },
  );

  it('from before its place was gone is refused while the caller joins again', async () => {
    await wait();
    const older = nonce();
    const [owner = ''] = await owners();
    const answer = tap.holdAnswers('join');
    await gone();
    await tap.tellGrant(`${older} ${owner}`);
    answer();
    await redis.advance(0);
    expect(entered).toEqual([]);
    await held.release();
    await redis.advance(0);
    expect(entered).toHaveLength(1);
  });

  it('that was lost is not needed if this client released the lock', async () => {
    await held.release();
    held = await client.getFairLock('orders').acquire();
    await wait();
    tap.deafen();
    await held.release();
    await redis.advance(0);
    expect(entered).toHaveLength(1);
  });

  it('of a fenced lock without a token makes its caller ask for one', async () => {
    client
      .getFencedLock('orders', { fair: true })
      .acquire({ signal: ends.signal })
      .then(
        (hold) => entered.push(hold),
        () => undefined,
      );
    await redis.advance(1);
    const message = `${nonce()} ${(await owners())[0] ?? ''}`;
    tap.deafen();
    await held.release();
    await tap.tellGrant(message);
    await redis.advance(0);
    expect(tap.all('join')).toHaveLength(2);
    expect(entered[0]).toHaveProperty('token', expect.any(BigInt));
  });
});

describe('places', () => {
  it('are renewed many in one call, each call with a nonce of its own', async () => {
    await wait(501);
    const before = tap.all('renewPlaces').length;
    await redis.advance(10_500);
    const renewals = tap.all('renewPlaces').slice(before);
    expect(renewals.map(({ keys }) => keys.length)).toEqual([1_500, 3]);
    expect(new Set(renewals.map(({ args }) => args[1])).size).toBe(2);
  });

  it('are subscribed once for all callers, and not at all for one that gets the lock at once', async () => {
    await held.release();
    await using hold = await client.getFairLock('orders').acquire();
    expect(tap.subscribed).toEqual([]);
    await hold.release();
    held = await other.getFairLock('orders').acquire();
    await wait(3);
    expect(tap.subscribed).toEqual([tap.grantChannel, CHANNEL]);
    ends.abort();
    await redis.advance(5_000);
    expect(tap.subscribed.slice(2)).toEqual([`-${tap.grantChannel}`, `-${CHANNEL}`]);
  });

  it('that were left are no longer renewed, and leave nothing', async () => {
    await wait(2);
    ends.abort();
    await redis.advance(1);
    const before = tap.all('renewPlaces').length;
    await redis.advance(60_000);
    expect(tap.all('renewPlaces')).toHaveLength(before);
    expect(await owners()).toEqual([]);
  });

  it('are queried by each caller itself when the server refuses their renewal', async () => {
    await wait(2);
    redis.down();
    const waiting = rejectionOf(client.getFairLock('orders').acquire({ wait: 5_000 }));
    await redis.advance(6_000);
    expect(await waiting).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    redis.up();
    await redis.advance(10_000);
    expect(await owners()).toHaveLength(2);
  });

  it('that are gone are taken again with their tickets', async () => {
    await wait();
    await gone();
    const [first, again] = tap.all('join');
    expect(first!.args[4]).toBe('0');
    expect(Number(again!.args[4])).toBeGreaterThan(0);
    expect(again!.args[0]).toBe(first!.args[0]);
  });
});

describe('a place that is gone although its client listened', () => {
  it('does not claim to listen again until it has a new subscription', async () => {
    await wait();
    await gone();
    expect(saidToListen()).toBe('0');
    redis.down();
    redis.up();
    await redis.advance(2_000);
    expect(saidToListen()).toBe('1');
  });

  it('still claims to listen if the server dropped it for what it wants', async () => {
    await wait();
    tap.answerNext('renewPlaces', ['gone']);
    await tap.tellGrant(`gone ${(await owners())[0] ?? ''}`);
    await redis.advance(1);
    expect(saidToListen()).toBe('1');
  });
});

describe('the client queries the lock', () => {
  function looks(): number {
    return tap.all('handOver').length;
  }

  /** The query comes when this much time has passed, and not before. */
  async function expectNextLookIn(delayMs: number): Promise<void> {
    const before = looks();
    await redis.advance(delayMs - 2);
    expect(looks()).toBe(before);
    await redis.advance(3);
    expect(looks()).toBe(before + 1);
  }

  it('when the lease of its holder ends, once for all callers', async () => {
    await held.release();
    held = await other.getFairLock('orders').acquire({ lease: 4_000 });
    await wait(5);
    await expectNextLookIn(3_999);
    expect(entered).toHaveLength(1);
  });

  it('sooner when the holder confirms a shorter lease', async () => {
    await wait();
    await tap.tellGrant('ends 1500');
    await expectNextLookIn(1_500);
  });

  it('when it was released to nobody; and once more after further such messages, however many, during a query', async () => {
    await wait();
    const before = looks();
    const answer = tap.holdAnswers('handOver');
    for (let i = 0; i < 5; i++) await tap.tell(CHANNEL, '0');
    expect(looks()).toBe(before + 1);
    answer();
    await redis.advance(1);
    expect(looks()).toBe(before + 2);
  });

  it('no more after the last caller has left, whatever the query that is under way finds', async () => {
    await wait();
    const answer = tap.holdAnswers('handOver');
    await tap.tell(CHANNEL, '0');
    ends.abort();
    await redis.advance(1);
    const { length } = tap.sent;
    answer();
    await redis.advance(60_000);
    expect(tap.sent.slice(length).filter(({ args }) => args[0] === '')).toEqual([]);
  });

  it('and renews its places when the lock is free and nobody is in line', async () => {
    await wait(2);
    const before = tap.all('renewPlaces').length;
    tap.answerNext('handOver', [0, '', -2]);
    await tap.tell(CHANNEL, '0');
    await redis.advance(1);
    expect(tap.all('renewPlaces')).toHaveLength(before + 1);
  });
});
