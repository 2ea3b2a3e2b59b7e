// The fair lock on one Redis: first come, first served. What its scripts are sent and what they answer; the data is that of
// the reentrant lock, and a line beside it.

import { isAcquired, isKept, type KeepReply } from '../../core/replies.js';
import type { LockRequest } from '../../core/request.js';
import type { Waiter } from '../../core/waiter.js';
import type { Renewable } from '../../core/watchdog.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Schedule } from '../../runtime/schedule.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { ChannelListener, Subscription } from '../../waiting/channels.js';
import { FairLine } from './fair-line.js';
import { FairPlace } from './fair-place.js';
import { FairServices } from './fair-services.js';
import type { Grantee } from './grantees.js';
import { MORE_TO_DROP, readHandOver, type HandOver } from './hand-over.js';
import { readJoin, type JoinReply, type JoinRequest } from './place-lock.js';
import type { RenewedPlace } from './place-renewer.js';
import type { ExpectedKey } from '../../core/key-types.js';
import { ReentrantLockBackend } from '../reentrant/reentrant-backend.js';

export class FairLockBackend extends ReentrantLockBackend {
  override readonly kind: string = 'FairLock';
  override readonly mayVote = false;

  override waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new FairPlace(this, this.keys, newOwnerId(), request);
  }

  /** It may have to stand in line. */
  override tryAtOnce(): undefined {
    return undefined;
  }

  override async release(ownerId: string): Promise<boolean> {
    const { isReleased, ttlMs } = await this.#handOver(ownerId);
    if (ttlMs === MORE_TO_DROP) this.handOn().catch(() => undefined); // or whoever waits, at the next renewal
    return isReleased;
  }

  override async forceUnlock(wordMs: number): Promise<string | undefined> {
    const forced = super.forceUnlock(wordMs);
    // Sent right behind it: whoever comes in between joins the line. If it fails, the next renewal sees to the line.
    this.handOn().catch(() => undefined);
    return await forced;
  }

  /** A place is about to be made in the line, and takes a grant until its owner is forgotten. */
  expectGrant(place: RenewedPlace & Grantee): void {
    this.#services.grantees.expect(this.keys.lock, place.ownerId, place);
  }

  /** An owner that took grants has the lock. */
  wasGranted(ownerId: string): void {
    this.#services.grantees.granted(this.keys.lock, ownerId);
  }

  override forget(ownerId: string): void {
    this.#services.grantees.forget(this.keys.lock, ownerId);
    super.forget(ownerId);
  }

  /** It is handed over by the server, in the order of all clients. */
  override get localLine(): undefined {
    return undefined;
  }

  /**
   * The lock was handed to an owner that does not stand in the line here. If somebody waits as this owner, the grant has overtaken
   * the answer to the join. If nobody has the lock as this owner either, a join of somebody who has gone came late: the lock would
   * stand idle until the lease of that place is over.
   */
  grantedOutOfLine(ownerId: string, nonce: number, token?: bigint): void {
    const { grantees } = this.#services;
    const grantee = grantees.waitingAs(this.keys.lock, ownerId);
    if (grantee) grantee.granted(nonce, token);
    else if (grantees.isStray(this.keys.lock, ownerId))
      this.release(ownerId).catch(() => undefined); // unanswered: then that lease ends it
  }

  /** The owners that wait in line, in order. */
  waiters(): Promise<string[]> {
    const { line, places } = this.keys;
    return this.server.connection.run(
      scripts.waiters,
      [line, places],
      [],
      (owners) => owners as string[],
    );
  }

  join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply> {
    const { ownerId, leaseMs, mayWait, isFixed, isListening, nonce, ticket } = request;
    const { lock, line, places } = this.keys;
    const placeLeaseMs = mayWait ? this.placeLeaseMs : 0;
    const wants = Number(isFixed) + 2 * Number(this.isFenced);
    const place = [nonce, ticket, wants, Number(isListening), this.server.listensAt];
    const args = [ownerId, leaseMs, placeLeaseMs, ...place, ...this.fencing.args];
    const keys = [lock, line, places, ...this.fencing.keys];
    const { connection } = this.server;
    return connection.runReplicated(scripts.join, keys, args, readJoin, isAcquired, limit);
  }

  /** Sees to it that a lock that nobody holds goes to the first in line. Returns its time to live, as in `HandOver`. */
  async handOn(): Promise<number> {
    for (;;) {
      const { ttlMs } = await this.#handOver('');
      if (ttlMs !== MORE_TO_DROP) return ttlMs;
    }
  }

  /** Sets the lease of a lock that was handed over. */
  confirm(ownerId: string, leaseMs: number): Promise<KeepReply> {
    const { lock, forced, line, places, channel, grants } = this.keys;
    const unlock = [channel, this.server.publishCommand(this.keys)];
    return this.server.connection.runReplicated(
      scripts.confirm,
      [lock, forced, line, places],
      [ownerId, leaseMs, ...unlock, grants, this.#grantCommand],
      (reply) => reply as KeepReply,
      isKept,
    );
  }

  /** Whether replicas must have acknowledged a hand-over before it counts. */
  get isReplicated(): boolean {
    return this.server.connection.isReplicated;
  }

  /** How long a place in line is kept without a renewal, in milliseconds. */
  get placeLeaseMs(): number {
    return this.server.lockWatchdogTimeoutMs;
  }

  nextNonce(): number {
    return this.#services.renewer.nextNonce();
  }

  /** The line as far as this client stands in it. */
  fairLine(): FairLine {
    return this.#services.lines.of(this.keys.lock, (onEmpty) => new FairLine(this, onEmpty));
  }

  /** The same, if anybody of this client stands in it. */
  knownFairLine(): FairLine | undefined {
    return this.#services.lines.known(this.keys.lock);
  }

  /** Whether grants would be heard, though nobody of this client stands in line now. */
  get isListening(): boolean {
    return this.server.channels.isUp(this.#grantChannel);
  }

  subscribeToGrants(listener: ChannelListener): Subscription {
    return this.server.channels.subscribe(this.#grantChannel, this.server.isSharded, listener);
  }

  /** Where the line for this lock is scheduled. */
  get schedule(): Schedule {
    return this.server.schedule;
  }

  watchPlace(place: RenewedPlace): void {
    this.server.watchdog.watch(place, place, this.#services.renewer);
  }

  unwatchPlace(place: RenewedPlace): void {
    this.server.watchdog.unwatch(place);
  }

  renewPlaces(places: Iterable<Renewable<unknown>>): void {
    this.server.watchdog.renew(places);
  }

  protected override get expectedKeys(): ExpectedKey[] {
    const { line, places } = this.keys;
    return [
      ...super.expectedKeys,
      { key: line, type: 'zset', expected: 'the line for the lock' },
      { key: places, type: 'hash', expected: 'the places in the line for the lock' },
    ];
  }

  get #services(): FairServices {
    return this.server.shared(FairServices);
  }

  /** The command that tells a client that a lock was handed to it. */
  get #grantCommand(): 'PUBLISH' | 'SPUBLISH' {
    return this.server.isSharded ? 'SPUBLISH' : 'PUBLISH';
  }

  get #grantChannel(): string {
    return this.keys.grants + this.server.listensAt;
  }

  #handOver(ownerId: string): Promise<HandOver> {
    const { lock, line, places, channel, grants } = this.keys;
    const { server } = this;
    const isCounted = Number(server.isSharded || !server.connection.isCluster);
    const unlock = [channel, server.publishCommand(this.keys)];
    return server.connection.run(
      scripts.handOver,
      [lock, line, places, ...this.fencing.keys],
      [ownerId, ...unlock, grants, this.#grantCommand, isCounted],
      (reply) => {
        const { refused, reason, ourGrant, ...handOver } = readHandOver(reply);
        if (refused !== undefined) server.publishRefused(refused, reason);
        if (ourGrant !== '') this.knownFairLine()?.hear(ourGrant);
        return handOver;
      },
    );
  }
}
