// The faults of a round as they happened: kind, time, target, and what they may excuse.
import { machineMs } from '../support/time.js';

/** The targets of a fault; nothing named: everybody. */
export interface Touched {
  readonly workers?: readonly number[];
  readonly clients?: readonly number[];
  readonly servers?: readonly number[];
}

/** Events that may happen because of a fault, and otherwise never. */
export interface Excuses {
  /** Keys may vanish, or pass to other owners: of all locks, or of these. */
  readonly loses?: 'all' | readonly string[];
  /** Holders may be notified of a loss although the lease lasts. */
  readonly endsHolds?: boolean;
  /** With `loses`: a holder of one of these from before has certainly lost it. */
  readonly isCertain?: boolean;
  /** With `loses`: keys were deleted, flushed, evicted or forced out at a server that goes on: their holders are told at once. */
  readonly isDeletion?: boolean;
  /** The order in the lines for these locks may have changed. */
  readonly disorders?: readonly string[];
  /** How far the clock of a server is ahead meanwhile: a client that uses it may then be ahead of a later one. */
  readonly aheadMs?: number;
}

export interface Fault extends Touched, Excuses {
  readonly nemesis: string;
  readonly from: number;
  /** Infinity while it lasts. */
  readonly until: number;
  readonly detail: string;
}

export interface FaultNote {
  /** It is over, healed. */
  end(): void;
}

export class FaultLog {
  readonly all: Fault[] = [];
  readonly #busy = new Set<string>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = machineMs) {
    this.#nowMs = nowMs;
  }

  /** Notes that it begins now, or began at an earlier time. */
  begin(
    nemesis: string,
    touched: Touched,
    excuses: Excuses = {},
    detail = '',
    from = this.#nowMs(),
  ): FaultNote {
    const fault = { nemesis, ...touched, ...excuses, from, until: Infinity, detail };
    this.all.push(fault);
    return {
      end: () => {
        fault.until = this.#nowMs();
      },
    };
  }

  /** Faults that are under way now. */
  get present(): readonly Fault[] {
    return this.all.filter(({ until }) => until === Infinity);
  }

  /** One fault at a time for each target: undefined when there is one already. */
  take(target: string): (() => void) | undefined {
    if (this.#busy.has(target)) return undefined;
    this.#busy.add(target);
    return () => this.#busy.delete(target);
  }
}
