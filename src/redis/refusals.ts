// What the server at the other end refuses, made plain to an operator: which server it is, and what to do.

import type { RedisClient } from './driver.js';
import { describe, isCrossSlot, redirectionOf, RefusedError } from './failure.js';

export class Refusals {
  #areSlotsApart = false;

  /** Whether it has refused keys of several slots in one command: a node of a cluster does, and so does what stands in front of one. */
  get areSlotsApart(): boolean {
    return this.#areSlotsApart;
  }

  /**
   * The error in words that say more. A client of one server follows no `MOVED` and no `ASK`, and would be told the same for ever. (Where
   * a cluster has only one master no lock is elsewhere, and such a client can use it.)
   */
  readonly explain = (error: Error, { address, cluster }: RedisClient): Error => {
    this.#areSlotsApart ||= isCrossSlot(error);
    if (cluster || !redirectionOf(error)) return error;
    const message = `${address} is one node of a cluster, and another one has what was asked for (${describe(error)}): give { redis: new Cluster(nodes) }, with the Cluster of ioredis`;
    return new RefusedError(message, { cause: error });
  };
}
