// One attempt at one connection by ioredis 5 or 6: a `Redis` that never reconnects.

import type { Socket } from 'node:net';
import type * as ioredisModule from 'ioredis';
import type { Redis } from 'ioredis';
import {
  failureKind,
  isReply,
  isShutOut,
  LostError,
  refusal,
  replyError,
  UnsentError,
} from '../failure.js';
import { INVALIDATIONS, type Argument, type Connection, type Heard } from '../port.js';

export type Ioredis = Pick<typeof ioredisModule, 'Redis' | 'Command'>;

/** Our own settings of every connection, whatever the user gave. */
const OURS: object = {
  // This alone makes a client one attempt.
  retryStrategy: () => null,
  reconnectOnError: null,
  lazyConnect: false,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // We greet the server ourselves, and set the connection's name.
  enableReadyCheck: false,
  connectionName: undefined,
  disableClientInfo: true,
  // ioredis calls a connection ready even if its SELECT was refused: so we select the database.
  db: 0,
  // Otherwise it would ask Sentinels.
  sentinels: undefined,
  // We add the prefix ourselves: ioredis would not prefix channels.
  keyPrefix: '',
  readOnly: false,
  monitor: false,
  stringNumbers: false,
  // Some proxies and servers do not know the HELLO that begins RESP3, and we need nothing of it.
  protocol: 2,
  // We set the time limits. (The `socketTimeout` of ioredis 5 outlives its connection.)
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  // ioredis 6 would announce them on each connection, which servers without them refuse.
  himportFieldsets: undefined,
  // A subscriber only listens: the kernel has to find out that the other end is gone.
  keepAlive: 10_000,
  // How long a socket may take to close before it is destroyed.
  disconnectTimeout: 200,
};

const UTF8 = { replyEncoding: 'utf8' } as const;

/** ioredis' error for a command that found no open socket: only this one says that the command was not written. */
const UNSENT = "Stream isn't writeable";

const LOST = /^(Connection is closed|Command aborted)/;

/** ioredis' error for a reply that no command awaited, and how it ends in ioredis 5 if the slot of a sharded channel has moved. */
const UNAWAITED = 'Command queue state error';
const UNSUBSCRIBED = ' Last reply: sunsubscribe,';

/** Stands for a refusal that ioredis 5 does not pass on. */
const MOVED = 'MOVED (ioredis does not say where to)';

export class IoredisConnection implements Connection {
  readonly #ioredis: Ioredis;
  readonly #heard: Heard;
  readonly #redis: Redis | undefined;
  readonly #gone: Promise<void>;
  #settleGone!: () => void;
  /** Why the connection ends, as far as is known. */
  #reason: Error | undefined;
  #isDisconnecting = false;
  #hasEnded = false;
  #echoCount = 0;

  /** `readOptions`: the user's options for this attempt. They may have getters, which may throw. */
  constructor(ioredis: Ioredis, readOptions: () => object, heard: Heard) {
    this.#ioredis = ioredis;
    this.#heard = heard;
    this.#gone = new Promise((resolve) => (this.#settleGone = resolve));
    try {
      this.#redis = new ioredis.Redis({ ...readOptions(), ...OURS });
    } catch (error) {
      this.#reason = asFailure(error);
      queueMicrotask(this.#end);
      return;
    }
    this.#listenTo(this.#redis);
  }

  get bytesRead(): number {
    return this.#stream?.bytesRead ?? 0;
  }

  get isTls(): boolean {
    return Boolean(this.#redis?.options.tls);
  }

  /** undefined before it connects. */
  get #stream(): Socket | undefined {
    return this.#redis?.stream;
  }

  readonly send: Connection['send'] = (command, args, read, failed) => {
    if (!this.#redis || this.#hasEnded)
      return Promise.reject(new UnsentError('not connected')).catch(failed);
    const sent = new this.#ioredis.Command(command, args as Argument[], UTF8);
    return (this.#redis.sendCommand(sent) as Promise<unknown>).then(read, (error: unknown) =>
      failed(asFailure(error)),
    );
  };

  gather(): void {
    const stream = this.#stream;
    if (!stream || stream.writableCorked > 0) return;
    stream.cork();
    process.nextTick(uncork, stream);
  }

  flush(): void {
    this.#stream?.uncork();
  }

  readonly subscribe: Connection['subscribe'] = (channels, isSharded, answered) => {
    if (!this.#redis) return;
    if (channels.includes(INVALIDATIONS)) this.#redis.on('messageBuffer', this.#invalidated);
    let isAnswered = false;
    const settled = (result: unknown): void => {
      const failure = result instanceof Error ? asFailure(result) : undefined;
      if (isAnswered || this.#hasEnded || (failure && !isReply(failure))) return;
      isAnswered = true;
      answered(failure);
    };
    this.#redis[isSharded ? 'ssubscribe' : 'subscribe'](...channels).then(settled, settled);
    if (isSharded) void this.#askBehind(this.#redis, settled);
  };

  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void {
    this.#redis?.[isSharded ? 'sunsubscribe' : 'unsubscribe'](channel).catch((error: unknown) => {
      failed(asFailure(error));
    });
  }

  close(): Promise<void> {
    if (!this.#hasEnded) this.#disconnect();
    return this.#gone;
  }

  /** Once: each `disconnect()` of ioredis adds a listener to the socket. The first reason counts. */
  #disconnect(reason?: Error): void {
    if (this.#isDisconnecting) return;
    this.#isDisconnecting = true;
    this.#reason = reason ?? this.#reason;
    this.#redis?.disconnect();
  }

  #listenTo(redis: Redis): void {
    redis.on('error', (error: Error) => {
      if (error.message.startsWith(UNAWAITED)) {
        if (error.message.includes(UNSUBSCRIBED)) this.#heard.moved();
        // Earlier replies may have gone to the wrong commands. (Its text may hold a password.)
        else this.#disconnect(new Error('replies are mixed up'));
      } else if (!this.#reason || this.#reason instanceof LostError)
        this.#reason = asFailure(error);
    });
    const ready = (): void => {
      // (ioredis may call a connection ready that is closed already: https://github.com/redis/ioredis/issues/2099)
      if (!this.#hasEnded && redis.stream.writable) this.#heard.ready();
    };
    redis.on('ready', () => {
      if (this.bytesRead > 0) ready();
      else this.#askFirst(redis, ready);
    });
    redis.on('end', this.#end);
    const message = (channel: string, payload: string): void => {
      if (channel !== INVALIDATIONS) this.#heard.message(channel, payload);
    };
    redis.on('message', message);
    redis.on('smessage', message);
    // (The event is not among ioredis' types.)
    redis.on('moved' as 'ready', () => {
      this.#heard.moved();
    });
  }

  /** (In `message`, ioredis joins the keys to one text. Its types know of no list.) */
  readonly #invalidated = (channel: Buffer, keys: unknown): void => {
    if (String(channel) !== INVALIDATIONS) return;
    if (Array.isArray(keys)) this.#heard.invalidated(keys.map(String));
    else if (keys === null) this.#heard.invalidated(undefined);
  };

  /** Waits for an answer of the server; ioredis 5 does not even wait for that to its AUTH, which a PING behind it finds out. */
  #askFirst(redis: Redis, ready: () => void): void {
    redis.call('ping').then(ready, (error: unknown) => {
      if (this.#reason) return; // a refused AUTH fails everything behind it
      const failure = asFailure(error);
      if (isReply(failure) && !isShutOut(failure)) {
        ready();
        return;
      }
      this.#disconnect(isReply(failure) ? failure : undefined);
    });
  }

  /**
   * ioredis 5 drops the MOVED that answers an SSUBSCRIBE, and its promise with it. If only a PING behind it is answered, the subscription
   * was refused. If the PING gets another answer than its echo, ioredis has taken an unasked `sunsubscribe` for a reply, and all replies
   * are one off: the connection ends without a reason, since a slot that moves is no error.
   */
  async #askBehind(redis: Redis, settled: (refusal: Error) => void): Promise<void> {
    const echo = `holdfast ${String(++this.#echoCount)}`; // (an echo of one byte makes ioredis 5 throw)
    const isBehind = await redis.call('ping', echo).then(
      (pong: unknown) => String(Array.isArray(pong) ? pong.at(-1) : pong) === echo,
      (error: unknown) => failureKind(asFailure(error)) === 'denied', // otherwise it is the reply to another command
    );
    if (isBehind) settled(replyError(MOVED));
    else if (!this.#hasEnded) this.#disconnect();
  }

  readonly #end = (): void => {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#settleGone();
    this.#heard.ended(this.#reason);
  };
}

function uncork(stream: Socket): void {
  stream.uncork();
}

/** An error of ioredis as one of the failures that port.ts lists. None of them holds a password. */
function asFailure(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const { message } = error;
  if (message.startsWith(UNSENT)) return new UnsentError('not connected');
  if (LOST.test(message)) return new LostError();
  // A server's error carries the command that it answers. (Its name does not tell: ioredis 5 takes that from the class, which a minifier
  // renames.)
  return 'command' in error ? refusal(message) : error;
}
