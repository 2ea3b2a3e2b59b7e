// What a place in line asks of the fair lock, and what the lock answers.

import type { SeenHolder } from '../../api/errors.js';
import type { KeepReply } from '../../core/replies.js';
import type { TimeLimit } from '../../runtime/clock.js';
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
  | { readonly outcome: 'acquired' }
  | { readonly outcome: 'handed over' }
  | ({ readonly outcome: 'held'; readonly ticket: string } & SeenHolder);

/** What join.lua answers. */
export function readJoin(reply: unknown): JoinReply {
  if (reply === 1) return { outcome: 'acquired' };
  if (reply === 2) return { outcome: 'handed over' };
  const [holder, holderTtlMs, ticket] = reply as [string, number, string];
  return { outcome: 'held', holder, holderTtlMs, ticket };
}

/** The fair lock, as a place in line for it knows it. */
export interface PlaceLock {
  readonly placeLeaseMs: number;
  readonly isListening: boolean;
  readonly isReplicated: boolean;
  /** The line as far as this client stands in it. */
  fairLine(): FairLine;
  /** The same, if anybody of this client does. */
  knownFairLine(): FairLine | undefined;
  nextNonce(): number;
  join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply>;
  handOn(): Promise<number>;
  confirm(ownerId: string, leaseMs: number): Promise<KeepReply>;
  expectGrant(place: RenewedPlace & Grantee): void;
  wasGranted(ownerId: string): void;
  forget(ownerId: string): void;
  watchPlace(place: RenewedPlace): void;
  unwatchPlace(place: RenewedPlace): void;
}
