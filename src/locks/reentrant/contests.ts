// What one client knows by itself of the locks that it holds or wants on one Redis: its grant of each, and who waits in line for it.

import type { SeenHolder } from '../../api/errors.js';
import type { Granted, Heir } from '../../core/granted-lock.js';
import type { Clock } from '../../runtime/clock.js';
import { Line, type LineHost } from '../../waiting/line.js';
import { Lines } from '../../waiting/lines.js';
import { TurnTaking } from '../../waiting/turn-taking.js';

/** What the line for a lock needs of the lock. */
interface Contested extends Required<
  Pick<LineHost, 'clock' | 'lookEveryMs' | 'subscribe' | 'roundTrip'>
> {
  verify(grant: Granted): void;
}

/** For how many locks it is remembered how their clients take turns. */
const MAX_REMEMBERED = 1_000;

export class Contests {
  readonly #grants = new Map<string, Granted>();
  readonly #lines = new Lines<Line<Heir>>();
  readonly #turns = new Map<string, TurnTaking>();

  /** The server gave the lock to this client. */
  granted(lock: string, grant: Granted): void {
    this.#grants.set(lock, grant);
  }

  /** Nobody of this client holds the lock as this owner any more, nor waits for it as this owner. */
  forget(lock: string, ownerId: string): void {
    if (this.#grants.get(lock)?.ownerId === ownerId) this.#grants.delete(lock);
    this.#lines.known(lock)?.free();
  }

  /** The grant by which this client holds the lock, as far as it may rely on that. */
  heldHere(lock: string): Granted | undefined {
    const grant = this.#grants.get(lock);
    return grant && grant.remaining() > 0 ? grant : undefined;
  }

  /** Whether this client has the lock, or somebody of it waits. */
  isBusy(lock: string): boolean {
    return this.#lines.known(lock) !== undefined || this.heldHere(lock) !== undefined;
  }

  /** The line of those who wait, if anybody does. */
  known(lock: string): Line<Heir> | undefined {
    return this.#lines.known(lock);
  }

  /** The line in which all of this client wait for the lock. */
  line(lock: string, host: Contested): Line<Heir> {
    return this.#lines.of(lock, (onEmpty) => {
      const seenHere = (): SeenHolder | undefined => this.heldHere(lock)?.seen;
      return new Line({
        clock: host.clock,
        lookEveryMs: host.lookEveryMs,
        turns: this.#turnsOf(lock, host.clock),
        get seenHere() {
          return seenHere();
        },
        subscribe: (listener) => host.subscribe(listener),
        roundTrip: host.roundTrip,
        verify: () => {
          const grant = this.heldHere(lock);
          if (grant) host.verify(grant);
        },
        onEmpty,
      });
    });
  }

  #turnsOf(lock: string, clock: Clock): TurnTaking {
    let turns = this.#turns.get(lock);
    if (turns) return turns;
    const [oldest] = this.#turns.keys();
    if (this.#turns.size >= MAX_REMEMBERED && oldest !== undefined) this.#turns.delete(oldest);
    this.#turns.set(lock, (turns = new TurnTaking(clock)));
    return turns;
  }
}
