// The port to a client library: one attempt at one connection to one server, and nothing else. Reconnecting, Sentinels, clusters and
// subscriptions are written once above it, the same for every library. A library gets a folder beside `ioredis/` that implements `Library`;
// test/support/port-contract.ts is what it has to pass.

import type { Clock } from '../runtime/clock.js';

/** What a command is sent with; a number goes as its decimal digits. */
export type Argument = string | number;

/** Where one server is. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

/** What a connection is for. A Sentinel may want other credentials and TLS than the servers that it watches. */
export type Purpose = 'commands' | 'subscriptions' | 'sentinel';

/** Translates the address by which servers call each other into the one at which we reach them; undefined: they are the same. */
export type Remap = (
  announced: string,
) => { readonly host: string; readonly port: number } | undefined;

/** Where Redis is, as the user said it. */
export type Target =
  | { readonly kind: 'single'; readonly address: Address; readonly database: number }
  | {
      readonly kind: 'sentinel';
      /** The name by which Sentinels know the master. */
      readonly name: string;
      readonly database: number;
      readonly sentinels: readonly Address[];
      /** Whether only those Sentinels are asked, and not the others that they know. */
      readonly isFixed: boolean;
      readonly remap: Remap;
    }
  | {
      readonly kind: 'cluster';
      readonly startup: readonly Address[];
      readonly remap: Remap;
      /** How often slots are looked up without a reason, in milliseconds; 0: never. */
      readonly refreshMs: number;
    };

/** A client library, and what its user said of one Redis. */
export interface Library {
  readonly target: Target;
  /** The key prefix of the user's own client. Our connections have none. */
  readonly keyPrefix: string;
  /** What our connections are called in the server's list of clients. We name them: a library would do so again and again where that is denied. */
  readonly connectionName?: string | undefined;
  /** Its time; without: that of the process. */
  readonly clock?: Clock;
  /** A number from 0 to 1, as `Math.random()` gives it, which is the default. */
  readonly random?: () => number;
  /**
   * Begins one attempt at one connection. Reads the user's options (TLS, credentials, client name …) now, since tokens expire. Never throws:
   * what is wrong is the reason of `ended`. Tells nothing before it has returned.
   */
  open(address: Address, purpose: Purpose, heard: Heard): Connection;
}

/** The method by which an object is known that is a library itself: a server in memory. (Each copy of this package has the same symbol.) */
export const LIBRARY: unique symbol = Symbol.for('holdfast.library');

export interface LibrarySource {
  [LIBRARY](): Library;
}

/** What a connection tells. */
export interface Heard {
  /** The server has taken our credentials, if there are any, and commands can be sent. At most once. */
  readonly ready: () => void;
  /**
   * Gone for good: not reached, refused, lost, out of step, or closed by us. Exactly once. undefined: nobody said why. All that was unanswered
   * has failed before, or fails in the same turn.
   */
  readonly ended: (reason: Error | undefined) => void;
  readonly message: (channel: string, payload: string) => void;
  /** The server has unsubscribed sharded channels unasked, since their slot has moved. The library need not know which. */
  readonly moved: () => void;
}

/** What takes commands. */
export interface Sender {
  /**
   * Sends a command once. Resolves to what `read` makes of the reply, or `failed` of the failure; they are called by the very promise that is
   * returned, so that a command costs no other.
   *
   * Under RESP2 and RESP3 an integer is a number, every kind of string a string (of UTF-8), an array an array, and nil null.
   *
   * A failure is one of these, and none holds a password:
   * - an error called `ReplyError`, with the server's words: it answered
   * - `UnsentError`: the command was not written
   * - `LostError`: the connection is gone, and nobody said why; the command may have run
   * - any other error: the connection is gone for this reason; the command may have run
   */
  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
  ): Promise<T>;
  /** Has all that is sent until the end of this turn of the event loop written in one go. It need not do so. */
  gather(): void;
  /** Writes what was gathered now, without waiting for the end of the turn. */
  flush(): void;
}

/** One connection, from the attempt to make it until it has ended. */
export interface Connection extends Sender {
  /** Grows with all that is read: by bytes, or by replies and messages where the library hides its socket. */
  readonly bytesRead: number;
  /** Whether it speaks TLS. */
  readonly isTls: boolean;
  /** Subscribes classic channels together, or a single sharded one. `answered` comes exactly once, unless the connection ends first. */
  subscribe(
    channels: readonly string[],
    isSharded: boolean,
    answered: (refusal: Error | undefined) => void,
  ): void;
  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void;
  /** Ends it, whatever it is doing; resolves when the socket is gone. */
  close(): Promise<void>;
}

export function textOf(address: Address): string {
  return 'path' in address ? address.path : `${address.host}:${String(address.port)}`;
}

/** The address in a text such as `host:port`; an IPv6 address may stand there without brackets. */
export function addressIn(text: string): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
}
