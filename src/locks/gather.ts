// The acquires and releases that a client sends to one Redis. While the connection is idle, each is sent at once and alone. While an answer
// is outstanding, those of one turn of the event loop are sent together: one script call for up to 64 locks.

import { inBatches } from '../core/watchdog.js';
import { NO_LIMIT, type TimeLimit } from '../runtime/clock.js';
import type { RedisClient } from '../redis/client.js';
import { isReply, RefusedError, UnsentError, UnwantedError } from '../redis/failure.js';
import { hashTag, type LockKeys } from '../redis/keys.js';
import { type Script, scripts } from '../redis/scripts.generated.js';
import type { Argument } from '../redis/port.js';

/** The most locks in one script call: the commands of all other clients wait while it runs. */
const MOST_LOCKS = 64;

/** The command that notifies waiters of a release; empty: they are not notified. */
export type Publish = 'PUBLISH' | 'SPUBLISH' | '';

/** What a script needs to grant a lock that its client may keep. */
export interface Mark {
  /** The lease of a lock that may be kept, in milliseconds. */
  readonly leaseMs: number;
  /** How many of those who listen for a release of the lock are this client: 0 or 1. */
  readonly ownListeners: number;
  /** The command that publishes its releases. */
  readonly publish: Publish;
}

/** An acquire or a release. */
interface Call<T = unknown> {
  readonly keys: LockKeys;
  readonly ownerId: string;
  /** The lease to acquire, in milliseconds; 0: release the lock. */
  readonly leaseMs: number;
  readonly fencing: Fencing;
  readonly publish: Publish;
  /** Set if the client wants to keep the lock that it acquires. */
  readonly mark: Mark | undefined;
  /** How long the caller still waits for the answer. */
  readonly limit: TimeLimit;
  /** Turns the script's reply into the caller's answer. */
  readonly read: (reply: unknown) => T;
}

/** A call that is sent together with others. */
interface GatheredCall {
  readonly call: Call;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class GatheredCalls {
  readonly #connection: RedisClient;
  /** In the order of the calls. */
  #gathered: GatheredCall[] = [];
  /** How many calls were sent together with others so far. */
  togetherCount = 0;

  constructor(connection: RedisClient) {
    this.#connection = connection;
  }

  /** Acquires by acquire.lua, or with other calls by gather.lua. */
  acquire<T>(
    keys: LockKeys,
    ownerId: string,
    leaseMs: number,
    read: (reply: unknown) => T,
    limit: TimeLimit = NO_LIMIT,
    fencing: Fencing = NO_FENCING,
    mark?: Mark,
  ): Promise<T> {
    const publish = mark?.publish ?? '';
    return this.#send({ keys, ownerId, leaseMs, fencing, publish, mark, limit, read });
  }

  /** Releases by release.lua, or with other calls by gather.lua. Sent whether or not the caller still waits. */
  release<T>(
    keys: LockKeys,
    ownerId: string,
    publish: Publish,
    read: (reply: unknown) => T,
  ): Promise<T> {
    const [fencing, limit] = [NO_FENCING, NO_LIMIT];
    const mark = undefined;
    return this.#send({ keys, ownerId, leaseMs: 0, fencing, publish, mark, limit, read });
  }

  #send<T>(call: Call<T>): Promise<T> {
    if (!this.#connection.isBusy) return this.#sendAlone(call);
    return new Promise<T>((answered, reject) => {
      const resolve = answered as GatheredCall['resolve'];
      const count = this.#gathered.push({ call, resolve, reject });
      if (count === 1) this.#connection.postpone(this.#sendGathered);
      else if (count === MOST_LOCKS && !this.#connection.isSlotted) this.#connection.sendNow();
    });
  }

  #sendAlone<T>(call: Call<T>): Promise<T> {
    const { keys, ownerId, leaseMs, fencing, publish, mark, limit, read } = call;
    if (leaseMs === 0) {
      const args = [ownerId, keys.channel, publish];
      return this.#connection.run(scripts.release, [keys.lock], args, read, limit);
    }
    const acquire = acquireScript(keys, ownerId, leaseMs, fencing, mark);
    return this.#connection.run(acquire.script, acquire.keys, acquire.args, read, limit);
  }

  readonly #sendGathered = (): void => {
    const wanted = this.#gathered.filter(isWanted);
    this.#gathered = [];
    // Calls for the same lock stay in their order.
    const { isSlotted } = this.#connection;
    const slotOf = ({ call }: GatheredCall): string => (isSlotted ? hashTag(call.keys.lock) : '');
    for (const batch of inBatches(wanted, slotOf, MOST_LOCKS)) this.#sendTogether(batch);
  };

  #sendTogether(batch: readonly GatheredCall[]): void {
    const calls = batch.map(({ call }) => call);
    const [first] = calls;
    const sender = first && calls.length > 1 && this.#connection.senderFor(first.keys.lock);
    if (!sender) {
      for (const each of batch) this.#sendByItself(each);
      return;
    }
    this.togetherCount += calls.length;
    const read = (answers: unknown): void => {
      for (const [index, each] of batch.entries()) {
        const answer = (answers as readonly unknown[])[index];
        // null: gather.lua did not execute this call; sent alone, it gets its own reply or error.
        if (answer === null) this.#sendByItself(each);
        else each.resolve(each.call.read(answer));
      }
    };
    this.#connection
      .run(scripts.gather, keysFor(calls), argumentsFor(calls), read, limitOf(calls), sender)
      .catch((error: unknown) => {
        // After an error reply to the whole call, or if it was never sent, nothing was done.
        const isUndone =
          isReply(error) || error instanceof UnsentError || error instanceof RefusedError;
        for (const each of batch) {
          if (isUndone) this.#sendByItself(each);
          else each.reject(error);
        }
      });
  }

  #sendByItself(gathered: GatheredCall): void {
    if (isWanted(gathered)) gathered.resolve(this.#sendAlone(gathered.call));
  }
}

/** Whether the caller still waits; if not, rejects its promise. */
function isWanted({ call, reject }: GatheredCall): boolean {
  if (call.limit.leftMs > 0) return true;
  reject(new UnwantedError());
  return false;
}

/**
 * The limit of a combined call: it is over with the first limit of its calls. If the server does not know the script, the script is then
 * not sent in full, and the calls with callers that still wait are sent alone.
 */
function limitOf(calls: readonly Call[]): TimeLimit {
  return {
    get leftMs() {
      return Math.min(...calls.map(({ limit }) => limit.leftMs));
    },
  };
}

/** The script that acquires one lock, with its keys and arguments. */
export function acquireScript(
  keys: LockKeys,
  ownerId: string,
  leaseMs: number,
  fencing: Fencing,
  mark?: Mark,
): { script: Script; keys: string[]; args: Argument[] } {
  const args: Argument[] = [ownerId, leaseMs, ...fencing.args];
  if (mark) {
    const numsub = mark.publish === 'SPUBLISH' ? 'SHARDNUMSUB' : 'NUMSUB';
    args.push(0, mark.leaseMs, mark.ownListeners, keys.channel, numsub);
  }
  return { script: scripts.acquire, keys: [keys.lock, ...fencing.keys], args };
}

/** The keys that gather.lua takes. */
function keysFor(calls: readonly Call[]): string[] {
  return calls.flatMap(({ keys, fencing }) =>
    fencing === NO_FENCING ? keys.lock : [keys.lock, ...fencing.keys],
  );
}

/** The arguments of gather.lua: as few as possible, since each costs the server about as much as the work itself. */
function argumentsFor(calls: readonly Call[]): Argument[] {
  const commonLeaseMs =
    calls.find(({ leaseMs, fencing, mark }) => leaseMs > 0 && fencing === NO_FENCING && !mark)
      ?.leaseMs ?? 0;
  // One command for all calls that publish, or ask who listens: it depends on the server and, in a cluster, on the hash tag, which these calls share.
  const told = calls.find(({ publish }) => publish !== '');
  const owners: Argument[] = [];
  let kinds = '';
  for (const { ownerId, leaseMs, fencing, publish, mark } of calls) {
    owners.push(ownerId);
    if (leaseMs === 0) kinds += publish === '' ? 'w' : 'r';
    else if (fencing !== NO_FENCING) {
      kinds += 'f';
      owners.push(leaseMs, ...fencing.args);
    } else if (mark) {
      kinds += 'k';
      owners.push(leaseMs, mark.leaseMs, mark.ownListeners);
    } else if (leaseMs === commonLeaseMs) kinds += 'a';
    else {
      kinds += 'o';
      owners.push(leaseMs);
    }
  }
  return [kinds, commonLeaseMs, told?.publish ?? '', ...owners];
}

// The additional keys and arguments of a script that grants a lock with a fencing token.

export interface Fencing {
  /** The key of the last token. */
  readonly keys: readonly string[];
  /** How long a token is remembered, in milliseconds; 0: for ever. */
  readonly args: readonly number[];
}

/** For locks without tokens: no additional keys and arguments. */
export const NO_FENCING: Fencing = { keys: [], args: [] };
