// How the places that a client has in lines for fair locks are renewed: many in one call.

import { now } from '../../runtime/clock.js';
import type { Connection } from '../../redis/connection.js';
import { hashTag } from '../../redis/keys.js';
import { scripts } from '../../redis/scripts.generated.js';
import type { Renewer, Watched } from '../../core/watchdog.js';
import type { FairPlace, PlaceReply } from './fair-place.js';

export class PlaceRenewer implements Renewer<FairPlace> {
  readonly kind = 'place';
  readonly #connection: Connection;
  #lastNonce = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** A number that no other command about a place has. */
  nextNonce(): number {
    return ++this.#lastNonce;
  }

  batchKey({ keys }: FairPlace): string {
    return this.#connection.isCluster ? hashTag(keys.lock) : '';
  }

  renew(batch: readonly Watched<FairPlace>[], leaseMs: number): Promise<readonly PlaceReply[]> {
    const nonce = this.nextNonce();
    const sentAt = now();
    const keys: string[] = [];
    const args: (string | number)[] = [leaseMs, nonce];
    for (const { target: place } of batch) {
      place.sending(nonce, sentAt);
      keys.push(place.keys.lock, place.keys.line, place.keys.places);
      args.push(place.ownerId, Number(place.isListening));
    }
    return this.#connection.run(scripts.renewPlaces, keys, args, (replies) =>
      (replies as (string | number)[]).map((reply) => read(reply, nonce)),
    );
  }
}

function read(reply: string | number, nonce: number): PlaceReply {
  if (reply === 'yours' || reply === 'gone') return { outcome: reply, nonce };
  return { outcome: 'in line', nonce, holderTtlMs: Number(reply) };
}
