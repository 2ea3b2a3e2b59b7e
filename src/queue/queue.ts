// The line for one lock on its server, as this client's callers stand in it: where they hear of their grants, how their places are
// renewed. What the lock's own scripts do about the line, its backend sends.

import type { KeepReply, Renewable, Renewer, Watched } from '../core/protocol.js';
import type { Server } from '../core/server.js';
import { hashTag, type LockKeys } from '../redis/keys.js';
import type { Due, Schedule, Scheduled } from '../runtime/schedule.js';
import { elapsedMs, type Instant, now, type TimeLimit } from '../runtime/clock.js';
import type { ChannelListener, Subscription } from '../waiting/channels.js';
import { Findings, Lines } from '../waiting/line.js';
import { type SeenHolder, UnavailableError } from '../api/errors.js';
import type { RedisClient } from '../redis/client.js';
import { failureKind } from '../redis/failure.js';
import { type Script, scripts } from '../redis/scripts.generated.js';

/** The backend of a lock that has a line on its server. */
export interface LinedLock {
  /** Whether each holder is given a fencing token. */
  readonly isFenced: boolean;
  join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply>;
  /** Sees to it that what nobody holds goes to the first in line. Returns when to look again, in milliseconds, as `FairLine` wants it. */
  handOn(): Promise<number>;
  /** Sets the lease of a lock that was handed over. */
  confirm(ownerId: string, leaseMs: number): Promise<KeepReply>;
  release(ownerId: string): Promise<boolean>;
  /** Tells `listener` of releases that gave the lock to nobody in line. */
  subscribeToUnlocks(listener: ChannelListener): Subscription;
  /** The messages for the line in what was published on a channel of grants. */
  messagesIn(payload: string): readonly string[];
}

/** What all lines of one kind have in common on a server. */
interface LineServices {
  readonly grantees: Grantees;
  readonly lines: Lines<FairLine>;
  readonly renewer: PlaceRenewer;
}

export class ServerLine implements PlaceLock {
  readonly #server: Server;
  readonly #keys: LockKeys;
  readonly #lock: LinedLock;
  readonly #services: () => LineServices;

  constructor(server: Server, keys: LockKeys, lock: LinedLock, services: () => LineServices) {
    this.#server = server;
    this.#keys = keys;
    this.#lock = lock;
    this.#services = services;
  }

  get isFenced(): boolean {
    return this.#lock.isFenced;
  }

  join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply> {
    return this.#lock.join(request, limit);
  }

  handOn(): Promise<number> {
    return this.#lock.handOn();
  }

  confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    return this.#lock.confirm(ownerId, leaseMs);
  }

  /** Whether replicas must have acknowledged a hand-over before it counts. */
  get isReplicated(): boolean {
    return this.#server.connection.isReplicated;
  }

  /** How long a place in line is kept without a renewal, in milliseconds. */
  get placeLeaseMs(): number {
    return this.#server.lockWatchdogTimeoutMs;
  }

  nextNonce(): number {
    return this.#services().renewer.nextNonce();
  }

  /** A place is about to be made in the line, and takes a grant until its owner is forgotten. */
  expectGrant(place: RenewedPlace & Grantee): void {
    this.#services().grantees.expect(this.#keys.lock, place.ownerId, place);
  }

  /** This owner has the lock: a grant that still comes for it is a copy, or came late. */
  wasGranted(ownerId: string): void {
    this.#services().grantees.granted(this.#keys.lock, ownerId);
  }

  forget(ownerId: string): void {
    this.#services().grantees.forget(this.#keys.lock, ownerId);
  }

  /**
   * The lock was handed to an owner that does not stand in the line here. If somebody waits as this owner, the grant has overtaken
   * the answer to the join. If nobody has the lock as this owner either, a join of somebody who has gone came late: the lock would
   * stand idle until the lease of that place is over. `isOurs`: the grant came to this client's own channel, so it is nobody else’s.
   */
  grantedOutOfLine(ownerId: string, isOurs: boolean, nonce: number, token?: bigint): void {
    const { grantees } = this.#services();
    const grantee = grantees.waitingAs(this.#keys.lock, ownerId);
    if (grantee) grantee.granted(nonce, token);
    else if (isOurs && grantees.isStray(this.#keys.lock, ownerId))
      this.#lock.release(ownerId).catch(() => undefined); // unanswered: then that lease ends it
  }

  /** The line as far as this client stands in it. */
  fairLine(): FairLine {
    return this.#services().lines.of(this.#keys.lock, (onEmpty) => new FairLine(this, onEmpty));
  }

  /** That line, if anybody of this client stands in it. */
  knownFairLine(): FairLine | undefined {
    return this.#services().lines.known(this.#keys.lock);
  }

  /** Whether grants would be heard, as far as is known, though nobody of this client stands in line now. */
  get isListening(): boolean {
    return this.#server.channels.isSubscribed(this.#grantChannel);
  }

  /**
   * A place is gone whose lease was not over, and of which the server was told last at `toldAt`. If we listened all the while, whoever
   * handed over may not count us, and would pass us over for ever: we listen on classic channels, others publish on sharded ones; or
   * our subscription stands at a replica. But the line may have been deleted instead: then the server counts us, and says so.
   */
  passedOver(toldAt: Instant): void {
    const channel = this.#grantChannel;
    const { channels, connection, isSharded } = this.#server;
    if (!channels.doubt(channel, toldAt.monotonicMs)) return;
    if (connection.isCluster && !isSharded) return; // others may count those who listen on sharded channels
    const read = (reply: unknown): void => {
      const [, count] = reply as [string, number];
      if (count > 0) channels.trust(channel);
    };
    const question = [isSharded ? 'SHARDNUMSUB' : 'NUMSUB', channel];
    void connection.senderFor(this.#keys.lock)?.send('pubsub', question, read, () => undefined);
  }

  subscribeToGrants(listener: ChannelListener): Subscription {
    const messagesIn = (payload: string): readonly string[] => this.#lock.messagesIn(payload);
    return this.#server.channels.subscribe(this.#grantChannel, this.#server.isSharded, {
      subscribed: () => {
        listener.subscribed();
      },
      message: (payload) => {
        for (const message of messagesIn(payload)) listener.message(message);
      },
      late: (payload) => {
        for (const message of messagesIn(payload)) listener.late?.(message);
      },
      concernsAll: (payload) =>
        messagesIn(payload).some((message) => listener.concernsAll?.(message) ?? true),
    });
  }

  subscribeToUnlocks(listener: ChannelListener): Subscription {
    return this.#lock.subscribeToUnlocks(listener);
  }

  /** What a script is told of how to announce grants: on which channels, by which command, and whether it can count who listens there. */
  get grantArgs(): readonly (string | number)[] {
    const { isSharded, connection } = this.#server;
    const isCounted = Number(isSharded || !connection.isCluster);
    return [this.#keys.grants, this.grantCommand, isCounted];
  }

  /** The command that tells a client that a lock was handed to it. */
  get grantCommand(): 'PUBLISH' | 'SPUBLISH' {
    return this.#server.isSharded ? 'SPUBLISH' : 'PUBLISH';
  }

  /** Where the line for this lock is scheduled. */
  get schedule(): Schedule {
    return this.#server.schedule;
  }

  watchPlace(place: RenewedPlace): void {
    this.#server.watchdog.watch(place, place, this.#services().renewer);
  }

  unwatchPlace(place: RenewedPlace): void {
    this.#server.watchdog.unwatch(place);
  }

  renewPlaces(places: Iterable<Renewable<unknown>>): void {
    this.#server.watchdog.renew(places);
  }

  get #grantChannel(): string {
    return this.#keys.grants + this.#server.listensAt;
  }
}

// The line for one fair lock as far as this client stands in it: its places, the channel where it hears that the lock
// was handed to one of them, and a look at the lock when the holder's lease is over.

/** What the message begins with that tells a new end of the lease. */
const ENDS = 'ends ';

/** What the message begins with that tells an owner that its place was dropped. */
const GONE = 'gone ';

/** A grant: the nonce of the place, the fencing token if there is one, and the owner. */
const GRANT = /^(\d{1,16})(?::(\d{1,16}))? (.+)$/s;

/** A place in this line. */
interface PlaceInLine extends Renewable<unknown> {
  /** The lock was handed over to this place while the place had this nonce, with such a token if it is a fenced one. */
  granted(nonce: number, token?: bigint): void;
  /** The server says that it has dropped this place for what its caller wants. */
  dropped(): void;
  /** The caller who waits at this place is to try. */
  wake(): void;
}

/** The end of the holder's lease, as far as it was told. */
interface LeaseEnd {
  /** When it was told. */
  readonly toldAt: Instant;
  /** How long the lease went on then. */
  readonly ttlMs: number;
}

/** The fair lock, as the line for it knows it. */
interface LineLock {
  readonly schedule: Schedule;
  subscribeToGrants(listener: ChannelListener): Subscription;
  subscribeToUnlocks(listener: ChannelListener): Subscription;
  renewPlaces(places: Iterable<PlaceInLine>): void;
  handOn(): Promise<number>;
  grantedOutOfLine(ownerId: string, isOurs: boolean, nonce: number, token?: bigint): void;
}

export class FairLine implements Due {
  scheduled: Scheduled | undefined;
  /** What the callers in this line were told last of who has the lock. */
  readonly findings: Findings = new Findings();
  readonly #lock: LineLock;
  readonly #onEmpty: () => void;
  readonly #places = new Map<string, PlaceInLine>();
  #grants: Subscription | undefined;
  #unlocks: Subscription | undefined;
  /** When the lock is looked at because of time; undefined: its lease has no end that is known. */
  #leaseEnd: LeaseEnd | undefined;
  /** Whether a look at the lock is under way. */
  #isLooking = false;
  /** A message came while a look was under way, which may have reached the server before what the message tells of. */
  #shallLookAgain = false;
  /** The place that asks, for all in this line, who has the lock; undefined: none does now. */
  #looker: PlaceInLine | undefined;
  /** Since when that place, or the last one that did, asks; on the monotonic clock. */
  #askedSinceMs = 0;

  constructor(lock: LineLock, onEmpty: () => void) {
    this.#lock = lock;
    this.#onEmpty = onEmpty;
  }

  /** Whether our subscription to grants is known to stand. */
  get isListening(): boolean {
    return this.#grants?.isSubscribed ?? false;
  }

  /** Whether a grant or a release may have been published since `sinceMs` (on the monotonic clock) that a place that tried then missed. */
  mayHaveMissed(sinceMs: number): boolean {
    return [this.#grants, this.#unlocks].some((heard) => heard?.mayHaveMissed(sinceMs));
  }

  join(place: PlaceInLine): void {
    this.#places.set(place.ownerId, place);
    this.#grants ??= this.#lock.subscribeToGrants({
      // Until the server knows that we listen, it takes our places for deaf, and may have passed them over.
      subscribed: () => {
        this.renew(this.#places.values());
      },
      message: (payload) => {
        this.hear(payload);
      },
      late: (payload) => {
        this.hear(payload);
      },
      // A grant finds its waiter also outside of this line, so whoever joins later has not missed it. But a new end of the lease is newer
      // than the answer to a join that was sent before it.
      concernsAll: (payload) => payload.startsWith(ENDS),
    });
    // A release that finds nobody in line hands the lock to nobody, and publishes on the unlock channel: that of a reentrant lock
    // of this name, or one after the line was deleted.
    const look = this.#look;
    this.#unlocks ??= this.#lock.subscribeToUnlocks({ subscribed: look, message: look });
  }

  leave(place: PlaceInLine): void {
    this.#places.delete(place.ownerId);
    if (this.#looker === place) this.#looker = undefined;
    if (this.#places.size > 0) return;
    this.#lock.schedule.delete(this);
    this.#grants?.close();
    this.#unlocks?.close();
    this.#onEmpty();
  }

  /**
   * The caller at this place wants to know who has the lock, and asks for all in this line; unless another one has been asking since
   * `sinceMs` (on the monotonic clock). Asking changes nobody's place.
   */
  look(place: PlaceInLine, sinceMs: number): void {
    if (this.#looker && this.#askedSinceMs >= sinceMs) return;
    this.#looker = place;
    this.#askedSinceMs = this.#lock.schedule.clock.nowMs();
    place.wake();
  }

  /** The caller at this place was told who has the lock. If the holder is another place of this line, its caller does not know yet. */
  looked(place: PlaceInLine, holder: string): void {
    if (this.#looker === place) this.#looker = undefined;
    this.#places.get(holder)?.wake();
  }

  renew(places: Iterable<PlaceInLine>): void {
    this.#lock.renewPlaces(places);
  }

  /**
   * The lock is looked at in `ttlMs`, when its lease ends if nobody prolongs it. -1: the lease has no end; below that, the lock is
   * free. What is told here replaces what was told before; an entry in the schedule that is due earlier stays, and `due` looks at
   * the clock, so that many who join one after another cost no timers.
   */
  scheduleLook(ttlMs: number): void {
    if (this.#places.size === 0 || ttlMs === -1) return;
    if (ttlMs < 0) {
      this.#leaseEnd = undefined;
      this.#look();
      return;
    }
    this.#leaseEnd = { toldAt: now(this.#lock.schedule.clock), ttlMs };
    this.#lock.schedule.within(this, ttlMs);
  }

  due(): void {
    if (!this.#leaseEnd) return;
    const leftMs = this.#leaseEnd.ttlMs - elapsedMs(this.#leaseEnd.toldAt);
    if (leftMs > 0) {
      this.#lock.schedule.within(this, leftMs);
      return;
    }
    this.#leaseEnd = undefined;
    this.#look();
  }

  /**
   * A message for this line: a grant, "<nonce> <owner>" or "<nonce>:<token> <owner>", or that the holder's lease is shorter than the one
   * before it, "ends <ttlMs>", or of a weighted lock that a place was dropped, "gone <owner>". Anybody who may publish may say anything:
   * what is none of these is ignored.
   */
  hear(message: string): void {
    if (message.startsWith(ENDS)) {
      this.scheduleLook(Number.parseInt(message.slice(ENDS.length), 10) || 0);
      return;
    }
    if (message.startsWith(GONE)) {
      this.#places.get(message.slice(GONE.length))?.dropped();
      return;
    }
    this.#granted(message, true);
  }

  /** A grant that a script of ours made: to a place of this client, or of any other one, even for an owner whose client made a MultiLock with us. */
  offer(grant: string): void {
    this.#granted(grant, false);
  }

  #granted(grant: string, isOurs: boolean): void {
    const [, nonce, fencingToken, ownerId] = GRANT.exec(grant) ?? [];
    if (ownerId === undefined) return;
    const token = fencingToken === undefined ? undefined : BigInt(fencingToken);
    const place = this.#places.get(ownerId);
    if (place) place.granted(Number(nonce), token);
    else this.#lock.grantedOutOfLine(ownerId, isOurs, Number(nonce), token);
  }

  /** Looks at the lock, and hands it to the first in line if nobody holds it. */
  readonly #look = (): void => {
    if (this.#isLooking) {
      this.#shallLookAgain = true;
      return;
    }
    this.#isLooking = true;
    this.#lock.handOn().then(
      (ttlMs) => {
        // The lock is free, and there was nobody to hand it to: then our places are gone.
        if (ttlMs < -1) this.renew(this.#places.values());
        else this.scheduleLook(ttlMs);
        this.#looked();
      },
      () => {
        this.#looked(); // the next renewal of the places tells how long the lock is held
      },
    );
  };

  #looked(): void {
    this.#isLooking = false;
    if (!this.#shallLookAgain) return;
    this.#shallLookAgain = false;
    if (this.#places.size > 0) this.#look();
  }
}

// The owners of one client to whom a fair lock may be handed over, or was.

/** Who waits as such an owner. */
export interface Grantee {
  /** The lock was handed over to this owner while its place had this nonce, with such a token if it is a fenced one. */
  granted(nonce: number, token?: bigint): void;
}

export class Grantees {
  /**
   * By owner and lock, since the members of a MultiLock have one owner; undefined: this owner has the lock, and takes no grant any more.
   */
  readonly #owners = new Map<string, Grantee | undefined>();
  /** The client ids of all such owners so far: a member of a MultiLock has an owner of the client that made the MultiLock. */
  readonly #clientIds = new Set<string>();

  /** An owner is about to stand in line, and is expected until it is forgotten. */
  expect(lock: string, ownerId: string, grantee: Grantee): void {
    this.#owners.set(key(lock, ownerId), grantee);
    this.#clientIds.add(clientIdOf(ownerId));
  }

  /** An owner has the lock: a grant that comes now is a copy, or came late. */
  granted(lock: string, ownerId: string): void {
    const owner = key(lock, ownerId);
    if (this.#owners.has(owner)) this.#owners.set(owner, undefined);
  }

  /** Nobody holds the lock as this owner, nor waits for it. */
  forget(lock: string, ownerId: string): void {
    this.#owners.delete(key(lock, ownerId));
  }

  /** Who waits for the lock as this owner, whether or not it stands in a line here already. */
  waitingAs(lock: string, ownerId: string): Grantee | undefined {
    return this.#owners.get(key(lock, ownerId));
  }

  /** Whether an owner is one of ours, and nobody is here any more who would take the lock as this owner. */
  isStray(lock: string, ownerId: string): boolean {
    return !this.#owners.has(key(lock, ownerId)) && this.#clientIds.has(clientIdOf(ownerId));
  }
}

function key(lock: string, ownerId: string): string {
  return `${ownerId} ${lock}`;
}

function clientIdOf(ownerId: string): string {
  return ownerId.slice(0, ownerId.lastIndexOf(':'));
}

// What a place in line asks of the fair lock, and what the lock answers.

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

// How the places that a client has in lines for fair locks are renewed: many in one call.

/** What the renewal of a place found. */
export type PlaceReply =
  | { readonly outcome: 'in line'; readonly nonce: number; readonly holderTtlMs: number }
  /** The lock was handed over, and nobody told us so far. */
  | { readonly outcome: 'yours'; readonly nonce: number }
  /** The place lapsed, was passed over, or the line was deleted. */
  | { readonly outcome: 'gone'; readonly nonce: number };

/** A place in line, as far as it is renewed. */
export interface RenewedPlace extends Renewable<PlaceReply> {
  readonly keys: LockKeys;
  readonly isListening: boolean;
  /** A command is about to be sent that renews the place. */
  sending(nonce: number, at: Instant): void;
  /** The caller who waits at the place is to try. */
  wake(): void;
}

/** How places of one kind of lock are renewed: by which script, and which of the lock's keys that takes. */
export interface PlaceScript {
  readonly kind: string;
  readonly script: Script;
  readonly keysOf: (keys: LockKeys) => readonly string[];
}

const FAIR: PlaceScript = {
  kind: 'place',
  script: scripts.renewPlaces,
  keysOf: ({ lock, line, places }) => [lock, line, places],
};

export class PlaceRenewer implements Renewer<RenewedPlace> {
  readonly kind: string;
  readonly #connection: RedisClient;
  readonly #places: PlaceScript;
  #lastNonce = 0;

  constructor(connection: RedisClient, places: PlaceScript = FAIR) {
    this.kind = places.kind;
    this.#connection = connection;
    this.#places = places;
  }

  /** A number that no other command about a place has. */
  nextNonce(): number {
    return ++this.#lastNonce;
  }

  batchKey({ keys }: RenewedPlace): string {
    return this.#connection.isSlotted ? hashTag(keys.lock) : '';
  }

  renew(batch: readonly Watched<RenewedPlace>[], leaseMs: number): Promise<readonly PlaceReply[]> {
    const nonce = this.nextNonce();
    const sentAt = now(this.#connection.surroundings.clock);
    const keys: string[] = [];
    const args: (string | number)[] = [leaseMs, nonce];
    for (const { target: place } of batch) {
      place.sending(nonce, sentAt);
      keys.push(...this.#places.keysOf(place.keys));
      args.push(place.ownerId, Number(place.isListening));
    }
    const renewal = this.#connection.run(this.#places.script, keys, args, (replies) =>
      (replies as (string | number)[]).map((reply) => read(reply, nonce)),
    );
    renewal.catch((error: unknown) => {
      // The server refuses us, and nobody would ever wake these callers: by a try of its own each of them learns that.
      if (error instanceof UnavailableError || failureKind(error) === 'denied')
        for (const { target: place } of batch) place.wake();
    });
    return renewal;
  }
}

function read(reply: string | number, nonce: number): PlaceReply {
  if (reply === 'yours' || reply === 'gone') return { outcome: reply, nonce };
  return { outcome: 'in line', nonce, holderTtlMs: Number(reply) };
}

// What the fair locks of one client share on one Redis: their lines, who may be granted one, and how places are renewed.

export class FairServices {
  readonly grantees: Grantees = new Grantees();
  readonly lines: Lines<FairLine> = new Lines<FairLine>();
  readonly renewer: PlaceRenewer;

  constructor(connection: RedisClient) {
    this.renewer = new PlaceRenewer(connection);
  }
}
