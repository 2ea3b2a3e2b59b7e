// A server in memory as a client library behind the port: everything between connection and server passes a network.

import { LostError, replyError, UnsentError } from '../redis/failure.js';
import { INVALIDATIONS, type Connection, type Heard, type Library } from '../redis/port.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { inOwnContext, pauseIfLong } from '../runtime/node.js';
import type { Reply } from './lua-runtime.js';
import type { MemoryServer, Peer } from './server.js';

/** One direction of one connection. */
export interface Way {
  readonly to: 'server' | 'client';
  /** Breaks the connection, for both ends at once: messages on their way never arrive. */
  readonly cut: () => void;
  /** The messages on their way; undefined: the connection is closed, and keeps no process alive. */
  delays: Set<Timer> | undefined;
}

/** The network between clients and a server. */
export interface Network {
  /** Calls `deliver` later, after everything that was given before for this way; or never. */
  carry(way: Way, deliver: () => void): void;
}

/** A network that loses nothing: it delivers by microtask, or after a delay. */
export class WholeNetwork implements Network {
  readonly #clock: Clock;
  readonly #carries: () => void;
  #carriedCount = 0;
  /** The delivery of the message that was given last. */
  readonly #last = new WeakMap<Way, Promise<void>>();
  /** The delay of every message, in milliseconds. */
  delayMs = 0;

  /** `carries` is called for every message. */
  constructor(clock: Clock, carries: () => void = () => undefined) {
    this.#clock = clock;
    this.#carries = carries;
  }

  carry(way: Way, deliver: () => void): void {
    this.#carries();
    const last = this.#last.get(way) ?? Promise.resolve();
    const arrival = this.#arrival(way);
    this.#last.set(way, (arrival ? last.then(() => arrival) : last).then(deliver));
  }

  #arrival(way: Way): Promise<void> | undefined {
    const { delayMs } = this;
    // If fake timers tick by themselves, each pause may be a jump: one in ten counts, which is enough for a loop that never ends.
    if (delayMs === 0) return ++this.#carriedCount % 10 === 0 ? pauseIfLong() : undefined;
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(() => {
        way.delays?.delete(timer);
        resolve();
      }, delayMs);
      if (way.delays) way.delays.add(timer);
      else timer.unref();
    });
  }
}

/** Connections to the server, over this network. */
export function memoryLibrary(server: MemoryServer, network: Network): Library {
  return {
    target: { kind: 'single', address: { path: server.name }, database: 0 },
    keyPrefix: '',
    clock: server.clock,
    open: (_address, _purpose, heard) => new MemoryConnection(server, network, heard),
  };
}

class MemoryConnection implements Connection {
  readonly isTls = false;
  readonly #server: MemoryServer;
  readonly #network: Network;
  readonly #heard: Heard;
  readonly #cut = (): void => {
    this.#server.leave(this.#peer);
    if (this.#state !== 'ended') this.#end(undefined);
  };
  readonly #toServer: Way = { to: 'server', cut: this.#cut, delays: new Set() };
  readonly #toClient: Way = { to: 'client', cut: this.#cut, delays: new Set() };
  readonly #peer: Peer = {
    classic: new Set(),
    sharded: new Set(),
    lastWriteMs: -Infinity,
    backlog: undefined,
    message: (channel, payload) => {
      this.#receive(() => {
        // A publisher must not wake others in its own asynchronous context.
        inOwnContext(() => {
          if (channel !== INVALIDATIONS) this.#heard.message(channel, payload);
        });
      });
    },
    invalidated: (keys) => {
      this.#receive(() => {
        inOwnContext(() => {
          this.#heard.invalidated(keys);
        });
      });
    },
    hungUp: () => {
      this.#receive(() => {
        this.#end(undefined);
      });
    },
  };
  readonly #unanswered = new Set<(error: Error) => void>();
  #state: 'opening' | 'ready' | 'ended' = 'opening';
  #receivedCount = 0;

  constructor(server: MemoryServer, network: Network, heard: Heard) {
    this.#server = server;
    this.#network = network;
    this.#heard = heard;
    network.carry(this.#toServer, () => {
      const isAccepted = server.accept(this.#peer);
      network.carry(this.#toClient, () => {
        if (this.#state !== 'opening') return;
        if (isAccepted) this.#state = 'ready';
        if (isAccepted) inOwnContext(heard.ready);
        else this.#end(refused(server.name));
      });
    });
  }

  /** Counts replies and messages, since there are no bytes. */
  get bytesRead(): number {
    return this.#receivedCount;
  }

  readonly send: Connection['send'] = (command, args, read, failed) => {
    return this.#ask(command, args.map(String)).then(read, failed);
  };

  /** Does nothing: every command is sent at once, and all arrive in order. */
  gather(): void {
    return;
  }

  flush(): void {
    return;
  }

  readonly subscribe: Connection['subscribe'] = (channels, isSharded, answered) => {
    const isAnswered = (): void => {
      answered(undefined);
    };
    // The server never refuses it, and it fails with the connection.
    this.#ask(isSharded ? 'ssubscribe' : 'subscribe', channels).then(isAnswered, () => undefined);
  };

  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void {
    this.#ask(isSharded ? 'sunsubscribe' : 'unsubscribe', [channel]).catch(failed);
  }

  /** Closes the connection; commands that were sent still arrive. */
  close(): Promise<void> {
    if (this.#state !== 'ended') {
      this.#network.carry(this.#toServer, () => {
        this.#server.leave(this.#peer);
      });
      this.#end(undefined);
    }
    return Promise.resolve();
  }

  #ask(command: string, args: readonly string[]): Promise<unknown> {
    if (this.#state !== 'ready') return Promise.reject(new UnsentError('not connected'));
    return new Promise((resolve, reject) => {
      this.#unanswered.add(reject);
      this.#network.carry(this.#toServer, () => {
        this.#server.take(this.#peer, command, args, (reply) => {
          this.#receive(() => {
            this.#unanswered.delete(reject);
            if (isFailure(reply)) reject(replyError(reply.err));
            else resolve(plain(reply));
          });
        });
      });
    });
  }

  #receive(deliver: () => void): void {
    this.#network.carry(this.#toClient, () => {
      if (this.#state === 'ended') return;
      this.#receivedCount++;
      deliver();
    });
  }

  #end(reason: Error | undefined): void {
    this.#state = 'ended';
    for (const way of [this.#toServer, this.#toClient]) {
      for (const timer of way.delays ?? []) timer.unref();
      way.delays = undefined;
    }
    for (const reject of this.#unanswered) reject(reason ?? new LostError());
    this.#unanswered.clear();
    inOwnContext(() => {
      this.#heard.ended(reason);
    });
  }
}

function isFailure(reply: Reply): reply is Extract<Reply, { readonly err: string }> {
  return typeof reply === 'object' && reply !== null && 'err' in reply;
}

/** A reply as a client reads it. */
function plain(reply: Reply): unknown {
  if (typeof reply !== 'object' || reply === null) return reply;
  if ('map' in reply) return reply.map(plain);
  return 'ok' in reply ? reply.ok : replyError(reply.err);
}

function refused(name: string): Error {
  const error = new Error(`connect ECONNREFUSED ${name}: down() was called`);
  return Object.assign(error, { code: 'ECONNREFUSED' });
}
