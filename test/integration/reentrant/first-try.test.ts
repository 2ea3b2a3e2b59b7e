// An uncontended call sets up no waiting; an end or a failure while its only command is under way is handled all the same.
import { describe, expect, inject, it } from 'vitest';
import {
  connectedClient,
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { eventually, NEVER, settledWithin } from '../../support/time.js';
import { commandOf, loadScripts } from '../../support/lock-commands.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
const proxy = proxyPerTest();

const LONG = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };

/** A client that has sent one command to acquire `name` and gets no answer for now. */
async function acquiring(name: string) {
  await loadScripts(inject('redisUrl'));
  const client = await connectedClient({ redis: proxy().url, ...LONG });
  const copied = proxy().copyNext(commandOf('acquire', name));
  proxy().blackhole('downstream');
  const acquired = client.getLock(name).acquire();
  await copied.happened;
  await eventually(async () => {
    expect(await redis.exists(name)).toBe(1);
  });
  return { client, acquired };
}

describe('an acquisition that has run but is not answered yet', () => {
  it('ends as soon as its client closes, and its lock is free once the server answers', async () => {
    const name = uniqueName();
    const { client, acquired } = await acquiring(name);
    const closing = client.close();
    expect(await settledWithin(rejectionOf(acquired), 1_000)).toMatchObject({
      code: 'CLIENT_CLOSED',
      lockName: name,
    });
    proxy().heal();
    await closing;
    expect(await redis.exists(name)).toBe(0);
  });

  it('is repeated as the same owner when its connection is lost', async () => {
    const name = uniqueName();
    const { client, acquired } = await acquiring(name);
    const [ownerId] = await redis.hkeys(name);
    proxy().heal('drop');
    proxy().cut();
    const hold = await acquired;
    expect(hold.ownerId).toBe(ownerId);
    await hold.release();
    expect(await redis.exists(name)).toBe(0);
    await client.close();
  });

  it('waits in line like a call with a limit when somebody else has the lock', async () => {
    const name = uniqueName();
    await using holder = newClient(LONG);
    await using client = newClient(LONG);
    const held = await holder.getLock(name).acquire();
    const waiting = nextEvent(client, 'waiting');
    const acquired = client.getLock(name).acquire();
    expect(await waiting).toMatchObject({ lockName: name, holder: held.ownerId });
    await held.release();
    await (await acquired).release();
  });
});

describe('a release that has run but is not answered yet', () => {
  it('is repeated when its connection is lost, and finds the work done', async () => {
    const name = uniqueName();
    await using client = await connectedClient({ redis: proxy().url, ...LONG });
    const hold = await client.getLock(name).acquire();
    const lost = proxy().loseReplyTo(commandOf('release', name));
    const releasing = hold.release();
    await lost.happened;
    await releasing;
    expect(await redis.exists(name)).toBe(0);
  });

  it('fails after commandTimeout, and may be repeated', async () => {
    const name = uniqueName();
    await using client = await connectedClient({
      redis: proxy().url,
      ...LONG,
      commandTimeout: 300,
    });
    const hold = await client.getLock(name).acquire();
    proxy().blackhole('downstream');
    const error = await settledWithin(rejectionOf(hold.release()), 2_000);
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(error)).toContain('not known to be released: Redis did not answer within 300 ms');
    expect(hold.remaining()).toBe(0);
    proxy().heal();
    await eventually(() => hold.release());
    expect(await redis.exists(name)).toBe(0);
  });

  it('reports a loss that only the server knows of', async () => {
    const name = uniqueName();
    await using client = await connectedClient(LONG);
    const hold = await client.getLock(name).acquire();
    await redis.del(name);
    expect(await rejectionOf(hold.release())).toMatchObject({
      code: 'LOCK_LOST',
      lossReason: 'deleted',
    });
    expect(hold.signal.aborted).toBe(true);
  });

  it('lets another branch that waits for the lock enter before the answer', async () => {
    const name = uniqueName();
    await loadScripts(inject('redisUrl'));
    await using client = await connectedClient({ redis: proxy().url, ...LONG });
    const lock = client.getLock(name);
    const order: string[] = [];
    await client.run(async () => {
      await lock.lock();
      const waiting = nextEvent(client, 'waiting');
      const branch = client.detach(() =>
        lock.withLock(async (hold) => {
          order.push('branch');
          await unlocked;
          expect(await redis.hkeys(name)).toEqual([hold.ownerId]);
        }),
      );
      await waiting;
      // On a busy machine the lock may have been held too long for a hand-over.
      const ends = ['releaseTo', 'release'] as const;
      const either = ends.map((script) => commandOf(script, name).source).join('|');
      const lost = proxy().loseReplyTo(new RegExp(either, 'i'));
      const unlocked = lock.unlock().then(() => order.push('unlocked'));
      await lost.happened;
      // Without it, the waiter would poll only after 10 s.
      expect(await settledWithin(branch, 5_000)).not.toBe(NEVER);
    });
    expect(order.sort()).toEqual(['branch', 'unlocked']);
    expect(await redis.exists(name)).toBe(0);
  });
});
