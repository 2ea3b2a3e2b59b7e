// What a worker writes down, line by line and at once, so that nothing is missing when it is killed.
import { openSync, writeSync } from 'node:fs';
import { machineMs } from '../../support/time.js';

/** One line of the journal; times are those of the machine's monotonic clock, in milliseconds. */
export type Entry = { readonly at: number } & Note;

export type Note =
  | CallNote
  // Somebody has it, and believes so for `leftMs` more. Without an owner: only the call's success says so.
  | {
      readonly what: 'entered';
      readonly id: string;
      readonly owner?: string;
      readonly leftMs?: number;
      /** Of a fenced lock. */
      readonly token?: string | undefined;
    }
  | { readonly what: 'believes'; readonly id: string; readonly leftMs: number }
  // It believes no longer; `contradicts`: the signal says otherwise than `remaining()`.
  | { readonly what: 'doubts'; readonly id: string; readonly contradicts: boolean }
  | { readonly what: 'leaving'; readonly id: string }
  // Its hold may be another client's now, and ends with its lease if none wants it.
  | { readonly what: 'exported'; readonly id: string }
  // It writes to the document that the lock guards; `refusedBy`: the larger token that the document has seen.
  | { readonly what: 'writing'; readonly id: string }
  | { readonly what: 'wrote'; readonly id: string; readonly refusedBy?: string | undefined }
  // While it believed, each master named the last token that it knew; undefined, or null when it was read: it said nothing.
  | {
      readonly what: 'heard';
      readonly id: string;
      readonly counters: readonly (string | undefined | null)[];
    }
  | ({ readonly what: 'left'; readonly id: string } & Partial<Failure>)
  | ({ readonly what: 'refused'; readonly id: string } & Failure)
  | { readonly what: 'extending'; readonly id: string; readonly leaseMs: number }
  | { readonly what: 'waiting'; readonly lock: string; readonly owner: string }
  // A hold began on a grant that its client had kept.
  | { readonly what: 'kept'; readonly lock: string; readonly owner: string }
  | {
      readonly what: 'lost';
      readonly lock: string;
      readonly owner: string;
      readonly reason: string;
    }
  | {
      readonly what: 'forcing';
      readonly id: string;
      readonly locks: readonly string[];
      readonly half?: Half | undefined;
    }
  // Unless its outcome is known, it may still happen.
  | {
      readonly what: 'forced';
      readonly id: string;
      readonly locks: readonly string[];
      readonly isKnown: boolean;
    }
  // So many permits are to be there from now on; unless its outcome is known, it may still happen.
  | {
      readonly what: 'setting';
      readonly id: string;
      readonly lock: string;
      readonly permits: number;
    }
  | { readonly what: 'set'; readonly id: string; readonly isKnown: boolean }
  // Nobody of all callers holds permits any more, and a client says how many there are.
  | {
      readonly what: 'available';
      readonly client: string;
      readonly lock: string;
      readonly permits: number;
    }
  | { readonly what: 'opened' | 'closing' | 'closed'; readonly client: string }
  | { readonly what: 'trouble' | 'warned'; readonly message: string }
  | { readonly what: 'lagged'; readonly ms: number };

/** What each call of those is noted as that are given up while their command is on its way, and of who comes next. */
export const DESERTION = 'desert';

/** Of a read-write lock. */
export type Half = 'read' | 'write';

export interface CallNote {
  readonly what: 'call';
  readonly id: string;
  /** Which method. */
  readonly how: string;
  readonly client: string;
  readonly locks: readonly string[];
  readonly isFair: boolean;
  /** Whether its client may keep the lock afterwards, and may have kept it for this call. */
  readonly mayBeKept?: boolean | undefined;
  readonly half?: Half | undefined;
  /** How many of a semaphore. */
  readonly permits?: number | undefined;
  readonly leaseMs: number;
  readonly isWatched: boolean;
  /** For how long the lock is to stay taken, though it is released. */
  readonly atLeastMs?: number | undefined;
  /** undefined: for ever. */
  readonly waitMs?: number | undefined;
  /** The call within which it was made, while that held the lock. */
  readonly inside?: string | undefined;
}

/** How a call ended otherwise than well. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly reason?: string | undefined;
}

export interface Journal {
  /** Writes it down as happening now, or at an earlier time. */
  note(note: Note, at?: number): void;
}

export class FileJournal implements Journal {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  note(note: Note, at: number = machineMs()): void {
    writeSync(this.#file, `${JSON.stringify({ at, ...note })}\n`);
  }
}

/** What of an error matters to the checker. */
export function failureOf(error: unknown): Failure {
  const { code, message, name, lossReason } = error as Record<string, unknown>;
  return {
    code: typeof code === 'string' ? code : String(name),
    message: String(message),
    reason: typeof lossReason === 'string' ? lossReason : undefined,
  };
}
