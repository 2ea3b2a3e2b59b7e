// The port to a client library: one attempt at one connection to one server, and nothing else. Reconnecting, Sentinels, clusters and
// subscriptions are written once above it, the same for every library. docs/architecture.md says how to add one.

import type { Clock } from '../runtime/clock.js';

/** What a command is sent with; a number goes as its decimal digits. */
export type Argument = string | number;

/** Where one server is. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

/**
 * What a connection is for. A Sentinel may want other credentials and TLS than the servers that it watches. A connection of the last two
 * kinds sends nothing but SUBSCRIBE, UNSUBSCRIBE and PING once it has subscribed.
 */
export type Purpose = 'commands' | 'subscriptions' | 'sentinel';

/** The channel on which a server tells of changed keys. Others may publish there, too: only a list of keys, or nothing at all, is its word. */
export const INVALIDATIONS = '__redis__:invalidate';

/** Translates the address by which servers call each other into the one at which we reach them; undefined: they are the same. */
export type Remap = (
  announced: string,
) => { readonly host: string; readonly port: number } | undefined;

/** Where Redis is, according to the user. */
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
    };

/** A client library, with its user's options for one Redis. */
export interface Library {
  readonly target: Target;
  /** The key prefix of the user's own client. Our connections have none. */
  readonly keyPrefix: string;
  /** The name of our connections in the server's client list. We set it, not the library: a denied CLIENT SETNAME does no harm then. */
  readonly connectionName?: string | undefined;
  /** Its time; undefined: that of the process. */
  readonly clock?: Clock;
  /** A number from 0 to 1, as `Math.random()` gives it, which is the default. */
  readonly random?: () => number;
  /**
   * Begins one attempt at one connection. Reads the user's options (TLS, credentials …) now, since tokens expire; `address` replaces host,
   * port and path. Speaks RESP2, and sends only AUTH or PING: no HELLO, no SELECT, no name, no INFO. Sets no time limit but the user's own for
   * connecting: we close silent connections. Never throws: the error is the reason of `ended`.
   */
  open(address: Address, purpose: Purpose, heard: Heard): Connection;
}

/** An object with this method is a library itself: a server in memory. (Each copy of this package has the same symbol.) */
export const LIBRARY: unique symbol = Symbol.for('holdfast.library');

export interface LibrarySource {
  [LIBRARY](): Library;
}

/** Callbacks of a connection; never called within a call of ours, and none after `ended`. */
export interface Heard {
  /**
   * The server has answered, and taken our credentials, if there are any; commands can be sent. At most once. (If there are none, the
   * library asks by a PING: many a proxy accepts connections while its server is gone.)
   */
  readonly ready: () => void;
  /**
   * The connection is gone for good: not reached, refused, lost, out of step, or closed by us. Exactly once, as soon as it is known. The
   * reason: the server's `ReplyError` if it refused us, or an error of the socket with its `code`; undefined: we closed it, or the reason
   * is unknown. All unanswered commands have failed before, or fail in the same turn of the event loop.
   */
  readonly ended: (reason: Error | undefined) => void;
  readonly message: (channel: string, payload: string) => void;
  /**
   * Keys have changed that another connection has read, whose CLIENT TRACKING names this one; undefined: all keys. Only for a subscriber of
   * `INVALIDATIONS`, whose messages are not passed to `message`.
   */
  readonly invalidated: (keys: readonly string[] | undefined) => void;
  /**
   * The server has unsubscribed sharded channels that we did not ask it to, since their slot has moved. The library need not know which.
   */
  readonly moved: () => void;
}

/** Sends commands. */
export interface Sender {
  /**
   * Sends a command once, after everything that was sent, subscribed and unsubscribed before, with nothing of the library's in between.
   * Like `reply.then(read, failed)` it calls one of the two, once, and rejects with what that throws; but it saves one promise, since every
   * acquisition comes this way. `send` itself never throws.
   *
   * An integer is read as a number, every kind of string as a string (of UTF-8), an array as an array, nil as null.
   *
   * A failure is one of these (failure.ts), and none holds a password, in no property and no cause:
   * - an error whose name is `ReplyError`, with the server's words: the server answered
   * - `UnsentError`: the command was not written, also because the connection is not ready, closed or gone
   * - `LostError`: the connection is gone for an unknown reason; the command may have run
   * - any other error: the connection is gone for this reason; the command may have run
   */
  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
  ): Promise<T>;
  /** Everything that is sent until the end of this turn of the event loop may be written in one go. A library may do nothing here. */
  gather(): void;
  /** Writes the gathered commands now, without waiting for the end of the turn. */
  flush(): void;
}

/** One connection, from the attempt to make it until it has ended. */
export interface Connection extends Sender {
  /** Grows with everything that is read: by bytes, or by replies and messages if the library hides its socket. */
  readonly bytesRead: number;
  /** Whether it speaks TLS. */
  readonly isTls: boolean;
  /**
   * Sends one SUBSCRIBE for all these channels, or one SSUBSCRIBE for a single one; an active subscription may be asked for again.
   * `answered` is called once: with nothing when all are subscribed, or with the server's `ReplyError` (also MOVED). It is not called if
   * the connection ends first.
   */
  subscribe(
    channels: readonly string[],
    isSharded: boolean,
    answered: (refusal: Error | undefined) => void,
  ): void;
  /** `failed`: the server refused, or the connection was lost. Success is not reported. */
  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void;
  /** Ends the connection, whatever its state; may be called again. Resolves when the socket is gone, within a second; never rejects. */
  close(): Promise<void>;
}

export function textOf(address: Address): string {
  return 'path' in address ? address.path : `${address.host}:${String(address.port)}`;
}

/** The only node outside a cluster, where nodes are named by such texts: the server that commands go to. */
export const ONLY_NODE = '';

/** The address in such a text; an IPv6 address stands there without brackets. A text without a port is the path of a socket. */
export function addressIn(text: string): Address {
  const [, host, port] = /^(.*):(\d+)$/.exec(text) ?? [];
  return host === undefined ? { path: text } : { host, port: Number(port) };
}
