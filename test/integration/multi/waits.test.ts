// `wait` bounds a MultiLock as it bounds one lock, however many members are taken or silent.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, it } from 'vitest';
import {
  connectedClient,
  eventsOf,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { commandOf, loadScripts } from '../../support/lock-commands.js';
import { heldOnServer, membersPerTest } from '../../support/multi-locks.js';
import { uniqueName } from '../../support/unique-name.js';

/** What a call may take beyond its limit on a busy machine, apart from the time this process could not run. */
const SLACK_MS = 1_000;

const redis = sharedConnection();
const members = membersPerTest();

async function within(limitMs: number, call: () => Promise<unknown>): Promise<void> {
  using lag = new EventLoopLag();
  const startMs = performance.now();
  await call();
  expect(performance.now() - startMs).toBeLessThan(limitMs + SLACK_MS + 2 * lag.longestMs);
}

it('several members that are taken one after another share one wait', async () => {
  const { client, multi, others } = members();
  const [first, second] = await Promise.all([others.a.acquire(), others.c.acquire()]);
  const waiting = nextEvent(client, 'waiting');
  await within(600, async () => {
    const call = multi.tryLock(600);
    await waiting;
    await sleep(200);
    await first.release();
    expect(await call).toBe(false);
  });
  await second.release();
});

it('a MultiLock is acquired when its members become free one after another within the wait', async () => {
  const { client, multi, others } = members();
  const holds = await Promise.all([others.c, others.a, others.b].map((lock) => lock.acquire()));
  const waiting = nextEvent(client, 'waiting');
  const call = multi.tryLock(20_000);
  await waiting;
  for (const hold of holds) {
    await sleep(30);
    await hold.release();
  }
  expect(await call).toBe(true);
  await multi.unlock();
});

it('a wait that ends between two tries is a timeout, not an unreachable server', async () => {
  const { client, multi, others, names } = members();
  const hops = new AbortController();
  // The member that the call waits for becomes free, and by then another one is taken.
  const moving = (async () => {
    let held = await others.a.acquire();
    for (let turn = 0; !hops.signal.aborted; turn++) {
      const next = await [others.c, others.a][turn % 2]!.acquire();
      await held.release();
      held = next;
    }
    await held.release();
  })();
  const waited = eventsOf(client, 'waiting');
  const errors: string[] = [];
  for (let call = 0; call < 200; call++) {
    const waitedBefore = waited.length;
    try {
      if (await multi.tryLock(5 + (call % 20))) await multi.unlock();
    } catch (error) {
      // A call that has not waited yet has no answer yet: a busy server may take longer than the wait.
      if (waited.length > waitedBefore) errors.push(String(error));
    }
  }
  hops.abort();
  await moving;
  expect(errors).toEqual([]);
  expect(await heldOnServer(redis, names)).toEqual([{}, {}, {}]);
});

describe('with a member whose server is silent', () => {
  const proxy = proxyPerTest();

  it.each([
    ['tryLock()', 0, 400],
    ['tryLock(300)', 300, 300],
  ])(
    '%s ends in time with an error that says so, and releases the other members',
    async (_call, wait, limitMs) => {
      const { client, a, b, c, names } = members();
      await using far = await connectedClient({ redis: proxy().url, commandTimeout: 400 });
      const multi = client.getMultiLock(a, far.getLock(uniqueName('far')), b, c);
      await a.isLocked(); // connected
      proxy().blackhole();
      await within(limitMs, async () => {
        const error = await rejectionOf(multi.tryLock(wait));
        expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      });
      expect(await heldOnServer(redis, names)).toEqual([{}, {}, {}]);
      proxy().heal('drop');
    },
  );

  it('a fixed lease whose extension stays unanswered ends the call in time, and all members are released', async () => {
    const { client, other, a, names } = members();
    await loadScripts(inject('redisUrl'));
    // The client does not drop the connection before the wait is over.
    const patient = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };
    await using far = await connectedClient({ redis: proxy().url, ...patient });
    const farLock = far.getLock(uniqueName('far'));
    const multi = client.getMultiLock(farLock, a);
    await using direct = await connectedClient({ lockWatchdogTimeout: 30_000 });
    const theirs = await direct.getLock(farLock.name).acquire();
    const waiting = nextEvent(far, 'waiting');
    await within(2_000, async () => {
      const call = rejectionOf(multi.tryLock(2_000, 20_000));
      await waiting;
      const extension = proxy().holdBack(commandOf('reenter', farLock.name), 'silence');
      await theirs.release();
      await extension.happened; // the call waited for its place: now its lease is to begin anew, with that of the others
      expect(await call).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: farLock.name });
    });
    expect(await heldOnServer(redis, names.slice(0, 1))).toEqual([{}]);
    await other.getLock(names[0]!).withLock(() => undefined);
    proxy().cut(); // a new connection releases what the silent one could not
    await eventually(async () => {
      expect(await redis.exists(farLock.name)).toBe(0);
    });
  });

  it('a member that falls silent while it is held does not delay the failure of the call', async () => {
    const { client, other, a, names } = members();
    await using far = await connectedClient({
      redis: proxy().url,
      lockWatchdogTimeout: 9_000,
      commandTimeout: 3_000,
    });
    const farName = uniqueName('far');
    const multi = client.getMultiLock(far.getLock(farName), a);
    await using theirs = await other.getLock(names[0]!).acquire();
    const waiting = nextEvent(client, 'waiting');
    await within(500, async () => {
      const call = multi.tryLock(500);
      await waiting;
      proxy().blackhole();
      const outcome = await call.catch((error: unknown) => (error as { code: string }).code);
      expect([false, 'REDIS_UNAVAILABLE']).toContain(outcome);
    });
    expect(theirs.remaining()).toBeGreaterThan(0);
    proxy().heal('drop');
  });
});
