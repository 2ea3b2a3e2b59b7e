// Loops of calls that are answered without I/O still let the event loop run timers, sockets and renewals.
import { beforeEach, describe, expect, inject, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import { connectedClient, eventsOf, newClient, nextEvent } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

let name: string;

beforeEach(() => {
  name = uniqueName();
});

const kinds: [string, (client: Holdfast) => Lock][] = [
  ['reentrant lock', (client) => client.getLock(name)],
  ['fenced lock', (client) => client.getFencedLock(name)],
  ['MultiLock', (client) => client.getMultiLock(client.getLock(name))],
];

describe.each(kinds)('a loop that tries a %s that the same client holds', (_title, lockOf) => {
  it.each([
    ['tryLock', (lock: Lock) => lock.tryLock()],
    ['tryAcquire', (lock: Lock) => lock.tryAcquire()],
    ['acquire', (lock: Lock) => lock.acquire({ wait: 0 }).catch(() => undefined)],
  ])(
    'by %s() acquires it when it is released, and it is renewed until then',
    async (_call, attempt) => {
      await using client = await connectedClient({ lockWatchdogTimeout: 3_000 });
      const lost = eventsOf(client, 'lost');
      const lock = lockOf(client);
      const hold = await lock.acquire();
      const released = nextEvent(client, 'renewed').then(() => hold.release());
      let got: unknown;
      while (!(got = await attempt(lock))) expect(lost).toEqual([]);
      await released;
      expect(lost).toEqual([]);
      if (got === true) await lock.unlock();
      else await (got as AsyncDisposable)[Symbol.asyncDispose]();
    },
  );
});

it('a loop that tries a lock of a sibling inside the same holder acquires it when the sibling is done', async () => {
  await using client = await connectedClient({ lockWatchdogTimeout: 3_000 });
  const lost = eventsOf(client, 'lost');
  const lock = client.getLock(name);
  await lock.withLock(async () => {
    const entered = nextEvent(client, 'acquired');
    const sibling = lock.withLock(() => nextEvent(client, 'renewed'));
    await entered;
    await client.run(async () => {
      while (!(await lock.tryLock()));
      await lock.unlock();
    });
    await sibling;
  });
  expect(lost).toEqual([]);
});

const calls: [string, (lock: Lock, client: Holdfast) => Promise<unknown>][] = [
  ['lock()', (lock) => lock.lock()],
  ['tryLock()', (lock) => lock.tryLock()],
  ['acquire()', (lock) => lock.acquire()],
  ['tryAcquire()', (lock) => lock.tryAcquire()],
  ['withLock()', (lock) => lock.withLock(() => undefined)],
  ['lock() of a MultiLock', (lock, client) => client.getMultiLock(lock).lock()],
  ['acquire() of a semaphore', (_, client) => client.getSemaphore(name, { permits: 1 }).acquire()],
  ['unlock()', (lock) => lock.unlock()],
  ['isLocked()', (lock) => lock.isLocked()],
  ['getHoldCount()', (lock) => lock.getHoldCount()],
  ['forceUnlock()', (lock) => lock.forceUnlock()],
  ['ping()', (_, client) => client.ping()],
];

describe.each(calls)('a loop of %s lets timers run', (_title, call) => {
  it('of a closed client', async () => {
    const client = newClient();
    await client.close();
    await letsTimersRun(() => call(client.getLock(name), client));
  });

  it('of a client that the server refuses', async () => {
    await using client = refusedClient();
    await eventually(() => {
      expect(client.status).toBe('refused');
    });
    await letsTimersRun(() => call(client.getLock(name), client));
  });
});

describe('a loop lets timers run', () => {
  it('that extends a lost hold', async () => {
    await using client = newClient();
    const lost = nextEvent(client, 'lost');
    const hold = await client.getLock(name).acquire({ lease: 100 });
    await lost;
    await letsTimersRun(() => hold.extend(100));
  });

  it('that unlocks what is not locked, or queries the holder', async () => {
    await using client = await connectedClient({});
    const lock = client.getLock(name);
    await letsTimersRun(() => lock.unlock());
    await letsTimersRun(() => lock.isHeldByCurrentOwner());
    await letsTimersRun(() => client.getMultiLock(lock).unlock());
  });
});

/** A client with a wrong password. */
function refusedClient(): Holdfast {
  const url = new URL(inject('redisUrl'));
  url.username = 'nobody';
  url.password = 'wrong';
  const client = newClient({ redis: url.href });
  client.on('error', () => undefined);
  return client;
}

async function letsTimersRun(call: () => Promise<unknown>): Promise<void> {
  let runs = 0;
  const timer = setTimeout(() => runs++, 20);
  const endsAtMs = performance.now() + 2_000;
  while (runs === 0 && performance.now() < endsAtMs) await call().catch(() => undefined);
  clearTimeout(timer);
  expect(runs).toBe(1);
}
