// A watched connection of the library: it also ends when it owes an answer and no byte came for too long. A wire ends for good; a caller
// that wants another one opens another one.

import type { Timer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/node.js';
import { authRefused, describe, isTimeOut, LostError, unheardEnd, UnsentError } from './failure.js';
import {
  textOf,
  type Address,
  type Connection,
  type Heard,
  type Purpose,
  type Sender,
} from './port.js';
import type { Session, Surroundings } from './session.js';

export type WireHeard = Pick<Heard, 'ready' | 'ended'> & Partial<Heard>;

/** After a blocked event loop, unread answers may be here. They have so long to be read before the silence counts. */
const TO_READ_MS = 1;
/** If the timer rings so late, the commands may not even have been written: the server gets its whole time once more. */
const BLOCKED_MS = 250;

/** For an end that comes while a connection with TLS is opening: no library gives it. */
const TLS_HINT = '; TLS is on: does this port speak TLS?';

/** `reason`: why we ended it, for the commands that were cut off. */
type State =
  | { readonly kind: 'opening' | 'ready' }
  | { readonly kind: 'ended'; readonly reason: Error | undefined };

export class Wire implements Session {
  readonly address: Address;
  readonly isCluster = false;
  readonly #connection: Connection;
  readonly #surroundings: Surroundings;
  readonly #heard: WireHeard;
  #state: State = { kind: 'opening' };
  #unansweredCount = 1; // the handshake
  /** Since when the server has been silent, while an answer is due. */
  #quietSinceMs: number;
  #seenBytes = 0;
  #timer: Timer | undefined;
  #wasBlocked = false;

  constructor(surroundings: Surroundings, address: Address, purpose: Purpose, heard: WireHeard) {
    this.address = address;
    this.#surroundings = surroundings;
    this.#heard = heard;
    this.#quietSinceMs = surroundings.clock.nowMs();
    // The connection serves all callers, so it must not run in the context of the first.
    this.#connection = inOwnContext(() =>
      surroundings.library.open(address, purpose, {
        ready: () => {
          if (this.#state.kind !== 'opening') return;
          this.#state = { kind: 'ready' };
          this.#answered();
          const { connectionName } = surroundings.library;
          if (connectionName !== undefined && purpose !== 'sentinel')
            void this.send('client', ['SETNAME', connectionName], ignore, ignore);
          heard.ready();
        },
        ended: (reason) => {
          const said =
            this.#isOpening && reason ? authRefused(reason, purpose === 'sentinel') : reason;
          // (A subscriber that is ready may not have asked anything.)
          const isAsked = this.#isOpening || purpose !== 'subscriptions';
          const hinted = isAsked ? this.#hinted(said) : said;
          if (this.#end(undefined)) heard.ended(hinted);
        },
        message: heard.message ?? ignore,
        invalidated: heard.invalidated ?? ignore,
        moved: heard.moved ?? ignore,
      }),
    );
    this.#watch(surroundings.silenceLimitMs);
  }

  get isReady(): boolean {
    return this.#state.kind === 'ready';
  }

  get opening(): Error | undefined {
    if (!this.#isOpening) return undefined;
    return new Error(`no handshake so far with ${textOf(this.address)}${this.#tlsHint}`);
  }

  get #isOpening(): boolean {
    return this.#state.kind === 'opening';
  }

  get #tlsHint(): string {
    return this.#connection.isTls ? TLS_HINT : '';
  }

  get owesAnswer(): boolean {
    return this.isReady && this.#unansweredCount > 0;
  }

  readonly send: Sender['send'] = (command, args, read, failed) => {
    if (!this.isReady) return unsent('not connected', failed);
    // Commands are gathered only while others are unanswered: on an idle connection they must not wait for the end of the turn.
    if (this.#asked()) this.#connection.gather();
    return this.#connection.send(
      command,
      args,
      (reply) => {
        this.#answered();
        return read(reply);
      },
      (error) => {
        this.#answered();
        return failed(this.#explained(error));
      },
    );
  };

  gather(): void {
    if (this.isReady) this.#connection.gather();
  }

  flush(): void {
    if (this.isReady) this.#connection.flush();
  }

  /** `answered` is called unless the wire ends first. */
  readonly subscribe: Connection['subscribe'] = (channels, isSharded, answered) => {
    if (!this.isReady) return;
    this.#asked();
    this.#connection.subscribe(channels, isSharded, (refusal) => {
      this.#answered();
      if (this.isReady) answered(refusal);
    });
  };

  readonly unsubscribe: Connection['unsubscribe'] = (channel, isSharded, failed) => {
    if (this.isReady) this.#connection.unsubscribe(channel, isSharded, failed);
  };

  end(reason?: Error): void {
    if (!this.#end(reason)) return;
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }

  /** Returns false if the wire has ended before. */
  #end(reason: Error | undefined): boolean {
    if (this.#state.kind === 'ended') return false;
    this.#state = { kind: 'ended', reason };
    const { clock, closing } = this.#surroundings;
    clock.clearTimer(this.#timer);
    const closed = this.#connection.close().finally(() => closing.delete(closed));
    closing.add(closed);
    return true;
  }

  /** The library knows only that the connection is gone: commands that we cut off ourselves fail with our reason. */
  #explained(error: Error): Error {
    if (this.#state.kind !== 'ended') return this.#hinted(error); // a lost wire ends in this turn
    const { reason } = this.#state;
    return reason && error instanceof LostError ? reason : error;
  }

  #hinted<T extends Error | undefined>(reason: T): T | Error {
    const { bytesRead, isTls } = this.#connection;
    if (isTls && reason && this.#isOpening && isTimeOut(reason))
      return new Error(`${describe(reason)}${TLS_HINT}`, { cause: reason });
    return bytesRead > 0 || isTls ? reason : unheardEnd(reason);
  }

  /** Notes that an answer is due. Returns whether another one was due before. */
  #asked(): boolean {
    if (this.#unansweredCount++ > 0) return true;
    this.#quietSinceMs = this.#surroundings.clock.nowMs();
    this.#seenBytes = this.#connection.bytesRead;
    if (!this.#timer) this.#watch(this.#surroundings.silenceLimitMs);
    return false;
  }

  #answered(): void {
    this.#unansweredCount--;
    this.#quietSinceMs = this.#surroundings.clock.nowMs();
  }

  /** Sets the timer. (It is not set anew for each command, only when it rings.) */
  #watch(delayMs: number): void {
    const { clock } = this.#surroundings;
    const ringsAtMs = clock.nowMs() + delayMs;
    this.#timer = clock.setTimer(() => {
      const nowMs = clock.nowMs();
      // Only once in a row, or a process that blocks again and again would never notice a silent server.
      const isDue = this.#unansweredCount > 0;
      this.#wasBlocked = isDue && !this.#wasBlocked && nowMs - ringsAtMs > BLOCKED_MS;
      if (this.#wasBlocked) this.#quietSinceMs = nowMs;
      const quietSinceMs = this.#quietSinceMs;
      this.#timer = clock.setTimer(() => {
        this.#look(quietSinceMs);
      }, TO_READ_MS);
    }, delayMs);
  }

  /** Checks for silence; answers that were unread a moment ago are read by now. */
  #look(quietSinceMs: number): void {
    this.#timer = undefined;
    if (this.#unansweredCount === 0) return;
    const { clock, silenceLimitMs } = this.#surroundings;
    const nowMs = clock.nowMs();
    const { bytesRead } = this.#connection;
    if (bytesRead !== this.#seenBytes) this.#quietSinceMs = nowMs;
    this.#seenBytes = bytesRead;
    const leftMs = this.#quietSinceMs + silenceLimitMs - nowMs;
    if (leftMs > 0 || this.#quietSinceMs !== quietSinceMs) {
      this.#watch(leftMs);
      return;
    }
    const [what, hint] = this.#isOpening ? ['handshake', this.#tlsHint] : ['answer', ''];
    this.end(new Error(`no ${what} within ${silenceLimitMs} ms${hint}`));
  }
}

/** For a reply, or a failure, that does not matter. */
export const ignore = (): void => undefined;

/** The failure of a command that was not written. */
export function unsent<T>(
  why: string | UnsentError,
  failed: (error: Error) => T | Promise<T>,
): Promise<T> {
  return Promise.reject<T>(typeof why === 'string' ? new UnsentError(why) : why).catch(failed);
}
