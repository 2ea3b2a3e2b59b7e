// Members of a MultiLock that are one and the same key of one server, by two clients of it or by prefixes that come to the same key. All
// members have one owner, so each would take the other's hold for its own.

import { OptionError } from '../../api/errors.js';
import type { KeyPlace } from '../../core/backend.js';
import type { Session } from '../../core/session.js';
import type { Clock } from '../../runtime/clock.js';
import { WaitLimit } from '../../runtime/wait-limit.js';
import type { SingleLock } from '../single-lock.js';

/** A key of a member: its own, or if it is a Redlock that of one of its masters. */
interface Place extends KeyPlace {
  readonly lockName: string;
  /** Whether the member may be held without it. */
  readonly isDispensable: boolean;
}

export class SameKeys {
  readonly #lockName: string;
  /** The places that have the same key, and perhaps the same server. */
  readonly #suspects: readonly (readonly Place[])[];

  constructor(lockName: string, members: readonly SingleLock[]) {
    this.#lockName = lockName;
    const places = new Map<string, Place[]>();
    for (const { name, parts } of members) {
      const { keyPlaces = [], memberIds } = parts.backend;
      for (const { key, connection } of keyPlaces) {
        const place = { key, connection, lockName: name, isDispensable: memberIds !== undefined };
        places.set(key, [...(places.get(key) ?? []), place]);
      }
    }
    this.#suspects = [...places.values()].filter(({ length }) => length > 1);
  }

  /** Whether there is anything to find out. */
  get areSuspected(): boolean {
    return this.#suspects.length > 0;
  }

  /**
   * Why the members may not be held together: an OptionError if two are the same key, or what kept that from being known; undefined:
   * nothing. A server that may not say which one it is counts as one of its own, and so does a Redlock's master that is not connected.
   *
   * @param signal - aborts when nobody wants to know any more
   */
  async found(
    session: Session,
    clock: Clock,
    limitMs: number,
    signal: AbortSignal,
  ): Promise<unknown> {
    if (!this.areSuspected) return undefined;
    const limit = new WaitLimit({ clock, limitMs, signal, registry: session.acquisitions });
    try {
      for (const alike of this.#suspects) {
        const homes = await Promise.all(alike.map((place) => homeOf(place, limit)));
        for (const [index, home] of homes.entries()) {
          const [twin, place] = [alike[homes.indexOf(home)], alike[index]];
          if (home !== undefined && twin && place && twin !== place)
            return this.#refusal(twin, place, home);
        }
      }
      return undefined;
    } catch (error) {
      return error;
    } finally {
      limit.dispose();
    }
  }

  #refusal(one: Place, other: Place, home: string): OptionError {
    const [first = '', second = ''] = [one, other].map(
      ({ lockName, connection }) => `"${lockName}" by ${connection.place}`,
    );
    return new OptionError(
      `lock "${this.#lockName}": its members ${first} and ${second} are the same key, "${one.key}", of the same server (${home}): each must be another lock`,
      { lockName: this.#lockName },
    );
  }
}

async function homeOf(place: Place, limit: WaitLimit): Promise<string | undefined> {
  const { key, connection, isDispensable } = place;
  return isDispensable && !connection.isReady ? undefined : await connection.homeOf(key, limit);
}
