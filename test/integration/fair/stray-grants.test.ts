// A join that arrives after its caller has gone makes an abandoned place: a lock that is handed to it is handed on at once.
import { beforeEach, describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { newClient, proxyPerTest, rejectionOf, sharedConnection } from '../../support/clients.js';
import { fairClientsPerTest, type Caller } from '../../support/fair-line.js';
import { commandOf } from '../../support/lock-commands.js';

/** A wait for the end of a lease or for a renewal would take longer than a test may. */
const LEASE_MS = 120_000;

const redis = sharedConnection();
const proxy = proxyPerTest();
const clients = fairClientsPerTest(redis, () => {
  const options = { lockWatchdogTimeout: LEASE_MS, commandTimeout: 10_000 };
  return {
    holder: newClient(options),
    client: newClient({ ...options, redis: proxy().url }),
    other: newClient(options),
  };
});
let hold: Hold;

beforeEach(async () => {
  const { line, holder, client } = clients();
  hold = await line.lockOf(holder).acquire();
  // So that later joins say that their grants are heard.
  const former = await aborted(() => line.join(client, 'former', { signal: aborter.signal }));
  expect(former).toMatch(/^\S+:\d+$/);
});

let aborter = new AbortController();

/** Joins, and gives up; returns its owner. */
async function aborted(join: () => Promise<Caller>): Promise<string> {
  aborter = new AbortController();
  const { ownerId, done } = await join();
  aborter.abort();
  expect(await rejectionOf(done)).toMatchObject({ code: 'LOCK_ABORTED' });
  return ownerId;
}

/** A caller of `client` joins and gives up, and then its join arrives once more. */
async function lateJoin(): Promise<string> {
  const { line, client } = clients();
  const join = proxy().copyNext(commandOf('join', line.name));
  const gone = await aborted(() => line.join(client, 'gone', { signal: aborter.signal }));
  await line.hasLength(0);
  await join.deliver();
  expect(await line.owners()).toEqual([gone]);
  return gone;
}

describe('a grant for a caller that has gone', () => {
  it('is handed on while others of that client wait in line', async () => {
    const { line, client, other } = clients();
    await lateJoin();
    const second = await line.join(client, 'second');
    const third = await line.join(other, 'third');
    await hold.release();
    await Promise.all([second.done, third.done]);
    expect(line.turns).toEqual(['second', 'third']);
  });

  it('is handed on just after the last of that client has left the line', async () => {
    const { line, other } = clients();
    await lateJoin();
    const next = await line.join(other, 'next');
    await hold.release();
    await next.done;
    expect(line.turns).toEqual(['next']);
  });
});

describe('a grant for a caller that had the lock', () => {
  it.each(['and released it', 'and lost it'])('%s, is handed on', async (end) => {
    const { line, client, other } = clients();
    const join = proxy().copyNext(commandOf('join', line.name));
    const former = await line.joinAndStay(client, 'former');
    await hold.release();
    await line.hasTurn('former');
    if (end === 'and lost it') await line.lockOf(other).forceUnlock();
    await former.end().catch((error: unknown) => {
      expect(error).toMatchObject({ code: 'LOCK_LOST' });
    });
    hold = await line.lockOf(other).acquire();
    await join.deliver();
    const next = await line.join(client, 'next');
    await hold.release();
    await next.done;
    expect(line.turns).toEqual(['former', 'next']);
    await redis.del(`holdfast_forced:{${line.name}}`);
  });
});
