// The layer between the port and the client: a session is one attempt at one Redis: a server, the master that Sentinels name, or a cluster.
// Like a connection it is ready at most once and ends exactly once; reconnecting.ts opens the next one.

import type { Clock } from '../runtime/clock.js';
import type { Address, Library, Sender } from './port.js';

/** Callbacks of a session. */
export interface SessionHeard {
  readonly ready: () => void;
  /** undefined: the reason is unknown, or the session was left for a better one. */
  readonly ended: (reason: Error | undefined) => void;
  /** Something went wrong that does not end the session: with one node of a cluster. */
  readonly hurt: (error: Error) => void;
}

export interface Session extends Sender {
  readonly isReady: boolean;
  /** Whether any command is unanswered. */
  readonly owesAnswer: boolean;
  /** The server that commands go to; undefined: there are several, or it is not known yet. */
  readonly address: Address | undefined;
  readonly isCluster: boolean;
  /** Says with whom a handshake is under way: the error of a call whose time is over meanwhile; undefined: none is. */
  readonly opening: Error | undefined;
  /** Ends the session for this reason; undefined: it is not wanted any more. */
  end(reason?: Error): void;
}

/** What all connections to one Redis need, passed in once. */
export interface Surroundings {
  readonly library: Library;
  readonly clock: Clock;
  /** A number from 0 to 1, as `Math.random()` gives it. */
  readonly random: () => number;
  /** A connection that leaves a command unanswered for so long is dropped, in milliseconds. */
  readonly silenceLimitMs: number;
  /** The sockets that are being closed. */
  readonly closing: Set<Promise<void>>;
}
