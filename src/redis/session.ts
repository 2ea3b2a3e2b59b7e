// What stands between the port and the client: a session is one attempt at one Redis, be it a server, the master that Sentinels name, or a cluster.
// Like a connection it is ready at most once and ends exactly once; whoever wants Redis again opens another (reconnecting.ts).

import type { Clock } from '../runtime/clock.js';
import type { Address, Library, Sender } from './port.js';

/** What a session tells. */
export interface SessionHeard {
  readonly ready: () => void;
  /** undefined: nobody said why, or the session was left for a better one. */
  readonly ended: (reason: Error | undefined) => void;
  /** Something went wrong that does not end it: with one node of a cluster. */
  readonly hurt: (error: Error) => void;
}

export interface Session extends Sender {
  readonly isReady: boolean;
  /** Whether anything that was sent is unanswered. */
  readonly owesAnswer: boolean;
  /** The server that commands go to; undefined: there are several, or it is not known yet. */
  readonly address: Address | undefined;
  readonly isCluster: boolean;
  /** Ends it for this reason; undefined: it is not wanted any more. */
  end(reason?: Error): void;
}

/** What everything on the way to one Redis needs. It is passed in here, once. */
export interface Surroundings {
  readonly library: Library;
  readonly clock: Clock;
  /** A number from 0 to 1, as `Math.random()` gives it. */
  readonly random: () => number;
  /** A connection that leaves something unanswered for so long is used up, in milliseconds. */
  readonly silenceLimitMs: number;
  /** The sockets that are being closed. */
  readonly closing: Set<Promise<void>>;
}
