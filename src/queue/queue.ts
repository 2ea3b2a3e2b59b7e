// This client's part of a lock's queue on the server: it receives the grants for its callers, renews their places, and checks in time
// whether the lock is free. Fair locks, semaphores and read-write locks have a queue.

import { type SeenHolder, UnavailableError } from '../api/errors.js';
import {
  type HeldReply,
  type KeepReply,
  type Renewable,
  stateOf,
  type Watched,
} from '../core/protocol.js';
import type { Server } from '../core/server.js';
import type { RenewerRow } from '../core/watchdog.js';
import type { RedisClient } from '../redis/client.js';
import { failureKind } from '../redis/failure.js';
import type { LockKeys } from '../redis/keys.js';
import type { Argument } from '../redis/port.js';
import type { Script } from '../redis/scripts.generated.js';
import { type Clock, type Instant, now, type TimeLimit } from '../runtime/clock.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import type { ChannelListener, Subscription } from '../waiting/channels.js';
import { LastAnswer } from '../waiting/line.js';

/** A lock with a queue on its server, and what its scripts do with the queue. */
export interface QueuedLock {
  /** Equal for all objects that are the same lock of the same client. */
  readonly id: string;
  readonly server: Server;
  readonly keys: LockKeys;
  /** Whether each holder is given a fencing token. */
  readonly isFenced: boolean;
  /** How the places in its queue are renewed. */
  readonly placeRenewals: RenewerRow<QueuedPlace>;
  /** Takes the lock, or makes or renews a place. `place`: the script arguments about it, from `placeLeaseMs` to `channelSuffix`. */
  join(
    ownerId: string,
    leaseMs: number,
    place: readonly Argument[],
    limit?: TimeLimit,
  ): Promise<JoinReply>;
  /** Releases what this owner holds (nothing if `ownerId` is empty), then grants what is free to the first in the queue. */
  handOver(ownerId: string): Promise<HandOver>;
  /** Sets the lease of a lock that was handed over. */
  confirm(ownerId: string, leaseMs: number): Promise<KeepReply>;
  release(ownerId: string): Promise<boolean>;
  /** Notifies `listener` of releases that granted the lock to no place in the queue; left out: there are no such releases. */
  subscribeToUnlocks?(listener: ChannelListener): Subscription;
}

/** One of this client's callers in the queue. */
export interface QueuedPlace extends Renewable<PlaceReply> {
  readonly lock: QueuedLock;
  /** A command that makes or renews the place is about to be sent. */
  sending(nonce: number, at: Instant): void;
  /** The lock was handed over to the place when it had this nonce. `token`: that of a fenced lock. */
  granted(nonce: number, token?: bigint): void;
  /** The server has dropped the place, because its caller wants more permits than there are. */
  dropped(): void;
  /** Its caller must ask the server. */
  wake(): void;
}

/** How a message begins that announces a new end of the holder's lease. */
const ENDS = 'ends ';

/** How a message begins that tells an owner that its place was dropped. */
const GONE = 'gone ';

/** A grant: the nonce of the place, the fencing token if there is one, and the owner. */
const GRANT = /^(\d{1,16})(?::(\d{1,16}))? (.+)$/s;

/** What the queues of one client on one server share. */
class Queues {
  /** By lock: the queues with a waiting caller, or with a caller that got the lock there. */
  readonly inUse: Map<string, Queue> = new Map<string, Queue>();
  /** The client ids of all owners that have waited so far. More than one: members of a MultiLock have owners of the MultiLock's client. */
  readonly clientIds: Set<string> = new Set<string>();
  lastNonce = 0;
}

/** This client's part of the queue for a lock. It is kept from the first expected place until no caller waits or holds any more. */
export function queueOf(lock: QueuedLock): Queue {
  const queues = lock.server.shared(Queues);
  return queues.inUse.get(lock.id) ?? new Queue(queues, lock);
}

export class Queue implements Due {
  scheduled: Scheduled | undefined;
  /** The latest answer about the holder, for all its callers; undefined: none of them waits. */
  lastAnswer: LastAnswer | undefined;
  readonly #queues: Queues;
  readonly #lock: QueuedLock;
  /** The places that wait or have sent a join, by owner. */
  readonly #places = new Map<string, QueuedPlace>();
  /** The owners that got the lock here: another grant for one of them is a copy, or late. */
  readonly #holders = new Set<string>();
  /** To grants and to releases; empty while no caller waits. */
  #subscriptions: readonly Subscription[] = [];
  /** The check of the lock. `again`: a message came meanwhile, and the check may have run on the server before what the message reports. */
  #look: 'none' | 'under way' | 'again' = 'none';
  /** The place whose caller is asking, for all, who has the lock; undefined: none is. */
  #asking: QueuedPlace | undefined;
  /** When the current or latest asking began, on the monotonic clock. */
  #askedSinceMs = 0;

  constructor(queues: Queues, lock: QueuedLock) {
    this.#queues = queues;
    this.#lock = lock;
  }

  /** Whether our subscription to grants is confirmed. If the server was told so but finds no subscriber, it takes this client for dead. */
  get isListening(): boolean {
    return this.#server.channels.isSubscribed(this.#grantChannel);
  }

  /** A number that no other command about a place uses. */
  nextNonce(): number {
    return ++this.#queues.lastNonce;
  }

  /** This place is about to be requested from the server: from now on a grant may come for its owner. */
  expect(place: QueuedPlace): void {
    this.#queues.inUse.set(this.#lock.id, this);
    this.#queues.clientIds.add(clientIdOf(place.ownerId));
    this.#places.set(place.ownerId, place);
  }

  /**
   * The place starts to wait, after a try at `triedAtMs` (monotonic). `isInDoubt`: whether the server may have dropped the place, or may
   * believe that it receives no grants.
   */
  wait(
    place: QueuedPlace,
    { holder, holderTtlMs }: SeenHolder,
    triedAtMs: number,
    isInDoubt: boolean,
  ): void {
    this.#server.watchdog.watch(place, place, this.#server.renewer(this.#lock.placeRenewals));
    this.#listen();
    if (this.#asking === place) this.#asking = undefined;
    // If the holder is another place of this client, its caller does not know yet that it has the lock.
    this.#places.get(holder)?.wake();
    // A grant may have been published before we subscribed, or while we were not; it may even have overtaken the answer to the try.
    const hasMissed = this.#subscriptions.some((heard) => heard.mayHaveMissed(triedAtMs));
    if (isInDoubt || hasMissed) this.#server.watchdog.renew([place]);
    this.scheduleLook(holderTtlMs);
  }

  /** `hasLock`: the caller got the lock here, and has it until `forget`. */
  leave(place: QueuedPlace, hasLock: boolean): void {
    this.#server.watchdog.unwatch(place);
    if (this.#places.delete(place.ownerId) && hasLock) this.#holders.add(place.ownerId);
    if (this.#asking === place) this.#asking = undefined;
    if (this.#places.size === 0) {
      this.#server.schedule.delete(this);
      for (const subscription of this.#subscriptions) subscription.close();
      this.#subscriptions = [];
      this.lastAnswer = undefined;
    }
    this.forget();
  }

  /** The lock is no longer held as this owner. */
  forget(ownerId = ''): void {
    this.#holders.delete(ownerId);
    const { inUse } = this.#queues;
    const { id } = this.#lock;
    if (this.#places.size + this.#holders.size === 0 && inUse.get(id) === this) inUse.delete(id);
  }

  /**
   * Has this place's caller ask the server, for all, who has the lock; unless a caller that began at `sinceMs` (on the monotonic clock) or
   * later is still asking. Asking does not change the place.
   */
  look(place: QueuedPlace, sinceMs: number): void {
    if (!this.lastAnswer || (this.#asking && this.#askedSinceMs >= sinceMs)) return;
    this.#asking = place;
    this.#askedSinceMs = this.#clock.nowMs();
    place.wake();
  }

  /**
   * A place is gone although its lease was not over; the last command about it was sent at `toldAt`. If this client was subscribed all the
   * time, the client that handed over may not have seen the subscription, and would pass this client over for ever: for example if this
   * client subscribes to classic channels and others publish on sharded ones, or if its subscription is at a replica. From now on, until it
   * has resubscribed, this client declares that it does not listen, so that its places are not passed over. (If it dies then, its place is
   * skipped only when the place's lease ends.)
   */
  passedOver(toldAt: Instant): void {
    this.#server.channels.doubt(this.#grantChannel, toldAt.monotonicMs);
  }

  /** Checks the lock in `ttlMs`, unless new information comes earlier. -1: the holder's lease does not end; below -1: the lock is free. */
  scheduleLook(ttlMs: number): void {
    if (this.#places.size === 0 || ttlMs === -1) return;
    const { schedule } = this.#server;
    schedule.delete(this);
    if (ttlMs < 0) this.#lookAtLock();
    else schedule.within(this, ttlMs);
  }

  /** The holder's lease is over, unless it was extended. */
  due(): void {
    this.#lookAtLock();
  }

  /**
   * Handles a message published for this client: a grant, "<nonce> <owner>" or "<nonce>:<token> <owner>"; "ends <ttlMs>": the holder's
   * lease is shorter than the previous one; for a weighted lock also "gone <owner>": a place was dropped. Anything else is ignored, since
   * anyone with permission may publish on the channel.
   */
  #hear(message: string): void {
    if (message.startsWith(ENDS))
      this.scheduleLook(Number.parseInt(message.slice(ENDS.length), 10) || 0);
    else if (message.startsWith(GONE)) this.#places.get(message.slice(GONE.length))?.dropped();
    else this.granted(message, true);
  }

  /**
   * Gives the grant to the place that waits here as that owner, even if the grant has overtaken the answer to the join. If there is no such
   * place, and no caller has the lock as that owner, the join of a caller that has left came late: the lock is released, as it would be
   * idle until the place's lease ends. `isOurs`: the grant came on this client's own channel, so it belongs to no other client.
   */
  granted(grant: string, isOurs: boolean): void {
    const [, nonce, token, ownerId] = GRANT.exec(grant) ?? [];
    if (ownerId === undefined) return;
    const place = this.#places.get(ownerId);
    if (place) place.granted(Number(nonce), token === undefined ? undefined : BigInt(token));
    else if (isOurs && this.#isOrphan(ownerId)) this.#lock.release(ownerId).catch(() => undefined); // unanswered: the lease ends it
  }

  /** Whether an owner is one of ours, and no caller is left that would take the lock as this owner, not as one of another kind either. */
  #isOrphan(ownerId: string): boolean {
    const { inUse, clientIds } = this.#queues;
    for (const queue of inUse.values())
      if (queue.#grantChannel === this.#grantChannel && queue.#knows(ownerId)) return false;
    return clientIds.has(clientIdOf(ownerId));
  }

  #knows(ownerId: string): boolean {
    return this.#places.has(ownerId) || this.#holders.has(ownerId);
  }

  #listen(): void {
    if (this.lastAnswer) return;
    this.lastAnswer = new LastAnswer();
    const { channels } = this.#server;
    const isSharded = (): boolean => this.#server.isSharded;
    const hear = (payload: string): void => {
      // A message may come late, after all callers have left: callers that came since are in another Queue object.
      const queue = queueOf(this.#lock);
      for (const message of messagesIn(payload)) queue.#hear(message);
    };
    const grants = channels.subscribe(this.#grantChannel, isSharded, {
      // While the server did not know of our subscription, it may have passed our places over.
      subscribed: () => {
        this.#server.watchdog.renew(this.#places.values());
      },
      message: hear,
      late: hear,
      // A grant reaches its place even before the place waits, so later waiters have not missed it. But an "ends" message is newer than the
      // answer to a join that was sent before it.
      concernsAll: (payload) => messagesIn(payload).some((message) => message.startsWith(ENDS)),
    });
    // A release that grants the lock to no place publishes on the unlock channel: the release of a reentrant lock of this name, or one
    // after the queue was deleted.
    const look = this.#lookAtLock;
    const unlocks = this.#lock.subscribeToUnlocks?.({ subscribed: look, message: look });
    this.#subscriptions = unlocks ? [grants, unlocks] : [grants];
  }

  /** Checks the lock, and hands it to the first in the queue if it is free. */
  readonly #lookAtLock = (): void => {
    if (this.#look !== 'none') {
      this.#look = 'again';
      return;
    }
    this.#look = 'under way';
    const looked = (): void => {
      const isRepeated = this.#look === 'again' && this.#places.size > 0;
      this.#look = 'none';
      if (isRepeated) this.#lookAtLock();
    };
    grantNext(this.#lock)
      .then((ttlMs) => {
        // The lock is free and the queue was empty: then our places are gone.
        if (ttlMs < -1) this.#server.watchdog.renew(this.#places.values());
        else this.scheduleLook(ttlMs);
      })
      .then(looked, looked); // after a failure, the next renewal of the places tells when to check again
  };

  get #server(): Server {
    return this.#lock.server;
  }

  get #clock(): Clock {
    return this.#server.schedule.clock;
  }

  get #grantChannel(): string {
    return this.#lock.keys.grants + this.#server.channelSuffix;
  }
}

function clientIdOf(ownerId: string): string {
  return ownerId.slice(0, ownerId.lastIndexOf(':'));
}

/** The messages in a payload of a grant channel: a single message, or for a weighted lock a JSON array of messages. */
function messagesIn(payload: string): readonly string[] {
  if (!payload.startsWith('[')) return [payload];
  try {
    const messages: unknown = JSON.parse(payload);
    return Array.isArray(messages) ? messages.filter((message) => typeof message === 'string') : [];
  } catch {
    return [];
  }
}

// A join takes the lock, or takes or renews a place in its queue.

export type JoinReply =
  | {
      readonly outcome: 'acquired' | 'handed over';
      /** The fencing token, if it is a fenced lock. */
      readonly token?: bigint;
    }
  | (HeldReply & { readonly ticket: string });

/** `isAskedFor`: whether the holder may let go in a moment; left out: locks of this kind are not kept. */
export function readJoin(
  reply: unknown,
  isAskedFor?: (holder: string, heardBy?: number, unsaid?: string) => boolean,
): JoinReply {
  if (typeof reply === 'number') return { outcome: outcomeOf(reply) };
  const [first, second, ticket = '0', heardBy, unsaid] = reply as
    [number, string] | [string, number, string, number?, string?];
  if (typeof first === 'number') return { outcome: outcomeOf(first), token: BigInt(second) };
  const holderTtlMs = Number(second);
  return {
    outcome: 'held',
    holder: first,
    holderTtlMs,
    holderState: stateOf(heardBy),
    isAskedFor: isAskedFor?.(first, heardBy, unsaid),
    ticket,
  };
}

function outcomeOf(code: number): 'acquired' | 'handed over' {
  return code === 1 ? 'acquired' : 'handed over';
}

// A hand-over grants what is free to the first in the queue.

/** As `lookInMs`: the call has granted or dropped as many places as one call may; call again at once for the others. */
const CALL_AGAIN = -3;

/** The outcome of a hand-over. */
export interface HandOver {
  /** Whether the owner held the lock. */
  readonly isHeld: boolean;
  /**
   * When a waiting client must check again, in milliseconds: when the lease of the holder ends; for a weighted lock, the first lease of a
   * holder or that of the first place. -1: no check because of time is needed; -2: the queue is empty, and nothing was granted.
   */
  readonly lookInMs: number;
}

/** The script arguments for announcing grants: the channels, the command, and whether the script can count the subscribers. */
export function grantArgs({ server, keys }: QueuedLock): readonly (string | number)[] {
  const { isSharded, connection } = server;
  return [keys.grants, grantCommand(server), Number(isSharded || !connection.isCluster)];
}

/** The command that tells a client that a lock was handed to it. */
export function grantCommand({ isSharded }: Server): 'PUBLISH' | 'SPUBLISH' {
  return isSharded ? 'SPUBLISH' : 'PUBLISH';
}

/**
 * Reads the answer to a hand-over, and passes its grants to this client's own places at once: the messages come later, or never.
 * `refused`: the channel on which publishing was refused, and why.
 */
export function handedOver(
  { id, server }: QueuedLock,
  held: number,
  lookInMs: number,
  grants: readonly string[],
  [refused, reason = '']: readonly string[],
): HandOver {
  if (refused !== undefined) server.publishRefused(refused, reason);
  const queue = server.shared(Queues).inUse.get(id);
  for (const grant of grants) queue?.granted(grant, false);
  return { isHeld: held === 1, lookInMs };
}

/** Hands what is free to the first in the queue, in as many calls as that takes. Returns `lookInMs`. */
export async function grantNext(lock: QueuedLock): Promise<number> {
  for (;;) {
    const { lookInMs } = await lock.handOver('');
    if (lookInMs !== CALL_AGAIN) return lookInMs;
  }
}

/** Whether the owner held the lock. Places that the same call could not grant get it by another call, or at their next renewal. */
export async function whetherHeld(lock: QueuedLock, asked: Promise<HandOver>): Promise<boolean> {
  const { isHeld, lookInMs } = await asked;
  if (lookInMs === CALL_AGAIN) grantNext(lock).catch(() => undefined);
  return isHeld;
}

// Renewals of a client's places in queues of one kind: many in one call.

/** What the renewal with this nonce found about a place. */
export interface PlaceReply {
  readonly nonce: number;
  /**
   * `yours`: the lock was handed over to it, which this client may not know yet; `gone`: it expired or was passed over, or the queue was
   * deleted; a number: it is in the queue, and this is `lookInMs`.
   */
  readonly found: 'yours' | 'gone' | number;
}

/** `keysOf`: the keys of the lock that the script takes for each place. */
export function placeRenewals(
  kind: string,
  script: Script,
  keysOf: (keys: LockKeys) => readonly string[],
): RenewerRow<QueuedPlace> {
  return { kind, script, keysOf: ({ lock }) => keysOf(lock.keys), send: renewPlaces };
}

async function renewPlaces(
  connection: RedisClient,
  script: Script,
  keys: readonly string[],
  batch: readonly Watched<QueuedPlace>[],
  leaseMs: number,
): Promise<readonly PlaceReply[]> {
  const places = batch.map(({ target }) => target);
  const nonce = places[0] ? queueOf(places[0].lock).nextNonce() : 0;
  const sentAt = now(connection.surroundings.clock);
  for (const place of places) place.sending(nonce, sentAt);
  const owners = places.flatMap(({ ownerId, lock }) => [
    ownerId,
    Number(queueOf(lock).isListening),
  ]);
  try {
    return await connection.run(script, keys, [leaseMs, nonce, ...owners], (replies) =>
      (replies as PlaceReply['found'][]).map((found) => ({ nonce, found })),
    );
  } catch (error) {
    // The server refuses this client, and nothing else would ever wake these callers: each of them gets the error of its own try.
    if (error instanceof UnavailableError || failureKind(error) === 'denied')
      for (const place of places) place.wake();
    throw error;
  }
}
