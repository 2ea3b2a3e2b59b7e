// Missing permissions to publish, subscribe or unsubscribe are reported, once; and everybody still gets the lock.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { UnavailableError, type Holdfast } from '../../../src/index.js';
import { eventsOf, newClient, nextEvent } from '../../support/clients.js';
import { eventually, NEVER, settledWithin } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { keepLock } from '../../support/kept-locks.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

expectWarnings(/^cannot (un)?subscribe /);

const lockWatchdogTimeout = 1_500;

let server: RedisServer;
let admin: Redis;

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
  await admin.ping();
});

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

/** A client whose user may do everything except what these rules take away. */
function restricted(...rules: string[]): Promise<Holdfast> {
  return restrictedWith(lockWatchdogTimeout, ...rules);
}

async function restrictedWith(leaseMs: number, ...rules: string[]): Promise<Holdfast> {
  await admin.call(
    'ACL',
    'SETUSER',
    'app',
    'reset',
    'on',
    '>secret',
    '~*',
    '&*',
    '+@all',
    ...rules,
  );
  const url = new URL(server.url);
  [url.username, url.password] = ['app', 'secret'];
  // A busy machine may take longer to connect than a third of such a lease.
  const client = newClient({
    redis: url.href,
    lockWatchdogTimeout: leaseMs,
    commandTimeout: 5_000,
  });
  await eventually(() => client.getLock('connected').isLocked());
  return client;
}

describe('a user who may not publish', () => {
  it.each([
    { kind: 'getLock', what: 'no PUBLISH at all', rules: ['-publish'] },
    { kind: 'getLock', what: 'no unlock channels', rules: ['resetchannels', '&holdfast_grants:*'] },
    { kind: 'getFairLock', what: 'no PUBLISH at all', rules: ['-publish'] },
  ] as const)('can release, and gets one warning ($kind, $what)', async ({ kind, rules }) => {
    await using client = await restricted(...rules);
    const errors = eventsOf(client, 'error');
    const lock = client[kind](uniqueName());
    for (let i = 0; i < 3; i++) await lock.withLock(() => undefined);
    await client.getLock(uniqueName()).withLock(() => undefined);
    expect(await admin.exists(lock.name)).toBe(0);
    expect(errors).toHaveLength(1);
    const { message } = errors[0]!.error;
    expect(message).toContain(`redisson_lock__channel:{${lock.name}}`);
    expect(message).toContain('permit PUBLISH (in a cluster SPUBLISH) on redisson_lock__channel:*');
  });

  it('can force a release, and gets a warning', async () => {
    await using client = await restricted('-publish');
    const errors = eventsOf(client, 'error');
    const lock = client.getLock(uniqueName());
    await using other = newClient({ redis: server.url });
    const hold = await other.getLock(lock.name).acquire();
    expect(await lock.forceUnlock()).toBe(true);
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringContaining(`redisson_lock__channel:{${lock.name}}`),
    ]);
    await hold.release().catch(() => undefined);
    await admin.del(`holdfast_forced:{${lock.name}}`);
  });

  it('can hand a fair lock over, and gets a warning that names the channel', async () => {
    await using client = await restricted('resetchannels', '&redisson_lock__channel:*');
    await using other = newClient({ redis: server.url, lockWatchdogTimeout });
    const errors = eventsOf(client, 'error');
    const name = uniqueName();
    const hold = await client.getFairLock(name).acquire();
    const next = other.getFairLock(name).acquire();
    await eventually(async () => {
      expect(await other.getFairLock(name).getQueueLength()).toBe(1);
    });
    await hold.release();
    await (await next).release(); // the renewal of its place finds this
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(
        /on channel holdfast_grants:\{.*permit PUBLISH .* on holdfast_grants:\*/,
      ),
    ]);
  });
});

describe('a user who may not subscribe', () => {
  it.each(['getLock', 'getFairLock'] as const)(
    'acquires the lock by polling, and gets one warning for each kind of channel (%s)',
    async (kind) => {
      await using client = await restricted('-subscribe');
      await using other = newClient({ redis: server.url, lockWatchdogTimeout });
      const errors = eventsOf(client, 'error');
      for (let i = 0; i < 2; i++) {
        const name = uniqueName();
        const hold = await other[kind](name).acquire();
        const waiting = nextEvent(client, 'waiting');
        const next = client[kind](name).acquire();
        await waiting;
        await sleep(100);
        await hold.release();
        await (await next).release();
      }
      const unlocks =
        /cannot subscribe to channel redisson_lock__channel:\{.*permit SUBSCRIBE .* on redisson_lock__channel:\*/;
      const grants = /cannot subscribe to channel holdfast_grants:\{.*permit SUBSCRIBE/;
      const told = errors.map(({ error }) => error.message).sort();
      const expected = kind === 'getLock' ? [unlocks] : [grants, unlocks];
      expect(told).toEqual(expected.map((words) => expect.stringMatching(words) as string));
      for (const { error } of errors) expect(error).toBeInstanceOf(UnavailableError);
    },
  );

  it('to one channel is still subscribed to the others, even on a new connection', async () => {
    const names = [uniqueName(), uniqueName(), uniqueName()] as const;
    const permitted = names.slice(1).map((name) => `&redisson_lock__channel:{${name}}`);
    await using client = await restricted('resetchannels', ...permitted);
    await using other = newClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
    const holds = await Promise.all(names.map((name) => other.getLock(name).acquire()));
    const { signal, abort } = abortable();
    const waiting = Promise.allSettled(
      names.map((name) => client.getLock(name).acquire({ signal })),
    );
    const subscribed = (): Promise<void> =>
      eventually(async () => {
        const channels = (await admin.pubsub('CHANNELS')) as string[];
        expect(channels.sort()).toEqual(permitted.map((pattern) => pattern.slice(1)).sort());
      });
    await subscribed();
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await subscribed();
    abort();
    await waiting;
    await Promise.all(holds.map((hold) => hold.release()));
  });
});

describe('a user who gets the permission to subscribe while it waits', () => {
  it.each(['getLock', 'getFairLock'] as const)(
    'is subscribed as soon as it reconnects, and got one warning (%s)',
    async (kind) => {
      // So long that only a message wakes it.
      await using client = await restrictedWith(120_000, '-subscribe');
      await using other = newClient({ redis: server.url, lockWatchdogTimeout: 120_000 });
      const errors = eventsOf(client, 'error');
      const hold = await other[kind](uniqueName()).acquire();
      const waiting = nextEvent(client, 'waiting');
      const next = client[kind](hold.lockName).acquire();
      await waiting;
      const refusals = kind === 'getLock' ? 1 : 2;
      await eventually(() => {
        expect(errors).toHaveLength(refusals);
      });
      await admin.call('ACL', 'SETUSER', 'app', '+subscribe');
      await killSubscribers();
      await eventually(async () => {
        expect(await admin.pubsub('CHANNELS', `*${hold.lockName}*`)).toHaveLength(refusals);
      });
      await hold.release();
      const granted = await settledWithin(next, 10_000);
      expect(granted).not.toBe(NEVER);
      await (await next).release();
      const denials = errors.filter(({ error }) => error.message.includes('cannot subscribe'));
      expect(denials).toHaveLength(refusals);
    },
  );

  /** Ends the connections of the user that were to subscribe. */
  async function killSubscribers(): Promise<void> {
    const clients = String(await admin.call('CLIENT', 'LIST')).split('\n');
    const ids = clients
      .filter((line) => line.includes(' user=app ') && / cmd=(s?subscribe|ping) /.test(line))
      .map((line) => /^id=(\d+)/.exec(line)![1]!);
    expect(ids).toHaveLength(1);
    await admin.call('CLIENT', 'KILL', 'ID', ids[0]!);
  }
});

describe('a user who may not use the channels for wishes', () => {
  const rules = ['resetchannels', '&redisson_lock__channel:*', '&holdfast_grants:*'];
  const leaseMs = 30_000;

  it('keeps nothing, and gets one warning', async () => {
    await using client = await restrictedWith(leaseMs, ...rules);
    const errors = eventsOf(client, 'error');
    for (const name of [uniqueName(), uniqueName()]) {
      const lock = client.getLock(name, { keep: 3_000 });
      for (let i = 0; i < 5; i++) await lock.withLock(() => sleep(50));
      expect(client.stats().kept).toBe(0);
      expect(await admin.exists(name)).toBe(0);
    }
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(
        /cannot subscribe to channel holdfast_wishes:.*no lock is kept; permit SUBSCRIBE on holdfast_wishes:\*/,
      ),
    ]);
  });

  it('waits for what others keep until they release it, and gets one warning', async () => {
    await using keeper = newClient({ redis: server.url, lockWatchdogTimeout: leaseMs });
    await using client = await restrictedWith(leaseMs, ...rules);
    const errors = eventsOf(client, 'error');
    const { name } = await keepLock(keeper, uniqueName(), 2_000);
    const lock = client.getLock(name);
    for (let i = 0; i < 3; i++) expect(await lock.tryLock()).toBe(false);
    await lock.withLock({ wait: 10_000 }, () => undefined);
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(/other clients keep: .*permit PUBLISH on holdfast_wishes:\*/),
    ]);
  });
});

describe('a user who may not unsubscribe', () => {
  it('keeps no channels when nobody waits, and gets one warning', async () => {
    await using client = await restricted('-unsubscribe');
    await using other = newClient({ redis: server.url, lockWatchdogTimeout: 30_000 });
    const errors = eventsOf(client, 'error');
    const warned = vi.fn();
    process.on('warning', warned);
    onTestFinished(() => void process.off('warning', warned));
    await waitInVain(client, other, 200);
    await eventually(async () => {
      expect(await admin.pubsub('CHANNELS')).toEqual([]);
    });
    const told = errors.filter(({ error }) => error.message.includes('unsubscribe'));
    expect(told.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(/cannot unsubscribe from channel .*permit UNSUBSCRIBE/),
    ]);
    expect(warned).not.toHaveBeenCalled(); // nor by Node, of listeners that accumulate
  });

  /** `count` callers each wait for a lock of their own, which somebody else holds, and give up. */
  async function waitInVain(client: Holdfast, other: Holdfast, count: number): Promise<void> {
    const names = Array.from({ length: count }, () => uniqueName());
    const holds = await Promise.all(names.map((name) => other.getLock(name).acquire()));
    const { signal, abort } = abortable();
    const waits = names.map((name) => client.getLock(name).acquire({ signal }));
    const settled = Promise.allSettled(waits);
    await eventually(async () => {
      expect(((await admin.pubsub('CHANNELS')) as string[]).length).toBeGreaterThanOrEqual(count);
    }, 20_000);
    abort();
    await settled;
    await Promise.all(holds.map((hold) => hold.release()));
  }
});

function abortable(): { signal: AbortSignal; abort: () => void } {
  const aborter = new AbortController();
  return {
    signal: aborter.signal,
    abort: () => {
      aborter.abort();
    },
  };
}
