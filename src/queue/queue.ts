// A lock's queue on its server, as this client's callers stand in it: where they hear of their grants, how their places are renewed,
// and when one of them looks whether the lock is free. Fair locks, semaphores and read-write locks have one.

import { type SeenHolder, UnavailableError } from '../api/errors.js';
import type { KeepReply, Renewable, Watched } from '../core/protocol.js';
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

/** A lock that has a queue on its server: what its scripts do about the queue. */
export interface QueuedLock {
  /** The same for the same lock of the same client. */
  readonly id: string;
  readonly server: Server;
  readonly keys: LockKeys;
  /** Whether each holder is given a fencing token. */
  readonly isFenced: boolean;
  /** How places in its queue are renewed. */
  readonly placeRenewals: RenewerRow<QueuedPlace>;
  /** Takes the lock, or makes or renews a place. `place`: what the script is told of the place, from `placeLeaseMs` to `channelSuffix`. */
  join(
    ownerId: string,
    leaseMs: number,
    place: readonly Argument[],
    limit?: TimeLimit,
  ): Promise<JoinReply>;
  /** Gives up what an owner has of the lock, or nothing if that is empty; what is free then goes to the first in the queue. */
  handOver(ownerId: string): Promise<HandOver>;
  /** Sets the lease of a lock that was handed over. */
  confirm(ownerId: string, leaseMs: number): Promise<KeepReply>;
  release(ownerId: string): Promise<boolean>;
  /** Tells `listener` of releases that gave the lock to nobody in the queue; left out: there are none. */
  subscribeToUnlocks?(listener: ChannelListener): Subscription;
}

/** One of this client's callers in the queue. */
export interface QueuedPlace extends Renewable<PlaceReply> {
  readonly lock: QueuedLock;
  /** A command is about to be sent that makes or renews the place. */
  sending(nonce: number, at: Instant): void;
  /** The lock was handed over to it, while the place had this nonce, with such a token if it is a fenced one. */
  granted(nonce: number, token?: bigint): void;
  /** The server says that it has dropped the place for what its caller wants. */
  dropped(): void;
  /** Its caller is to ask the server. */
  wake(): void;
}

/** What the message begins with that tells a new end of the holder's lease. */
const ENDS = 'ends ';

/** What the message begins with that tells an owner that its place was dropped. */
const GONE = 'gone ';

/** A grant: the nonce of the place, the fencing token if there is one, and the owner. */
const GRANT = /^(\d{1,16})(?::(\d{1,16}))? (.+)$/s;

/** What the queues of one client share at one server. */
class Queues {
  /** By lock: those in which somebody waits, or whose lock somebody got there. */
  readonly inUse: Map<string, Queue> = new Map<string, Queue>();
  /** The client ids of all owners that have waited so far: a member of a MultiLock has an owner of the client that made the MultiLock. */
  readonly clientIds: Set<string> = new Set<string>();
  lastNonce = 0;
}

/** This client's part of the queue for a lock. It is kept from the first place that is expected until nobody waits or holds any more. */
export function queueOf(lock: QueuedLock): Queue {
  const queues = lock.server.shared(Queues);
  return queues.inUse.get(lock.id) ?? new Queue(queues, lock);
}

export class Queue implements Due {
  scheduled: Scheduled | undefined;
  /** What its callers were told last of who has the lock; undefined: nobody waits. */
  lastAnswer: LastAnswer | undefined;
  readonly #queues: Queues;
  readonly #lock: QueuedLock;
  /** Who waits, or has sent a join, by owner. */
  readonly #places = new Map<string, QueuedPlace>();
  /** The owners that got the lock here: a grant that comes for one of them now is a copy, or came late. */
  readonly #holders = new Set<string>();
  /** While somebody waits: to grants, and to releases. */
  #subscriptions: readonly Subscription[] = [];
  /** `again`: a message came meanwhile, and the look may have reached the server before what the message tells of. */
  #look: 'none' | 'under way' | 'again' = 'none';
  /** The place whose caller asks, for all, who has the lock; undefined: none does now. */
  #asking: QueuedPlace | undefined;
  /** Since when that one, or the last one that did, asks; on the monotonic clock. */
  #askedSinceMs = 0;

  constructor(queues: Queues, lock: QueuedLock) {
    this.#queues = queues;
    this.#lock = lock;
  }

  /** Whether our subscription to grants is known to stand. If nobody listens though the server was told so, it takes us for gone. */
  get isListening(): boolean {
    return this.#server.channels.isSubscribed(this.#grantChannel);
  }

  /** A number that no other command about a place has. */
  nextNonce(): number {
    return ++this.#queues.lastNonce;
  }

  /** The server is about to be asked for this place: from now on a grant may come for its owner. */
  expect(place: QueuedPlace): void {
    this.#queues.inUse.set(this.#lock.id, this);
    this.#queues.clientIds.add(clientIdOf(place.ownerId));
    this.#places.set(place.ownerId, place);
  }

  /** Who tried at `triedAtMs` (monotonic) waits now. `isInDoubt`: whether its place may be gone, or count as one that hears of no grant. */
  wait(
    place: QueuedPlace,
    { holder, holderTtlMs }: SeenHolder,
    triedAtMs: number,
    isInDoubt: boolean,
  ): void {
    this.#server.watchdog.watch(place, place, this.#server.renewer(this.#lock.placeRenewals));
    this.#listen();
    if (this.#asking === place) this.#asking = undefined;
    // If the holder is another place of this client, its caller does not know yet.
    this.#places.get(holder)?.wake();
    // A grant may have been published before we listened, or while we did not; it may even have overtaken the answer to the try.
    const hasMissed = this.#subscriptions.some((heard) => heard.mayHaveMissed(triedAtMs));
    if (isInDoubt || hasMissed) this.#server.watchdog.renew([place]);
    this.scheduleLook(holderTtlMs);
  }

  /** `hasLock`: its caller got the lock here, and has it until `forget`. */
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

  /** Nobody has the lock as this owner any more. */
  forget(ownerId = ''): void {
    this.#holders.delete(ownerId);
    const { inUse } = this.#queues;
    const { id } = this.#lock;
    if (this.#places.size + this.#holders.size === 0 && inUse.get(id) === this) inUse.delete(id);
  }

  /**
   * A caller wants to know who has the lock, and asks for all; unless another one has been asking since `sinceMs` (on the monotonic clock).
   * Asking changes nobody's place.
   */
  look(place: QueuedPlace, sinceMs: number): void {
    if (!this.lastAnswer || (this.#asking && this.#askedSinceMs >= sinceMs)) return;
    this.#asking = place;
    this.#askedSinceMs = this.#clock.nowMs();
    place.wake();
  }

  /**
   * A place is gone whose lease was not over, and of which the server was told last at `toldAt`. If this client listened all the while,
   * whoever handed over may not count it, and would pass it over for ever: it listens on classic channels, others publish on sharded ones;
   * or its subscription stands at a replica. From now on, until it has subscribed anew, it says that it does not listen, and is taken at its
   * word. (If it dies then, its place is skipped only when the lease of that is over.)
   */
  passedOver(toldAt: Instant): void {
    this.#server.channels.doubt(this.#grantChannel, toldAt.monotonicMs);
  }

  /** The lock is looked at in `ttlMs`, and not before, unless something else is told. -1: its lease has no end; below that, the lock is free. */
  scheduleLook(ttlMs: number): void {
    if (this.#places.size === 0 || ttlMs === -1) return;
    const { schedule } = this.#server;
    schedule.delete(this);
    if (ttlMs < 0) this.#lookAtLock();
    else schedule.within(this, ttlMs);
  }

  /** The holder's lease is over, if nobody has prolonged it. */
  due(): void {
    this.#lookAtLock();
  }

  /**
   * What was published for this client: a grant, "<nonce> <owner>" or "<nonce>:<token> <owner>"; that the holder's lease is shorter than the
   * one before it, "ends <ttlMs>"; of a weighted lock also that a place was dropped, "gone <owner>". Anybody who may publish may say
   * anything: what is none of these is ignored.
   */
  #hear(message: string): void {
    if (message.startsWith(ENDS))
      this.scheduleLook(Number.parseInt(message.slice(ENDS.length), 10) || 0);
    else if (message.startsWith(GONE)) this.#places.get(message.slice(GONE.length))?.dropped();
    else this.granted(message, true);
  }

  /**
   * Whoever waits here as that owner gets the grant, also if it has overtaken the answer to the join. If nobody has the lock as that owner
   * either, a join of somebody who has gone came late: the lock would stand idle until the lease of that place is over. `isOurs`: the grant
   * came to this client's own channel, so it is nobody else's.
   */
  granted(grant: string, isOurs: boolean): void {
    const [, nonce, token, ownerId] = GRANT.exec(grant) ?? [];
    if (ownerId === undefined) return;
    const place = this.#places.get(ownerId);
    if (place) place.granted(Number(nonce), token === undefined ? undefined : BigInt(token));
    else if (isOurs && this.#isOrphan(ownerId)) this.#lock.release(ownerId).catch(() => undefined); // unanswered: then that lease ends it
  }

  /** Whether an owner is one of ours, and nobody is here any more who would take the lock as this owner. */
  #isOrphan(ownerId: string): boolean {
    return !this.#holders.has(ownerId) && this.#queues.clientIds.has(clientIdOf(ownerId));
  }

  #listen(): void {
    if (this.lastAnswer) return;
    this.lastAnswer = new LastAnswer();
    const { channels } = this.#server;
    const isSharded = (): boolean => this.#server.isSharded;
    const hear = (payload: string): void => {
      // A message may come late, when everybody has left: who came since then is in another queue.
      const queue = queueOf(this.#lock);
      for (const message of messagesIn(payload)) queue.#hear(message);
    };
    const grants = channels.subscribe(this.#grantChannel, isSharded, {
      // Until the server knows that we listen, it does not count us, and may have passed our places over.
      subscribed: () => {
        this.#server.watchdog.renew(this.#places.values());
      },
      message: hear,
      late: hear,
      // A grant finds its place also before that waits, so whoever waits later has not missed it. But a new end of the lease is newer
      // than the answer to a join that was sent before it.
      concernsAll: (payload) => messagesIn(payload).some((message) => message.startsWith(ENDS)),
    });
    // A release that finds nobody in the queue hands the lock to nobody, and publishes on the unlock channel: that of a reentrant lock
    // of this name, or one after the queue was deleted.
    const look = this.#lookAtLock;
    const unlocks = this.#lock.subscribeToUnlocks?.({ subscribed: look, message: look });
    this.#subscriptions = unlocks ? [grants, unlocks] : [grants];
  }

  /** Looks at the lock, and hands it to the first in the queue if nobody holds it. */
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
        // The lock is free, and there was nobody to hand it to: then our places are gone.
        if (ttlMs < -1) this.#server.watchdog.renew(this.#places.values());
        else this.scheduleLook(ttlMs);
      })
      .then(looked, looked); // if it failed, the next renewal of the places tells how long the lock is held
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

/** The messages in what was published on a channel of grants: one, or of a weighted lock a JSON array of them. */
function messagesIn(payload: string): readonly string[] {
  if (!payload.startsWith('[')) return [payload];
  try {
    const messages: unknown = JSON.parse(payload);
    return Array.isArray(messages) ? messages.filter((message) => typeof message === 'string') : [];
  } catch {
    return [];
  }
}

// A join takes the lock, or a place in its queue, or renews that.

export type JoinReply =
  | {
      readonly outcome: 'acquired' | 'handed over';
      /** The fencing token, if it is a fenced lock. */
      readonly token?: bigint;
    }
  | ({ readonly outcome: 'held'; readonly ticket: string } & SeenHolder);

export function readJoin(reply: unknown): JoinReply {
  if (typeof reply === 'number') return { outcome: outcomeOf(reply) };
  const [first, second, ticket = '0'] = reply as [number, string] | [string, number, string];
  if (typeof first === 'number') return { outcome: outcomeOf(first), token: BigInt(second) };
  return { outcome: 'held', holder: first, holderTtlMs: Number(second), ticket };
}

function outcomeOf(code: number): 'acquired' | 'handed over' {
  return code === 1 ? 'acquired' : 'handed over';
}

// A hand-over gives what is free to the first in the queue.

/** As `lookInMs`: so many were granted or dropped that others had to be left for another call, at once. */
const CALL_AGAIN = -3;

/** What a hand-over came to. */
export interface HandOver {
  /** Whether the owner held the lock. */
  readonly isHeld: boolean;
  /**
   * When somebody in the queue has to look again, in milliseconds: when the lease ends of the holder, or of the first of several. -1: for no
   * reason of time; -2: nobody is in the queue, and nobody was granted anything.
   */
  readonly lookInMs: number;
}

/** What a script is told of how to announce grants: on which channels, by which command, and whether it can count who listens there. */
export function grantArgs({ server, keys }: QueuedLock): readonly (string | number)[] {
  const { isSharded, connection } = server;
  return [keys.grants, grantCommand(server), Number(isSharded || !connection.isCluster)];
}

/** The command that tells a client that a lock was handed to it. */
export function grantCommand({ isSharded }: Server): 'PUBLISH' | 'SPUBLISH' {
  return isSharded ? 'SPUBLISH' : 'PUBLISH';
}

/**
 * What a hand-over was answered. Those of this client to whom it granted the lock learn that now: the messages come later, or never.
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

/** Sees to it that what nobody holds goes to the first in the queue. Returns `lookInMs`. */
export async function grantNext(lock: QueuedLock): Promise<number> {
  for (;;) {
    const { lookInMs } = await lock.handOver('');
    if (lookInMs !== CALL_AGAIN) return lookInMs;
  }
}

/** Whether the owner held the lock. Whoever could not be granted it by the same call is by another one, or at its next renewal. */
export async function whetherHeld(lock: QueuedLock, asked: Promise<HandOver>): Promise<boolean> {
  const { isHeld, lookInMs } = await asked;
  if (lookInMs === CALL_AGAIN) grantNext(lock).catch(() => undefined);
  return isHeld;
}

// How the places that a client has in queues of one kind are renewed: many in one call.

/** What the renewal with this nonce found. */
export interface PlaceReply {
  readonly nonce: number;
  /**
   * `yours`: it was handed the lock, and nobody has told this client so far; `gone`: it lapsed, was passed over, or the queue was deleted; a
   * number: it is in the queue, and this is `lookInMs`.
   */
  readonly found: 'yours' | 'gone' | number;
}

/** `keysOf`: the keys of its lock that the script takes for each place. */
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
    // The server refuses us, and nobody would ever wake these callers: by a try of its own each of them learns that.
    if (error instanceof UnavailableError || failureKind(error) === 'denied')
      for (const place of places) place.wake();
    throw error;
  }
}
