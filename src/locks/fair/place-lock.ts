// What a place in line asks of the fair lock, and what the lock answers.

import type { SeenHolder } from '../../api/errors.js';
import type { KeepReply } from '../../core/replies.js';
import type { Instant, TimeLimit } from '../../runtime/clock.js';
import type { Schedule } from '../../runtime/schedule.js';
import type { FairLine } from './fair-line.js';
import type { Grantee } from './grantees.js';
import type { RenewedPlace } from './place-renewer.js';

/** What a try at the lock, or at a place in line, was sent with. */
export interface JoinRequest {
  readonly ownerId: string;
  readonly leaseMs: number;
  readonly mayWait: boolean;
  readonly isFixed: boolean;
  readonly isListening: boolean;
  readonly nonce: number;
  readonly ticket: string;
}

export type JoinReply =
  | {
      readonly outcome: 'acquired' | 'handed over';
      /** The fencing token, if it is a fenced lock. */
      readonly token?: bigint;
    }
  | ({ readonly outcome: 'held'; readonly ticket: string } & SeenHolder);

/** What join.lua answers. */
export function readJoin(reply: unknown): JoinReply {
  if (reply === 1) return { outcome: 'acquired' };
  if (reply === 2) return { outcome: 'handed over' };
  const [first, ...rest] = reply as [1 | 2, string] | [string, number, string];
  if (typeof first === 'number')
    return { outcome: first === 1 ? 'acquired' : 'handed over', token: BigInt(rest[0]) };
  const [holderTtlMs, ticket] = rest as [number, string];
  return { outcome: 'held', holder: first, holderTtlMs, ticket };
}

/** The fair lock, as a place in line for it knows it. */
export interface PlaceLock {
  readonly schedule: Pick<Schedule, 'clock'>;
  readonly placeLeaseMs: number;
  readonly isListening: boolean;
  readonly isReplicated: boolean;
  /** Whether each holder is given a fencing token. */
  readonly isFenced: boolean;
  /** The line as far as this client stands in it. */
  fairLine(): FairLine;
  /** That line, if anybody of this client stands in it. */
  knownFairLine(): FairLine | undefined;
  nextNonce(): number;
  join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply>;
  handOn(): Promise<number>;
  confirm(ownerId: string, leaseMs: number): Promise<KeepReply>;
  expectGrant(place: RenewedPlace & Grantee): void;
  wasGranted(ownerId: string): void;
  /** A place within its lease is gone, of which the server was told last at `toldAt`. */
  passedOver(toldAt: Instant): void;
  forget(ownerId: string): void;
  watchPlace(place: RenewedPlace): void;
  unwatchPlace(place: RenewedPlace): void;
}
