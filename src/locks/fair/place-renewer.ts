// How the places that a client has in lines for fair locks are renewed: many in one call.

import { UnavailableError } from '../../api/errors.js';
import { now, type Instant } from '../../runtime/clock.js';
import type { RedisClient } from '../../redis/client.js';
import { failureKind } from '../../redis/failure.js';
import { hashTag, type LockKeys } from '../../redis/keys.js';
import { scripts, type Script } from '../../redis/scripts.generated.js';
import type { Renewable, Renewer, Watched } from '../../core/renewal.js';

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
