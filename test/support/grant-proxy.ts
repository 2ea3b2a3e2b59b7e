// A proxy for the clients of a fair lock that holds back or loses the messages by which they are given the lock, or
// everything else.
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, inject } from 'vitest';
import type { Hold, Holdfast } from '../../src/index.js';
import { newClient } from './clients.js';
import { fairClientsPerTest, type FairLine, type Stayer } from './fair-line.js';
import { startProxy, type TcpProxy } from './tcp-proxy.js';

/** A grant as the server published it. */
export interface Grant {
  readonly channel: string;
  readonly payload: string;
}

/** Starts a proxy in front of the server at this URL. */
export async function startGrantProxy(targetUrl: string): Promise<GrantProxy> {
  const { hostname, port } = new URL(targetUrl);
  return new GrantProxy(await startProxy(Number(port), hostname));
}

export class GrantProxy implements AsyncDisposable {
  /** All grants that the server sent through here, passed on or not. */
  readonly grants: Grant[] = [];
  readonly #proxy: TcpProxy;
  #flow: 'pass' | 'hold' | 'lose' = 'pass';
  #held: (() => void)[] = [];

  constructor(proxy: TcpProxy) {
    this.#proxy = proxy;
    proxy.treatMessages((message) => {
      const grant = grantIn(message);
      if (!grant) return [0];
      this.grants.push(grant);
      if (this.#flow !== 'hold') return this.#flow === 'pass' ? [0] : [];
      return new Promise((resolve) => {
        this.#held.push(() => {
          resolve([0]);
        });
      });
    });
  }

  get url(): string {
    return this.#proxy.url;
  }

  /** What becomes of grants from now on; those held back so far are passed on if it is `pass`. */
  setGrants(flow: 'pass' | 'hold' | 'lose'): void {
    this.#flow = flow;
    if (flow === 'pass') for (const pass of this.#held.splice(0)) pass();
  }

  /** What becomes of commands and replies from now on, apart from the connection that subscribes. */
  setCommands(flow: 'pass' | 'hold'): void {
    if (flow === 'hold') this.#proxy.blackhole('both', 'others');
    else this.#proxy.heal();
  }

  /** The same of replies alone: commands reach the server. */
  setReplies(flow: 'pass' | 'hold'): void {
    if (flow === 'hold') this.#proxy.blackhole('downstream', 'others');
    else this.#proxy.heal();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#proxy[Symbol.asyncDispose]();
  }
}

function grantIn(message: Buffer): Grant | undefined {
  const [, channel, payload] =
    /^[*>]3\r\n\$\d+\r\ns?message\r\n\$\d+\r\n(holdfast_grants:.*?)\r\n\$\d+\r\n(.*)\r\n$/s.exec(
      message.toString(),
    ) ?? [];
  return channel === undefined ? undefined : { channel, payload: payload! };
}

// A fair lock that is held, and two clients that are to be granted it one after the other, the first one through a proxy
// for its grants.

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
