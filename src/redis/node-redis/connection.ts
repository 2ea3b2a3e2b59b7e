// One attempt at one connection by node-redis 5 or 6: a client that never reconnects.

import { isReply, isShutOut, LostError, refusal, UnsentError } from '../failure.js';
import { INVALIDATIONS, type Connection, type Heard } from '../port.js';
import type { Place } from '../redis-url.js';

/** The part that we need of the package `redis`, or `@redis/client`. */
export interface NodeRedis {
  createClient(options: object): NodeRedisClient;
}

export interface NodeRedisClient {
  /** Another client of the same class; omitted options are those of this one. */
  duplicate(options: object): NodeRedisClient;
  on(event: string, listener: (value: unknown) => void): unknown;
  /** Whether it has subscribed to anything, or is about to. */
  readonly isPubSubActive: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: readonly string[]): Promise<unknown>;
  subscribe(channels: readonly string[], listener: Listener): Promise<void>;
  sSubscribe(channels: readonly string[], listener: Listener): Promise<void>;
  unsubscribe(channel: string, listener: Listener): Promise<void>;
  sUnsubscribe(channel: string, listener: Listener): Promise<void>;
}

/** `payload`: of invalidations, a list of keys, or null. */
type Listener = (payload: unknown, channel: string) => void;

/** The options of node-redis that we read; all others are passed on. */
export interface NodeRedisOptions {
  readonly url?: string | undefined;
  readonly socket?: Place & { readonly tls?: boolean | undefined };
  readonly database?: number | undefined;
  /** A Buffer is one, too. */
  readonly keyPrefix?: string | Uint8Array | undefined;
  readonly name?: string | undefined;
  readonly credentialsProvider?: { readonly type?: unknown } | undefined;
}

/** A user's provider that tells each connection of new credentials. */
interface StreamingProvider {
  readonly type: 'streaming-credentials-provider';
  subscribe(listener: CredentialsListener): Promise<[unknown, { dispose(): void }]>;
  onReAuthenticationError(error: unknown): void;
}

interface CredentialsListener {
  onNext(credentials: unknown): void;
  onError(error: unknown): void;
}

/** Our own settings of every connection, whatever the user gave. */
const OURS: object = {
  disableOfflineQueue: true,
  // We select the database and name the connection: see ioredis/connection.ts.
  database: undefined,
  name: undefined,
  disableClientInfo: true,
  readonly: false,
  pingInterval: undefined,
  commandsQueueMaxLength: undefined,
  // Otherwise version 6 makes an AbortSignal with a timer for every command.
  commandOptions: { timeout: undefined },
  // These are refused with RESP2; and the first would reconnect by itself.
  maintNotifications: 'disabled',
  clientSideCache: undefined,
  emitInvalidate: undefined,
  himportRegistry: undefined,
};

/** The names of node-redis' classes of errors. (A bundler that renames them would also break node-redis' own documentation of them.) */
const REPLY = /^(SimpleError|BlobError|ErrorReply|MultiErrorReply)$/;
const UNSENT = /^(ClientOfflineError|ClientClosedError)$/;
const LOST = /^(SocketClosedUnexpectedlyError|DisconnectsClientError)$/;

export class NodeRedisConnection implements Connection {
  /** Counts replies and messages, since the socket is private. */
  bytesRead = 0;
  isTls = false;
  readonly #heard: Heard;
  readonly #abort = new AbortController();
  readonly #client: NodeRedisClient | undefined;
  #state: 'opening' | 'ready' | 'ended' = 'opening';
  /** Why the connection has ended, as far as is known. */
  #reason: Error | undefined;
  #hasSubscribed = false;

  /**
   * `template`: is only duplicated. `readOptions`: the user's options for this attempt, with the address in `socket`; they may have
   * getters, which may throw.
   */
  constructor(template: NodeRedisClient, readOptions: () => NodeRedisOptions, heard: Heard) {
    this.#heard = heard;
    try {
      const { socket, ...options } = readOptions();
      this.isTls = Boolean(socket?.tls);
      this.#client = template.duplicate({
        ...options,
        ...OURS,
        RESP: resp2Of(template),
        credentialsProvider: this.#provider(options.credentialsProvider),
        socket: {
          ...socket,
          reconnectStrategy: false,
          socketTimeout: undefined,
          // A subscriber only listens: the kernel has to find out that the other end is gone.
          keepAlive: true,
          keepAliveInitialDelay: 10_000,
          // `destroy()` does not end a socket that is still connecting.
          signal: this.#abort.signal,
        },
      });
    } catch (error) {
      this.#fail(error);
      return;
    }
    // (Also after a reply that no command awaited: earlier replies may have gone to the wrong commands.)
    this.#client.on('error', this.#fail);
    this.#client.on('sharded-channel-moved', () => {
      if (this.#state !== 'ended') heard.moved();
    });
    const ready = (): void => {
      if (this.#state !== 'opening') return;
      this.#state = 'ready';
      heard.ready();
    };
    const asked = this.#client.connect().then(() =>
      this.send('ping', [], ready, (error) => {
        if (!isReply(error) || isShutOut(error)) throw error;
        ready();
      }),
    );
    asked.catch(this.#fail);
  }

  readonly send: Connection['send'] = (command, args, read, failed) => {
    const sent =
      this.#client?.sendCommand([command, ...args.map(String)]) ??
      Promise.reject<unknown>(new UnsentError('not connected'));
    return sent.then(
      (reply) => {
        this.bytesRead++;
        // After a refused SUBSCRIBE every string comes as a Buffer.
        return read(this.#hasSubscribed ? withoutBuffers(reply) : reply);
      },
      (error: unknown) => {
        const failure = asFailure(error);
        if (isReply(failure)) this.bytesRead++;
        return failed(failure instanceof LostError ? (this.#reason ?? failure) : failure);
      },
    );
  };

  gather(): void {
    // node-redis always writes at the end of the turn
  }

  flush(): void {
    // node-redis cannot
  }

  readonly subscribe: Connection['subscribe'] = (channels, isSharded, answered) => {
    this.#hasSubscribed = true;
    const settled = (result: unknown): void => {
      const failure = result instanceof Error ? asFailure(result) : undefined;
      if (failure && !isReply(failure)) return;
      this.bytesRead++;
      if (this.#state !== 'ended') answered(failure);
    };
    const subscribe = isSharded ? 'sSubscribe' : 'subscribe';
    this.#client?.[subscribe](channels, this.#message).then(settled, settled);
  };

  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void {
    // If no listener is named, node-redis considers the channel subscribed until the answer, and sends no SUBSCRIBE meanwhile.
    const unsubscribe = isSharded ? 'sUnsubscribe' : 'unsubscribe';
    this.#client?.[unsubscribe](channel, this.#message).catch((error: unknown) => {
      failed(asFailure(error));
    });
  }

  async close(): Promise<void> {
    this.#end(undefined);
    await new Promise(setImmediate); // until the socket is destroyed
  }

  readonly #message: Listener = (payload, channel) => {
    this.bytesRead++;
    if (this.#state === 'ended') return;
    if (channel !== INVALIDATIONS) this.#heard.message(channel, String(payload));
    else if (Array.isArray(payload)) this.#heard.invalidated(payload.map(String));
    else if (payload === null) this.#heard.invalidated(undefined);
  };

  /**
   * The user's provider, for this connection. node-redis sends new credentials by AUTH, but drops them if it has subscribed, since the
   * server takes no AUTH then: such a connection ends, and the next one begins with them. If a connection is lost, node-redis does not end
   * its subscription to the provider, so we do.
   */
  #provider(given: NodeRedisOptions['credentialsProvider']): object | undefined {
    if (given?.type !== 'streaming-credentials-provider') return given;
    const provider = given as StreamingProvider;
    const ours: StreamingProvider = {
      type: provider.type,
      subscribe: async (listener) => {
        const [credentials, subscription] = await provider.subscribe({
          onNext: (next) => {
            if (this.#client?.isPubSubActive) this.#end(undefined);
            else listener.onNext(next);
          },
          onError: (error) => {
            listener.onError(error);
          },
        });
        const dispose = (): void => {
          subscription.dispose();
        };
        if (this.#state === 'ended') dispose();
        else this.#abort.signal.addEventListener('abort', dispose, { once: true });
        return [credentials, { dispose: () => undefined }];
      },
      onReAuthenticationError: (error) => {
        provider.onReAuthenticationError(error);
      },
    };
    return ours;
  }

  readonly #fail = (error: unknown): void => {
    this.#end(asFailure(error));
  };

  #end(reason: Error | undefined): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#reason = reason;
    this.#abort.abort();
    try {
      this.#client?.destroy();
    } catch {
      // it was closed already
    }
    // All unanswered commands fail in this turn. `ended` must not be called within a call of the user of this connection.
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }
}

const resp2 = new WeakMap<NodeRedisClient, 2 | undefined>();

/**
 * The option by which it speaks RESP2 without HELLO, which some proxies and servers do not know: version 6 has to be told, and version 5
 * sends HELLO if it is told anything. They differ in whether an option for RESP3 alone is accepted without it.
 */
function resp2Of(template: NodeRedisClient): 2 | undefined {
  if (!resp2.has(template))
    try {
      template.duplicate({ emitInvalidate: true });
      resp2.set(template, 2);
    } catch {
      resp2.set(template, undefined);
    }
  return resp2.get(template);
}

/** An error of node-redis as one of the failures that port.ts lists. None of them holds a password. */
function asFailure(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const { name } = error.constructor;
  if (REPLY.test(name)) return refusal(error.message);
  if (UNSENT.test(name)) return new UnsentError('not connected');
  return LOST.test(name) ? new LostError() : error;
}

function withoutBuffers(reply: unknown): unknown {
  if (Buffer.isBuffer(reply)) return reply.toString();
  return Array.isArray(reply) ? reply.map(withoutBuffers) : reply;
}
