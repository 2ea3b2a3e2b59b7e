// One attempt at one connection by ioredis 5 or 6: a `Redis` that never reconnects.

import type { Writable } from 'node:stream';
import type * as ioredisModule from 'ioredis';
import type { Redis } from 'ioredis';
import {
  failureKind,
  isReply,
  isUnauthenticated,
  LostError,
  notRedisError,
  replyError,
  UnsentError,
} from '../failure.js';
import type { Argument, Connection, Heard } from '../port.js';
import { redacted } from '../redaction.js';

export type Ioredis = Pick<typeof ioredisModule, 'Redis' | 'Command'>;

/** What is ours of every connection, whatever the user gave. */
const OURS: object = {
  // This alone makes a client one attempt.
  retryStrategy: () => null,
  reconnectOnError: null,
  lazyConnect: false,
  // It queues nothing, resends nothing, and subscribes to nothing by itself.
  enableOfflineQueue: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  enableAutoPipelining: false,
  offlineQueue: undefined,
  commandQueue: undefined,
  // We greet the server ourselves, and tell it the connection's name.
  enableReadyCheck: false,
  connectionName: undefined,
  disableClientInfo: true,
  // It calls a connection ready whose SELECT was refused: we select.
  db: 0,
  // Else it asks Sentinels.
  sentinels: undefined,
  name: undefined,
  role: undefined,
  // Names of locks are prefixed by us: ioredis would not prefix channels.
  keyPrefix: '',
  readOnly: false,
  monitor: false,
  stringNumbers: false,
  // Time limits are ours. (The `socketTimeout` of ioredis 5 outlives its connection.)
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  // ioredis 6 would make them known on each connection, and servers without them refuse that.
  himportFieldsets: undefined,
  scripts: undefined,
  // A subscriber only listens: the kernel has to find out that nobody is at the other end any more.
  keepAlive: 10_000,
  disconnectTimeout: 200,
};

/** How long a socket may take to close before it is destroyed, in milliseconds. */
const CLOSE_MS = 250;

const UTF8 = { replyEncoding: 'utf8' } as const;

/** ioredis' words for a lost connection. The options that some of them name are ours: no user has set them. */
const LOST = /enableOfflineQueue|maxRetriesPerRequest|^Connection is closed|^Command aborted/;

/** ioredis' word for a command that found no open socket: only this tells that it was not written. */
const NOT_WRITTEN = 'enableOfflineQueue';

/** The words of ioredis 5 and 6 for what is no reply of Redis. */
const NOT_REDIS = /^(Protocol error, got|Unknown RESP type)/;

/** For a refusal that ioredis 5 does not pass on. */
const MOVED = 'MOVED (ioredis does not say where to)';

export class IoredisConnection implements Connection {
  readonly #ioredis: Ioredis;
  readonly #heard: Heard;
  readonly #redis: Redis | undefined;
  readonly #gone: Promise<void>;
  #settleGone!: () => void;
  /** Why it ends, as far as is known. */
  #reason: Error | undefined;
  #isClosing = false;
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
      setImmediate(() => {
        this.#end();
      });
      return;
    }
    this.#listenTo(this.#redis);
  }

  get bytesRead(): number {
    return (this.#redis?.stream as { bytesRead?: number } | undefined)?.bytesRead ?? 0;
  }

  get isTls(): boolean {
    return Boolean(this.#redis?.options.tls);
  }

  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
  ): Promise<T> {
    if (!this.#redis || this.#hasEnded)
      return Promise.reject<T>(new UnsentError('not connected')).catch(failed);
    const sent = new this.#ioredis.Command(command, args as Argument[], UTF8);
    return (this.#redis.sendCommand(sent) as Promise<unknown>).then(read, (error: unknown) =>
      failed(asCommandFailure(error)),
    );
  }

  gather(): void {
    const stream = this.#redis?.stream as Writable | undefined;
    if (!stream || stream.writableCorked > 0) return;
    stream.cork();
    process.nextTick(uncork, stream);
  }

  flush(): void {
    const stream = this.#redis?.stream as Writable | undefined;
    stream?.uncork();
  }

  subscribe(
    channels: readonly string[],
    isSharded: boolean,
    answered: (refusal: Error | undefined) => void,
  ): void {
    let isAnswered = false;
    const answer = (refusal: Error | undefined): void => {
      if (isAnswered || this.#hasEnded || (refusal && !isAnswer(refusal))) return;
      isAnswered = true;
      answered(refusal);
    };
    this.#redis?.[isSharded ? 'ssubscribe' : 'subscribe'](...channels).then(
      () => {
        answer(undefined);
      },
      (error: unknown) => {
        answer(asFailure(error));
      },
    );
    if (isSharded) this.#askBehind(answer);
  }

  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void {
    this.#redis?.[isSharded ? 'sunsubscribe' : 'unsubscribe'](channel).catch((error: unknown) => {
      failed(asFailure(error));
    });
  }

  async close(): Promise<void> {
    const redis = this.#redis;
    if (!redis || this.#hasEnded) return;
    if (this.#isClosing) {
      await this.#gone;
      return;
    }
    this.#isClosing = true;
    redis.disconnect();
    const stream = redis.stream as Writable | undefined;
    const timer = setTimeout(() => stream?.destroy(), CLOSE_MS);
    await this.#gone;
    clearTimeout(timer);
  }

  #listenTo(redis: Redis): void {
    redis.on('error', (error: Error) => {
      const failure = asFailure(error);
      if (!this.#reason || this.#reason instanceof LostError) this.#reason = failure;
      // A reply came that none awaited: earlier ones may have been taken for those to other commands.
      if (error.message.startsWith('Command queue state error')) redis.disconnect();
    });
    redis.on('ready', () => {
      const { username, password } = redis.options;
      // Under RESP2 version 5 does not wait for the answer to its AUTH: what is behind it tells.
      if ((username || password) && this.bytesRead === 0) this.#askBehindAuth(redis);
      else this.#tellReady(redis);
    });
    redis.on('end', () => {
      this.#end();
    });
    const message = (channel: string, payload: string): void => {
      this.#heard.message(channel, payload);
    };
    redis.on('message', message);
    redis.on('smessage', message);
    // (The event is not among ioredis' types.)
    redis.on('moved' as 'ready', () => {
      this.#heard.moved();
    });
  }

  #tellReady(redis: Redis): void {
    // (ioredis may call a connection ready that has closed meanwhile: https://github.com/redis/ioredis/issues/2099)
    if (!this.#hasEnded && (redis.stream as Writable).writable) this.#heard.ready();
  }

  #askBehindAuth(redis: Redis): void {
    redis.call('ping').then(
      () => {
        this.#tellReady(redis);
      },
      (error: unknown) => {
        const failure = asFailure(error);
        // The refusal of AUTH fails all that is behind it.
        if (failure === this.#reason) return;
        if (isReply(failure) && !isUnauthenticated(failure)) {
          this.#tellReady(redis);
          return;
        }
        this.#reason ??= failure;
        redis.disconnect();
      },
    );
  }

  /**
   * ioredis 5 drops the MOVED to an SSUBSCRIBE, and its promise with it. A PING behind it is answered all the same: then the subscription was refused.
   * If the PING is given another answer than its echo, ioredis has taken an unasked `sunsubscribe` for a reply, and all replies are one off.
   */
  #askBehind(answer: (refusal: Error) => void): void {
    const echo = `holdfast ${String(++this.#echoCount)}`; // (of one byte it would make ioredis 5 throw)
    const mixedUp = (): void => {
      if (this.#hasEnded) return;
      this.#reason = new Error('replies are mixed up');
      this.#redis?.disconnect();
    };
    this.#redis?.call('ping', echo).then(
      (pong: unknown) => {
        const last: unknown = Array.isArray(pong) ? pong.at(-1) : pong;
        if (String(last) === echo) answer(replyError(MOVED));
        else mixedUp();
      },
      (error: unknown) => {
        if (failureKind(asFailure(error)) === 'denied') answer(replyError(MOVED));
        else mixedUp(); // that is the reply to another command
      },
    );
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#settleGone();
    this.#heard.ended(this.#reason);
  }
}

/** Whether the server has refused, rather than that the connection was lost. */
function isAnswer(refusal: Error): boolean {
  const kind = failureKind(refusal);
  return kind !== 'unsent' && kind !== 'unanswered';
}

function uncork(stream: Writable): void {
  stream.uncork();
}

/** What ioredis rejects with, as one of the failures that port.ts lists. None of them holds a password. */
function asFailure(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  redacted(error);
  if (isServersWords(error)) return named(error);
  if (NOT_REDIS.test(error.message)) return notRedisError(error);
  return LOST.test(error.message) ? new LostError({ cause: error }) : error;
}

/** The failure of a command: `UnsentError` if it was not written. */
function asCommandFailure(error: unknown): Error {
  const failure = asFailure(error);
  if (isReply(failure) || !String(error).includes(NOT_WRITTEN)) return failure;
  return new UnsentError('not connected', { cause: failure });
}

/**
 * Whether a server said it: ioredis' error carries the command then, that was answered or given up. (Its name does not tell: ioredis 5
 * takes that from the class, which a minifier renames.)
 */
function isServersWords(error: Error): boolean {
  const { message, command } = error as Error & { command?: { name?: unknown } };
  return isReply(error) || (typeof command?.name === 'string' && !LOST.test(message));
}

/** The name by which a library says that it is a reply. */
function named(error: Error): Error {
  if (!isReply(error))
    Object.defineProperty(error, 'name', {
      value: 'ReplyError',
      configurable: true,
      writable: true,
    });
  return error;
}
