// A row of the suite: one kind of work, measured in one or several cases.

import type { Case } from '../report/case.js';
import type { Growth } from '../report/growth.js';
import type { TargetResult } from '../report/target.js';
import type { Progress } from '../support/progress.js';
import type { Contender } from './contenders.js';

/** smoke: only long enough to see that it works; quick: within 90 s altogether, most of which go by while processes start. */
export type Effort = 'smoke' | 'quick' | 'full';

export interface RowContext {
  /** A Redis server that nobody else uses. */
  readonly url: string;
  /** In front of every key, so that nothing of the user's is touched. */
  readonly keyPrefix: string;
  readonly effort: Effort;
  /** The real Redisson, where there is Java. */
  readonly redisson: readonly Contender[];
  /** Its read-write lock, in the same way. */
  readonly redissonReadWrite: readonly Contender[];
  readonly progress: Progress;
}

export interface RowOutcome {
  readonly cases: readonly Case[];
  readonly growths?: readonly Growth[];
  readonly targets?: readonly TargetResult[];
  /** What must never happen, and did. */
  readonly violations?: readonly string[];
}

export interface Row {
  readonly name: string;
  /** What it does, in one line. */
  readonly what: string;
  run(context: RowContext): Promise<RowOutcome>;
}
