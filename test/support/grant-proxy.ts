// A proxy for the clients of a fair lock that holds back or loses the messages by which they are given the lock, or
// everything else.
import type { Redis } from 'ioredis';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, inject } from 'vitest';
import type { Hold, Holdfast } from '../../src/index.js';
import { newClient } from './clients.js';
import { fairClientsPerTest, type FairLine, type Stayer } from './fair-line.js';
import { RespFrames } from './proxy-link.js';

/** A grant as the server published it. */
export interface Grant {
  readonly channel: string;
  readonly payload: string;
}

type Flow = 'pass' | 'hold' | 'lose';

/** Starts a proxy in front of the server at this URL. */
export async function startGrantProxy(targetUrl: string): Promise<GrantProxy> {
  const proxy = new GrantProxy(targetUrl);
  await proxy.listen();
  return proxy;
}

export class GrantProxy implements AsyncDisposable {
  /** All grants that the server sent through here, passed on or not. */
  readonly grants: Grant[] = [];
  readonly #target: { host: string; port: number };
  readonly #sockets = new Set<Socket>();
  readonly #listener: Server;
  #grantFlow: Flow = 'pass';
  #commandFlow: Flow = 'pass';
  #replyFlow: Flow = 'pass';
  #heldGrants: (() => void)[] = [];
  #heldCommands: (() => void)[] = [];
  #heldReplies: (() => void)[] = [];

  constructor(targetUrl: string) {
    const { hostname, port } = new URL(targetUrl);
    this.#target = { host: hostname, port: Number(port) };
    this.#listener = createServer((client) => {
      this.#link(client, connect(this.#target));
    });
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#listener.address() as { port: number }).port}`;
  }

  async listen(): Promise<void> {
    this.#listener.listen(0, '127.0.0.1');
    await once(this.#listener, 'listening');
  }

  /** What becomes of grants from now on; those held back so far are passed on if it is `pass`. */
  setGrants(flow: Flow): void {
    this.#grantFlow = flow;
    if (flow !== 'pass') return;
    for (const pass of this.#heldGrants.splice(0)) pass();
  }

  /** What becomes of commands and replies from now on, apart from the connection that subscribes. */
  setCommands(flow: Flow): void {
    this.#commandFlow = flow;
    if (flow !== 'pass') return;
    for (const pass of this.#heldCommands.splice(0)) pass();
  }

  /** The same of replies alone: commands reach the server. */
  setReplies(flow: Flow): void {
    this.#replyFlow = flow;
    if (flow !== 'pass') return;
    for (const pass of this.#heldReplies.splice(0)) pass();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise(setImmediate);
  }

  #link(client: Socket, server: Socket): void {
    let isSubscriber = false;
    const pass = (target: Socket, bytes: Buffer): void => {
      const send = (): void => {
        if (target.writable) target.write(bytes);
      };
      if (isSubscriber || this.#commandFlow === 'pass') send();
      else if (this.#commandFlow === 'hold') this.#heldCommands.push(send);
    };
    client.on('data', (bytes: Buffer) => {
      isSubscriber ||= /\r\ns?subscribe\r\n/i.test(bytes.toString('latin1'));
      pass(server, bytes);
    });
    const replies = new RespFrames();
    server.on('data', (bytes: Buffer) => {
      for (const frame of replies.push(bytes)) {
        if (isGrant(frame)) this.#onGrant(client, frame);
        else if (isSubscriber || this.#replyFlow === 'pass') pass(client, frame);
        else if (this.#replyFlow === 'hold') {
          this.#heldReplies.push(() => {
            pass(client, frame);
          });
        }
      }
    });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket.setNoDelay());
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }

  #onGrant(client: Socket, frame: Buffer): void {
    const [channel, payload] = frame.toString().trimEnd().split('\r\n').filter(isText).slice(-2);
    this.grants.push({ channel: channel!, payload: payload! });
    const send = (): void => {
      if (client.writable) client.write(frame);
    };
    if (this.#grantFlow === 'pass') send();
    else if (this.#grantFlow === 'hold') this.#heldGrants.push(send);
  }
}

function isGrant(frame: Buffer): boolean {
  return /^[*>]3\r\n\$\d+\r\ns?message\r\n\$\d+\r\nholdfast_grants:/.test(frame.toString('latin1'));
}

function isText(line: string): boolean {
  return !/^[$*>]\d+$/.test(line);
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
