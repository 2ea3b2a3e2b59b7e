// What the server knows of locks, of all clients: one lock by name, or all of them.

import type {
  InspectedHolder,
  InspectedOwner,
  Inspection,
  ListRequest,
} from '../api/inspection.js';
import type { RedisClient } from '../redis/client.js';
import { failureKind } from '../redis/failure.js';
import { LockKeys } from '../redis/keys.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';
import { type Conflicting, keyOfAnotherType } from './retry.js';
import type { Server } from './server.js';
import { type Session, startOfOwner, startOfTry } from './session.js';

/** How many holders and waiters of one lock are listed at most. */
const MOST_LISTED = 1_000;

/** How many locks are looked at together: few enough that other commands need not wait for long. */
const TOGETHER = 64;

/** The permits of a read-write lock, all of which a writer takes. */
const READ_WRITE_CAPACITY = 2 ** 31;

/** An owner of a client, also of Redisson: a client id that ends with twelve hex digits, and a number. */
const OF_A_CLIENT = /-[0-9a-f]{12}:-?\d+$/;

/** Hashes that stand beside locks. */
const BESIDES = /^holdfast_(places|forced_owners):/;

export async function inspect(
  session: Session,
  server: Server,
  name: string,
): Promise<Inspection | undefined> {
  const { connection, keyPrefix } = server;
  const keys = new LockKeys(keyPrefix + name);
  const lock: Conflicting = { name, keyInTheWay: () => inTheWay(connection, keys) };
  return await session.ask(lock, (limit) => look(server, keys, name, limit), 'not inspected');
}

/** In bounded steps: each SCAN looks at a thousand keys or so, and each found hash is looked at by a script of its own. */
export async function* list(
  session: Session,
  server: Server,
  { prefix, kinds, limit }: ListRequest,
): AsyncGenerator<Inspection, void, undefined> {
  const { connection, keyPrefix } = server;
  const all = { name: undefined };
  const ask = <T>(question: (limit: TimeLimit) => Promise<T>): Promise<T> =>
    session.ask(all, question, 'is not complete');
  const masters = await ask((timeLimit) => connection.findMasters(keyPrefix, timeLimit));
  const pattern = `${(keyPrefix + prefix).replace(/[*?[\]\\]/g, '\\$&')}*`;
  const seen = new Set<string>(); // SCAN may return a key twice
  let leftCount = limit;
  for (const master of masters) {
    let cursor = '0';
    do {
      const step = await ask(() => connection.scanHashes(cursor, pattern, master));
      cursor = step.cursor;
      const fresh = step.keys.filter((key) => !seen.has(key) && !BESIDES.test(key));
      for (const key of fresh) seen.add(key);
      for (let start = 0; start < fresh.length; start += TOGETHER) {
        const names = fresh
          .slice(start, start + TOGETHER)
          .map((key) => key.slice(keyPrefix.length));
        const found = await Promise.all(
          names.map((name) => ask((timeLimit) => lookIfLock(server, name, timeLimit))),
        );
        for (const lock of found) {
          if (!lock || !kinds.includes(lock.kind)) continue;
          yield lock;
          if (--leftCount === 0) return;
        }
      }
    } while (cursor !== '0');
  }
}

/** Like `look`; undefined also for a hash that is no lock, or that is gone by now. */
async function lookIfLock(
  server: Server,
  name: string,
  limit: TimeLimit,
): Promise<Inspection | undefined> {
  try {
    const found = await look(server, new LockKeys(server.keyPrefix + name), name, limit);
    // A lock may have lost its expiry. But an owner such as "user:7" without expiry is rather a field of some other hash.
    const isOurs = ({ leaseLeftMs, ownerId }: InspectedHolder): boolean =>
      leaseLeftMs !== -1 || OF_A_CLIENT.test(ownerId);
    const isLock = found?.holders.every(isOurs) ?? false;
    return isLock ? found : undefined;
  } catch (error) {
    if (failureKind(error) === 'conflict') return undefined;
    throw error;
  }
}

function look(
  server: Server,
  keys: LockKeys,
  name: string,
  limit: TimeLimit,
): Promise<Inspection | undefined> {
  const { connection } = server;
  const { lock, leases, line, places, channel } = keys;
  const numsub = server.publishCommand(keys) === 'SPUBLISH' ? 'SHARDNUMSUB' : 'NUMSUB';
  return connection.run(
    scripts.inspect,
    [lock, leases, line, places, keys.counter(connection.isCluster)],
    [channel, numsub, MOST_LISTED],
    (reply) => (reply === null ? undefined : inspectionOf(name, reply as Reply)),
    limit,
  );
}

type Reply = [
  capacity: number,
  holders: (string | number)[],
  waiters: (string | number)[],
  isCut: number,
  listeners: number,
  token: string,
];

function inspectionOf(name: string, reply: Reply): Inspection {
  const [capacity, holding, waiting, isCut, waitingClients, token] = reply;
  const holders = inThrees(holding, holderOf);
  const waiters = inThrees(waiting, ownerOf);
  const weights = [...holders, ...waiters].map(({ weight }) => weight);
  const isWeighted = capacity > 0 || (holders.length === 0 && weights.some((weight) => weight > 0));
  const isReadWrite = capacity === READ_WRITE_CAPACITY || weights.includes(READ_WRITE_CAPACITY);
  const kind = !isWeighted ? 'lock' : isReadWrite ? 'read-write' : 'semaphore';
  const ofKind = <Owner extends InspectedOwner>({ owner, weight }: Entry<Owner>): Owner => {
    if (kind === 'semaphore') return { ...owner, permits: weight };
    if (kind === 'read-write') return { ...owner, mode: weight > 1 ? 'write' : 'read' };
    return owner;
  };
  const inspection: Inspection = {
    name,
    kind,
    holders: holders.map((entry): InspectedHolder => {
      const holder = ofKind(entry);
      const { state } = holder;
      if (kind !== 'lock' || state === 'kept' || state === 'exported') return holder;
      return { ...holder, holdCount: state === 'released' ? 0 : entry.weight };
    }),
    waiters: waiters.map(ofKind),
    waitingClients,
    isCut: isCut === 1,
  };
  if (token !== '') inspection.token = token;
  if (kind === 'semaphore' && capacity > 0) {
    const used = holders.reduce((sum, { weight }) => sum + weight, 0);
    inspection.permits = { capacity, available: Math.max(capacity - used, 0) };
  }
  return inspection;
}

/** An owner with its weight; for a lock that is not weighted, a holder's hold count, and 0 for a waiter. */
interface Entry<Owner extends InspectedOwner> {
  readonly owner: Owner;
  readonly weight: number;
}

/** Owner, what is left of its lease, and weight with its marks, one after the other. */
function inThrees<Owner extends InspectedOwner>(
  flat: readonly (string | number)[],
  read: (ownerId: string, leaseLeftMs: number, field: string) => Owner,
): Entry<Owner>[] {
  return Array.from({ length: flat.length / 3 }, (_, index) => {
    const [ownerId, leftMs, weight] = flat.slice(index * 3, index * 3 + 3);
    const field = String(weight);
    const owner = read(String(ownerId), Number(leftMs), field);
    return { owner, weight: Number.parseInt(field, 10) || 0 };
  });
}

/** `field`: the hold count, or the weight; with the marks that lua/README.md names. */
function holderOf(ownerId: string, leaseLeftMs: number, field: string): InspectedHolder {
  const owner = ownerOf(ownerId, leaseLeftMs);
  if (field === '-1') return { ...owner, state: 'kept' };
  if (field === '-2' || field.endsWith('.')) return { ...owner, state: 'released' };
  if (field === '-3' || field.endsWith('>')) return { ...owner, state: 'exported' };
  const wasHandedOver = field.startsWith('0') || field.includes('~');
  const heldSince = wasHandedOver ? undefined : startOfTry(ownerId);
  return { ...owner, state: 'held', ...(heldSince ? { heldSince } : {}) };
}

function ownerOf(ownerId: string, leaseLeftMs: number): InspectedOwner {
  const clientId = ownerId.slice(0, ownerId.lastIndexOf(':'));
  const since = startOfOwner(ownerId);
  return { ownerId, clientId, ...(since ? { since } : {}), leaseLeftMs };
}

function inTheWay(connection: RedisClient, keys: LockKeys): ReturnType<typeof keyOfAnotherType> {
  return keyOfAnotherType(connection, [
    { key: keys.lock, type: 'hash', expected: 'a lock' },
    { key: keys.leases, type: 'zset', expected: 'the leases of a semaphore or a read-write lock' },
    { key: keys.line, type: 'zset', expected: 'the queue of a lock' },
    { key: keys.places, type: 'hash', expected: 'the places in that queue' },
    {
      key: keys.counter(connection.isCluster),
      type: 'string',
      expected: 'the last token of a fenced lock',
    },
  ]);
}
