// The acquires and releases that a client sends to one Redis. While the connection is idle each is sent at once, by itself; while
// something is under way, those of one turn of the event loop go together: one call of a script for many locks.

import { NO_LIMIT, type TimeLimit } from '../../runtime/clock.js';
import type { Connection } from '../../redis/connection.js';
import type { Argument } from '../../redis/driver.js';
import { isReply, UnsentError } from '../../redis/failure.js';
import { hashTag, type LockKeys } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';

/** For how many locks one call is at most: everybody else's commands wait for as long as it takes. */
const MOST_LOCKS = 64;

/** How those who wait are told of a release; empty: they are not. */
export type Publish = 'PUBLISH' | 'SPUBLISH' | '';

/** The part of a connection that sends them. */
export type Carrier = Pick<Connection, 'isBusy' | 'isCluster' | 'run' | 'postpone' | 'senderFor'>;

interface GatheredCall {
  readonly keys: LockKeys;
  readonly ownerId: string;
  /** For how long the lock is to be acquired; 0: it is to be released. */
  readonly leaseMs: number;
  readonly publish: Publish;
  /** How long anybody is interested. */
  readonly limit: TimeLimit;
  /** What its script answers, in the caller's words. */
  readonly read: (reply: unknown) => unknown;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class GatheredCalls {
  readonly #carrier: Carrier;
  /** In the order in which they were made. */
  #calls: GatheredCall[] = [];

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
  }

  /** Sends acquire.lua, or does the same with others. */
  acquire<T>(
    keys: LockKeys,
    ownerId: string,
    leaseMs: number,
    read: (reply: unknown) => T,
    limit: TimeLimit = NO_LIMIT,
  ): Promise<T> {
    const carrier = this.#carrier;
    if (!carrier.isBusy) return sendAcquire(carrier, keys, ownerId, leaseMs, read, limit);
    return new Promise((resolve, reject) => {
      const answered = resolve as GatheredCall['resolve'];
      this.#add({ keys, ownerId, leaseMs, publish: '', limit, read, resolve: answered, reject });
    });
  }

  /** Sends release.lua, or does the same with others. It is sent whether or not anybody is still interested. */
  release<T>(
    keys: LockKeys,
    ownerId: string,
    publish: Publish,
    read: (reply: unknown) => T,
  ): Promise<T> {
    const carrier = this.#carrier;
    if (!carrier.isBusy) return sendRelease(carrier, keys, ownerId, publish, read);
    return new Promise((resolve, reject) => {
      const answered = resolve as GatheredCall['resolve'];
      const limit = NO_LIMIT;
      this.#add({ keys, ownerId, leaseMs: 0, publish, limit, read, resolve: answered, reject });
    });
  }

  #add(call: GatheredCall): void {
    if (this.#calls.push(call) === 1) this.#carrier.postpone(this.#sendAll);
  }

  readonly #sendAll = (): void => {
    const calls = this.#calls;
    this.#calls = [];
    const wanted = calls.filter(isWanted);
    if (this.#carrier.isCluster) for (const ofSlot of bySlot(wanted)) this.#sendInOrder(ofSlot);
    else this.#sendInOrder(wanted);
  };

  #sendInOrder(calls: readonly GatheredCall[]): void {
    for (let from = 0; from < calls.length; from += MOST_LOCKS)
      this.#sendTogether(calls.slice(from, from + MOST_LOCKS));
  }

  #sendTogether(calls: readonly GatheredCall[]): void {
    const [first] = calls;
    const sender = first && calls.length > 1 && this.#carrier.senderFor(first.keys.lock);
    if (!sender) {
      for (const call of calls) this.#sendAlone(call);
      return;
    }
    const keys = calls.map((call) => call.keys.lock);
    const read = (answers: unknown): void => {
      for (const [index, answer] of (answers as unknown[]).entries()) {
        const call = calls[index];
        if (call) this.#settle(call, answer);
      }
    };
    this.#carrier
      .run(scripts.gather, keys, argumentsFor(calls), read, limitOf(calls), sender)
      .catch((error: unknown) => {
        // An error reply to the whole call, or none sent at all: nothing was done, and each hears what is said to it alone.
        const isUndone = isReply(error) || error instanceof UnsentError;
        for (const call of calls) {
          if (isUndone) this.#sendAlone(call);
          else call.reject(error as Error);
        }
      });
  }

  /** null: nothing was done, and why not it is told when it is alone. */
  #settle(call: GatheredCall, answer: unknown): void {
    if (answer === null) {
      this.#sendAlone(call);
      return;
    }
    try {
      call.resolve(call.read(answer));
    } catch (error) {
      call.reject(error as Error); // a defect of ours must not keep the others waiting
    }
  }

  #sendAlone(call: GatheredCall): void {
    if (!isWanted(call)) return;
    const { keys, ownerId, leaseMs, publish, limit, read } = call;
    call.resolve(
      leaseMs > 0
        ? sendAcquire(this.#carrier, keys, ownerId, leaseMs, read, limit)
        : sendRelease(this.#carrier, keys, ownerId, publish, read),
    );
  }
}

function sendAcquire<T>(
  carrier: Carrier,
  { lock }: LockKeys,
  ownerId: string,
  leaseMs: number,
  read: (reply: unknown) => T,
  limit: TimeLimit,
): Promise<T> {
  return carrier.run(scripts.acquire, [lock], [ownerId, leaseMs], read, limit);
}

function sendRelease<T>(
  carrier: Carrier,
  { lock, channel }: LockKeys,
  ownerId: string,
  publish: Publish,
  read: (reply: unknown) => T,
): Promise<T> {
  return carrier.run(scripts.release, [lock], [ownerId, channel, publish], read);
}

/** Whether anybody still is interested; whoever is not any more is answered. */
function isWanted({ limit, reject }: GatheredCall): boolean {
  if (limit.leftMs > 0) return true;
  reject(new UnsentError('nobody waits for it any more'));
  return false;
}

/** Over as soon as any of them has given up: the others are sent without it then, should the script have to be sent in full. */
function limitOf(calls: readonly GatheredCall[]): TimeLimit {
  return {
    get leftMs() {
      return Math.min(...calls.map(({ limit }) => limit.leftMs));
    },
  };
}

/** In a cluster keys go together that are in one slot for sure. (Calls for the same lock keep their order.) */
function bySlot(calls: readonly GatheredCall[]): Iterable<GatheredCall[]> {
  const groups = new Map<string, GatheredCall[]>();
  for (const call of calls) {
    const tag = hashTag(call.keys.lock);
    const group = groups.get(tag);
    if (group) group.push(call);
    else groups.set(tag, [call]);
  }
  return groups.values();
}

/** What gather.lua takes besides keys: as few arguments as can be, since each costs about as much as its work on the server. */
function argumentsFor(calls: readonly GatheredCall[]): Argument[] {
  const commonLeaseMs = calls.find(({ leaseMs }) => leaseMs > 0)?.leaseMs ?? 0;
  // The same for all that are told: what else than a server's kind it depends on is in the name's hash tag.
  const told = calls.find(({ publish }) => publish !== '');
  const owners: Argument[] = [];
  let kinds = '';
  for (const { ownerId, leaseMs, publish } of calls) {
    owners.push(ownerId);
    if (leaseMs === 0) kinds += publish === '' ? 'w' : 'r';
    else if (leaseMs === commonLeaseMs) kinds += 'a';
    else {
      kinds += 'o';
      owners.push(leaseMs);
    }
  }
  return [kinds, commonLeaseMs, told?.publish ?? '', ...owners];
}
