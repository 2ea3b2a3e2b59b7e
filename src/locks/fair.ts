// The fair lock on one Redis: first come, first served. What its scripts are sent and what they answer; the data is that of
// the reentrant lock, and a line beside it.

import {
  isAcquired,
  isKept,
  type KeepReply,
  type LockRequest,
  type Waiter,
} from '../core/protocol.js';
import type { TimeLimit } from '../runtime/clock.js';
import { scripts } from '../redis/scripts.generated.js';
import { FairPlace } from '../queue/place.js';
import {
  FairServices,
  type JoinReply,
  type JoinRequest,
  readJoin,
  ServerLine,
} from '../queue/queue.js';
import type { ExpectedKey } from '../core/retry.js';
import { ReentrantLockBackend } from './plain.js';
import type { FairLock } from '../api/lock.js';
import { SingleLock } from './single-lock.js';

export class FairLockBackend extends ReentrantLockBackend {
  override readonly kind: string = 'FairLock';
  override readonly mayVote = false;
  readonly serverLine: ServerLine = new ServerLine(this.server, this.keys, this, () =>
    this.server.shared(FairServices),
  );

  override waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new FairPlace(this.serverLine, this.keys, newOwnerId(), request);
  }

  /** The caller may have to stand in line, which takes more than one command. */
  override tryAtOnce(): undefined {
    return undefined;
  }

  override async release(ownerId: string): Promise<boolean> {
    const { isReleased, ttlMs } = await this.#handOver(ownerId);
    if (ttlMs === MORE_TO_DROP) this.handOn().catch(() => undefined); // if it fails, a renewal of a place does it
    return isReleased;
  }

  override async forceUnlock(wordMs: number): Promise<string | undefined> {
    const forced = super.forceUnlock(wordMs);
    // Sent right behind the script that forces: whoever comes in between joins the line. If it fails, the next renewal of a place does
    // this.
    this.handOn().catch(() => undefined);
    return await forced;
  }

  override forget(ownerId: string): void {
    this.serverLine.forget(ownerId);
    super.forget(ownerId);
  }

  /** None: the server hands the lock over, in the order of all clients. */
  override get localLine(): undefined {
    return undefined;
  }

  /** The owners that wait in line, in order. */
  waiters(): Promise<string[]> {
    const { lock, line, places } = this.keys;
    return this.server.connection.run(
      scripts.waiters,
      [lock, line, places],
      [],
      (owners) => owners as string[],
    );
  }

  join(request: JoinRequest, limit?: TimeLimit): Promise<JoinReply> {
    const { ownerId, leaseMs, mayWait, isFixed, isListening, nonce, ticket } = request;
    const { lock, line, places } = this.keys;
    const placeLeaseMs = mayWait ? this.serverLine.placeLeaseMs : 0;
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
      [ownerId, leaseMs, ...unlock, grants, this.serverLine.grantCommand],
      (reply) => reply as KeepReply,
      isKept,
    );
  }

  /** What is published is one message: a grant, or a new end of the holder's lease. */
  messagesIn(payload: string): readonly string[] {
    return [payload];
  }

  protected override get expectedKeys(): ExpectedKey[] {
    const { line, places } = this.keys;
    return [
      ...super.expectedKeys,
      { key: line, type: 'zset', expected: 'the line for the lock' },
      { key: places, type: 'hash', expected: 'the places in the line for the lock' },
    ];
  }

  #handOver(ownerId: string): Promise<HandOver> {
    const { lock, line, places, channel } = this.keys;
    const { server } = this;
    const unlock = [channel, server.publishCommand(this.keys)];
    return server.connection.run(
      scripts.handOver,
      [lock, line, places, ...this.fencing.keys],
      [ownerId, ...unlock, ...this.serverLine.grantArgs],
      (reply) => {
        const { refused, reason, grant, ...handOver } = readHandOver(reply);
        if (refused !== undefined) server.publishRefused(refused, reason);
        if (grant !== '') this.serverLine.knownFairLine()?.offer(grant);
        return handOver;
      },
    );
  }
}

// What hand-over.lua answers.

/** As a time to live: the lock is free, and many lapsed places are still in the way. */
const MORE_TO_DROP = -3;

/** What a hand-over came to. */
export interface HandOver {
  readonly isReleased: boolean;
  /** The time to live of the lock in milliseconds; -1: no expiry, -2: it is free, and nobody is in line. */
  readonly ttlMs: number;
}

interface AnsweredHandOver extends HandOver {
  /** The grant by which the lock was handed over, as its message says it, which may come later, or never. Empty: nobody got the lock. */
  readonly grant: string;
  /** A channel on which publishing was refused; `reason` says why. */
  readonly refused: string | undefined;
  readonly reason: string;
}

function readHandOver(reply: unknown): AnsweredHandOver {
  const [released, grant, ttlMs, refused, reason = ''] = reply as HandOverReply;
  return { isReleased: released === 1, ttlMs, grant, refused, reason };
}

type HandOverReply = [number, string, number, string?, string?];

// A fair lock on one Redis: a lock of one name, and a look at the line for it.

export class FairSingleLock extends SingleLock<FairLockBackend> implements FairLock {
  async getQueueLength(): Promise<number> {
    return (await this.getWaiters()).length;
  }

  async getWaiters(): Promise<string[]> {
    const { session, backend } = this.parts;
    return await session.ask(backend, () => backend.waiters());
  }
}
