// A fair lock that is held, and two clients that are to be granted it one after the other, the first one through a proxy
// for its grants.
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, inject } from 'vitest';
import type { Hold, Holdfast } from '../../src/index.js';
import { newClient } from './clients.js';
import { fairClientsPerTest } from './fair-clients.js';
import type { FairLine, Stayer } from './fair-line.js';
import { startGrantProxy, type GrantProxy } from './grant-proxy.js';

/** The lease of those that wait. The holder's is longer than a test. */
export const WAITERS_LEASE_MS = 4_000;

interface GrantedLine {
  readonly line: FairLine;
  readonly proxy: GrantProxy;
  readonly hold: Hold;
  /** Goes through the proxy. */
  readonly first: Holdfast;
  readonly second: Holdfast;
  /** The first and the second in line; each keeps the lock until it is told to end. */
  readonly twoCallers: () => Promise<[Stayer, Stayer]>;
}

/** For each test of the file that this is called in; returns the present test's. */
export function grantedLinePerTest(redis: Redis): () => GrantedLine {
  let proxy: GrantProxy;
  let hold: Hold;
  beforeEach(async () => {
    proxy = await startGrantProxy(inject('redisUrl'));
  });
  afterEach(async () => {
    await proxy[Symbol.asyncDispose]();
  });
  const clients = fairClientsPerTest(redis, () => ({
    holder: newClient({ lockWatchdogTimeout: 30_000 }),
    first: newClient({ redis: proxy.url, lockWatchdogTimeout: WAITERS_LEASE_MS }),
    second: newClient({ lockWatchdogTimeout: WAITERS_LEASE_MS }),
  }));
  beforeEach(async () => {
    const { line, holder } = clients();
    hold = await line.lockOf(holder).acquire();
  });
  return () => {
    const { line, first, second } = clients();
    const twoCallers = async (): Promise<[Stayer, Stayer]> => [
      await line.joinAndStay(first, 'first'),
      await line.joinAndStay(second, 'second'),
    ];
    return { line, proxy, hold, first, second, twoCallers };
  };
}
