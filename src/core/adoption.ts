// A hold that passes to another process: the text that carries it, and the waiter that adopts it. The exporting client uses the owner no more,
// and the adopting one replaces it by an owner of its own in one script call. So at most one process has the lock at any time.

import { LockLostError, OptionError } from '../api/errors.js';
import { invalid, isPlainObject, isWholeNumber, parseName } from '../api/options.js';
import type { Session } from './session.js';
import type { TimeLimit } from '../runtime/clock.js';
import type { WaitLimit } from '../runtime/wait-limit.js';
import type {
  AcquireReply,
  ExportedHold,
  GrantedLock,
  LockRequest,
  Transfer,
  Waiter,
} from './protocol.js';

/** How the text begins: its form may change with the version. */
const FORM = 'holdfast-hold-1:';

/** The kinds of locks whose holds can pass to another process. */
const KINDS = 'Lock FairLock FencedLock FencedFairLock Semaphore ReadLock WriteLock'.split(' ');

export function exportedText(exported: ExportedHold): string {
  return FORM + Buffer.from(JSON.stringify(exported)).toString('base64url');
}

/** @throws OptionError the text is not that of a hold, or its locks have another key prefix than those of this client */
export function parseExported(text: unknown, keyPrefix: string): ExportedHold {
  const exported = typeof text === 'string' ? read(text) : undefined;
  if (!exported) {
    // Whoever reads the message must not be able to adopt the hold.
    const most = FORM.length + 8;
    const start = typeof text === 'string' && text.length > most ? `${text.slice(0, most)}…` : text;
    throw invalid('the hold to adopt', start, 'a text that hold.export() returned');
  }
  const { name: lockName, keyPrefix: given } = exported;
  if (given === keyPrefix) return exported;
  throw new OptionError(
    `lock "${lockName}" cannot be adopted: its keyPrefix is "${given}", and that of this client "${keyPrefix}"`,
    { lockName },
  );
}

function read(text: string): ExportedHold | undefined {
  if (!text.startsWith(FORM)) return undefined;
  try {
    const exported: unknown = JSON.parse(
      Buffer.from(text.slice(FORM.length), 'base64url').toString(),
    );
    return isExported(exported) ? exported : undefined;
  } catch {
    return undefined;
  }
}

function isExported(given: unknown): given is ExportedHold {
  if (!isPlainObject(given)) return false;
  const { kind, name, ownerId, keyPrefix, place, home, restMs, tokenTtlMs, permits } = given;
  parseName(name);
  const texts = [ownerId, keyPrefix, place, home ?? ''];
  const isSemaphore =
    isPlainObject(permits) && [permits['declared'], permits['held']].every(isPermits);
  return (
    KINDS.includes(kind as string) &&
    texts.every((each) => typeof each === 'string') &&
    isWholeNumber(restMs, 0) &&
    (String(kind).startsWith('Fenced') ? isWholeNumber(tokenTtlMs, 0) : tokenTtlMs === undefined) &&
    (kind === 'Semaphore' ? isSemaphore : permits === undefined)
  );
}

function isPermits(count: unknown): boolean {
  return isWholeNumber(count, 1, 2 ** 31 - 1);
}

/** Where the server of a lock is, for the text of an exported hold. */
export async function whereIs(
  session: Session,
  name: string,
  { at: { key, connection } }: Transfer,
): Promise<Pick<ExportedHold, 'place' | 'home'>> {
  const ask = (limit: WaitLimit): Promise<string | undefined> => connection.homeOf(key, limit);
  const home = connection.isReady
    ? await session.bounded(name, 'its server is not known', ask).catch(() => undefined)
    : undefined;
  const { place, database } = connection;
  return {
    place: database === 0 ? place : `${place}/${database}`,
    ...(home !== undefined && { home }),
  };
}

/** Instead of waiting for a free lock, its one try replaces the exported owner. */
export class Adopter implements Waiter {
  readonly ownerId: string;
  readonly mayTry = true;
  readonly woken: Promise<void> = Promise.resolve();
  readonly #session: Session;
  readonly #lock: GrantedLock;
  readonly #leaseMs: number;
  readonly #exported: ExportedHold;

  constructor(
    session: Session,
    lock: GrantedLock,
    ownerId: string,
    { leaseMs }: LockRequest,
    exported: ExportedHold,
  ) {
    this.#session = session;
    this.#lock = lock;
    this.ownerId = ownerId;
    this.#leaseMs = leaseMs;
    this.#exported = exported;
  }

  async try(limit?: TimeLimit): Promise<AcquireReply> {
    const { transfer, name } = this.#lock;
    const { ownerId: exportedId, place, home } = this.#exported;
    if (!transfer) throw new Error(`a ${this.#lock.kind} cannot be adopted`);
    const reply = await transfer.adopt(exportedId, this.ownerId, this.#leaseMs, limit);
    const { outcome, token } = reply;
    if (outcome === 'done') return { outcome: 'acquired', token };
    // Neither owner is there. Two clients may know one server by different addresses, and a server that has restarted calls itself another.
    const here = await whereIs(this.#session, name, transfer);
    const hasMoved = home !== undefined && here.home !== undefined && here.home !== home;
    const why = `lock "${name}" not adopted: `;
    if (hasMoved && here.place !== place)
      throw new OptionError(
        `${why}it was exported at ${place}, and this client uses ${here.place}, which does not have that hold (if they are one server, it has restarted since)`,
        { lockName: name },
      );
    const servers = hasMoved ? `; its server was ${home}, and is ${here.home} now` : '';
    throw new LockLostError(
      `${why}the hold of ${exportedId} was adopted already, or its lease has ended (${outcome})${servers}`,
      { lockName: name, lossReason: outcome },
    );
  }

  // An adoption is never answered with "held", so it neither waits nor looks.

  wait(): void {
    return;
  }

  look(): void {
    return;
  }

  leave(): boolean {
    return false;
  }
}
