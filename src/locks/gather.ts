// The acquires and releases that a client sends to one Redis. While the connection is idle each is sent at once, by itself; while
// something is under way, those of one turn of the event loop go together: one call of a script for many locks, or a few that follow each
// other.

import { NO_LIMIT, type TimeLimit } from '../runtime/clock.js';
import type { RedisClient } from '../redis/client.js';
import { isReply, RefusedError, UnsentError, UnwantedError } from '../redis/failure.js';
import { hashTag, type LockKeys } from '../redis/keys.js';
import { type Script, scripts } from '../redis/scripts.generated.js';
import type { Argument } from '../redis/port.js';

/** For how many locks one call is at most: the commands of all other clients wait for as long as it takes. */
const MOST_LOCKS = 64;

/** After a turn with few calls the remembered peak shrinks to this fraction. */
const FADES = 0.9;

/** The part of a connection that sends the calls. */
export type Carrier = Pick<
  RedisClient,
  'isBusy' | 'isSlotted' | 'run' | 'postpone' | 'sendNow' | 'senderFor'
>;

export class GatheredCalls {
  readonly #carrier: Carrier;
  /** The calls to be sent, in the order in which they were made. */
  #calls: GatheredCall[] = [];
  /** How many calls were sent together with others and are unanswered. */
  #unanswered = 0;
  /** The remembered peak: how many calls were to be sent or unanswered at a time, of late. */
  #mostUnderWay = 2 * MOST_LOCKS;

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
  }

  /** Acquires by acquire.lua, or with other calls by gather.lua. */
  acquire<T>(
    keys: LockKeys,
    ownerId: string,
    leaseMs: number,
    read: (reply: unknown) => T,
    limit: TimeLimit = NO_LIMIT,
    fencing: Fencing = NO_FENCING,
  ): Promise<T> {
    const carrier = this.#carrier;
    if (!carrier.isBusy) return sendAcquire(carrier, keys, ownerId, leaseMs, fencing, read, limit);
    return new Promise((resolve, reject) => {
      const answered = resolve as GatheredCall['resolve'];
      this.#add({
        keys,
        ownerId,
        leaseMs,
        fencing,
        publish: '',
        limit,
        read,
        resolve: answered,
        reject,
      });
    });
  }

  /** Releases by release.lua, or with other calls by gather.lua. It is sent whether or not the caller still waits. */
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
      const fencing = NO_FENCING;
      const limit = NO_LIMIT;
      this.#add({
        keys,
        ownerId,
        leaseMs: 0,
        fencing,
        publish,
        limit,
        read,
        resolve: answered,
        reject,
      });
    });
  }

  #add(call: GatheredCall): void {
    const count = this.#calls.push(call);
    if (count === 1) this.#carrier.postpone(this.#sendAll);
    else if (count >= this.#enough && !this.#carrier.isSlotted) this.#carrier.sendNow();
  }

  /** So many calls are sent before the turn is over: the server works on half of the usual number while we make the other half. */
  get #enough(): number {
    return Math.min(Math.max(this.#mostUnderWay / 2, 2), MOST_LOCKS);
  }

  readonly #sendAll = (): void => {
    const calls = this.#calls;
    this.#calls = [];
    if (calls.length < this.#enough) this.#mostUnderWay *= FADES; // at the end of a turn
    this.#mostUnderWay = Math.max(this.#mostUnderWay, calls.length + this.#unanswered);
    const wanted = calls.filter(isWanted);
    if (this.#carrier.isSlotted) for (const ofSlot of bySlot(wanted)) this.#sendInOrder(ofSlot);
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
    let unanswered = calls.length;
    this.#unanswered += unanswered;
    const answered = (): void => {
      this.#unanswered -= unanswered;
      unanswered = 0;
    };
    const read = (answers: unknown): void => {
      answered();
      for (const [index, answer] of (answers as unknown[]).entries()) {
        const call = calls[index];
        if (call) this.#settle(call, answer);
      }
    };
    this.#carrier
      .run(scripts.gather, keysFor(calls), argumentsFor(calls), read, limitOf(calls), sender)
      .catch((error: unknown) => {
        answered();
        // An error that answers the whole call, or a call that was never sent: nothing was done, so each is sent alone and gets its own
        // answer.
        const isUndone =
          isReply(error) || error instanceof UnsentError || error instanceof RefusedError;
        for (const call of calls) {
          if (isUndone) this.#sendAlone(call);
          else call.reject(error as Error);
        }
      });
  }

  /** null: gather.lua did not execute this call; sent alone, it gets its own reply or error. */
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
    const { keys, ownerId, leaseMs, fencing, publish, limit, read } = call;
    call.resolve(
      leaseMs > 0
        ? sendAcquire(this.#carrier, keys, ownerId, leaseMs, fencing, read, limit)
        : sendRelease(this.#carrier, keys, ownerId, publish, read),
    );
  }
}

function sendAcquire<T>(
  carrier: Carrier,
  lockKeys: LockKeys,
  ownerId: string,
  leaseMs: number,
  fencing: Fencing,
  read: (reply: unknown) => T,
  limit: TimeLimit,
): Promise<T> {
  const { script, keys, args } = acquireScript(lockKeys, ownerId, leaseMs, fencing);
  return carrier.run(script, keys, args, read, limit);
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

// An acquire or a release that waits to be sent with others, and how many of them become one call of gather.lua.

/** How those who wait are told of a release; empty: they are not. */
export type Publish = 'PUBLISH' | 'SPUBLISH' | '';

export interface GatheredCall {
  readonly keys: LockKeys;
  readonly ownerId: string;
  /** For how long the lock is to be acquired; 0: it is to be released. */
  readonly leaseMs: number;
  readonly fencing: Fencing;
  readonly publish: Publish;
  /** For how long the caller still waits for the answer. */
  readonly limit: TimeLimit;
  /** Turns the script's reply into the caller's answer. */
  readonly read: (reply: unknown) => unknown;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Whether the caller still waits; if not, rejects its promise. */
function isWanted({ limit, reject }: GatheredCall): boolean {
  if (limit.leftMs > 0) return true;
  reject(new UnwantedError());
  return false;
}

/**
 * The limit of a call for several: it is over when the first of them is. A script that the server does not know is then not sent in full,
 * and those who still wait are sent alone.
 */
function limitOf(calls: readonly GatheredCall[]): TimeLimit {
  return {
    get leftMs() {
      return Math.min(...calls.map(({ limit }) => limit.leftMs));
    },
  };
}

/** Where slots count: groups the calls whose keys are in one slot for sure. Calls for the same lock keep their order. */
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

/** The script that acquires one lock, with its keys and arguments. */
export function acquireScript(
  { lock }: LockKeys,
  ownerId: string,
  leaseMs: number,
  fencing: Fencing,
): { script: Script; keys: string[]; args: Argument[] } {
  const args = [ownerId, leaseMs, ...fencing.args];
  return { script: scripts.acquire, keys: [lock, ...fencing.keys], args };
}

/** The keys that gather.lua takes. */
function keysFor(calls: readonly GatheredCall[]): string[] {
  return calls.flatMap(({ keys, fencing }) =>
    fencing === NO_FENCING ? keys.lock : [keys.lock, ...fencing.keys],
  );
}

/** What gather.lua takes besides keys: as few arguments as can be, since each costs about as much as its work on the server. */
function argumentsFor(calls: readonly GatheredCall[]): Argument[] {
  const commonLeaseMs =
    calls.find(({ leaseMs, fencing }) => leaseMs > 0 && fencing === NO_FENCING)?.leaseMs ?? 0;
  // One command for all calls that publish: it depends on the server and, in a cluster, on the hash tag, which these calls share.
  const told = calls.find(({ publish }) => publish !== '');
  const owners: Argument[] = [];
  let kinds = '';
  for (const { ownerId, leaseMs, fencing, publish } of calls) {
    owners.push(ownerId);
    if (leaseMs === 0) kinds += publish === '' ? 'w' : 'r';
    else if (fencing !== NO_FENCING) {
      kinds += 'f';
      owners.push(leaseMs, ...fencing.args);
    } else if (leaseMs === commonLeaseMs) kinds += 'a';
    else {
      kinds += 'o';
      owners.push(leaseMs);
    }
  }
  return [kinds, commonLeaseMs, told?.publish ?? '', ...owners];
}

// The keys and arguments that a script takes besides when it is to grant a lock with a fencing token.

export interface Fencing {
  /** The key of the last token. */
  readonly keys: readonly string[];
  /** How long a token is remembered, in milliseconds; 0: for ever. */
  readonly args: readonly number[];
}

/** For locks without tokens: their scripts take nothing besides. */
export const NO_FENCING: Fencing = { keys: [], args: [] };
