// The faults of a round as they happened: what, when, to whom, and what it may excuse.
import { machineMs } from '../support/time.js';

/** Whom a fault touches; nothing named: everybody. */
export interface Touched {
  readonly workers?: readonly number[];
  readonly clients?: readonly number[];
  readonly servers?: readonly number[];
}

/** What may happen because of a fault, and otherwise never. */
export interface Excuses {
  /** Keys may vanish, or be given to somebody else: of all locks, or of these. */
  readonly loses?: 'all' | readonly string[];
  /** Holders may be told that a lock is lost though its lease went on. */
  readonly endsHolds?: boolean;
  /** With `loses`: whoever held one of these before has lost it for certain. */
  readonly isCertain?: boolean;
  /** The order in the lines for these locks may be another one than before. */
  readonly disorders?: readonly string[];
  /** By how much the clock of a server is ahead meanwhile: whoever goes by it may then be ahead of whoever does later. */
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
