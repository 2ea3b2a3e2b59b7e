// Replicas that take over though nobody asked them to: on a machine that is too busy, Sentinel takes a master for dead that is none.
import type { Fault } from '../faults.js';
import type { Topology } from '../plan.js';

const NAME = 'a replica takes over by itself';
/** How long before a replica was made to take over it may have been looked at last, and how long after that a master may still change. */
const SETTLES_WITHIN_MS = 1_000;

interface Takeover {
  readonly server: number;
  /** When it was still a replica; -Infinity: there were two masters when they were first looked at. */
  readonly from: number;
  /** Until when another one took itself for the master. */
  until: number;
}

export class Takeovers {
  readonly #all: Takeover[] = [];
  readonly #last = new Map<number, { readonly isMaster: boolean; readonly from: number }>();
  readonly #topology: Topology;

  constructor(topology: Topology) {
    this.#topology = topology;
  }

  /** What a server said of itself, at some instant between `from` and `until`. */
  say(server: number, isMaster: boolean, from: number, until: number): void {
    const last = this.#last.get(server);
    // Before anybody looked, one of two masters has taken over from the other one.
    const isSecond =
      this.#topology === 'sentinel' &&
      !last &&
      [...this.#last.values()].some((other) => other.isMaster);
    this.#last.set(server, { isMaster, from });
    if (!isMaster) return;
    if (isSecond || last?.isMaster === false)
      this.#all.push({ server, from: last?.from ?? -Infinity, until });
    const present = this.#all.at(-1);
    if (present && present.server !== server && this.#last.get(present.server)?.isMaster)
      present.until = until;
  }

  /**
   * Those that are not the doing of a fault that was noted: all of it, from the last that is known of the replica to the last of the
   * former master, lies within the fault. What began with it, and went on when it was over, may be another one.
   */
  besides(noted: readonly Fault[]): Fault[] {
    const doing = noted.filter(({ nemesis }) => nemesis.startsWith('a replica takes over'));
    return this.#all
      .filter(
        ({ from, until }) =>
          !doing.some(
            (fault) =>
              fault.from - SETTLES_WITHIN_MS <= from && until <= fault.until + SETTLES_WITHIN_MS,
          ),
      )
      .map(({ server, from, until }) => ({
        nemesis: NAME,
        servers: [server],
        // What the former master granted last, the new one may not know.
        loses: 'all',
        endsHolds: true,
        from,
        until,
        detail: '',
      }));
  }
}
