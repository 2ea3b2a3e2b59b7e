// The line for one lock on its server, as this client's callers stand in it: where they hear of their grants, how their places are
// renewed. What the lock's own scripts do about the line, its backend sends.

import type { KeepReply } from '../../core/replies.js';
import type { Server } from '../../core/server.js';
import type { Renewable } from '../../core/renewal.js';
import type { LockKeys } from '../../redis/keys.js';
import type { Schedule } from '../../runtime/schedule.js';
import type { Instant, TimeLimit } from '../../runtime/clock.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import type { Lines } from '../../waiting/lines.js';
import { FairLine } from './fair-line.js';
import type { Grantee, Grantees } from './grantees.js';
import type { JoinReply, JoinRequest, PlaceLock } from './place-lock.js';
import type { PlaceRenewer, RenewedPlace } from './place-renewer.js';

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
