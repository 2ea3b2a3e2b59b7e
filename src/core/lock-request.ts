// What is asked of one lock: what a caller asked for, and what a lock of several adds for its members.

import type { AcquireRequest } from '../api/options.js';
import type { Seniority } from '../waiting/line.js';

export interface LockRequest extends AcquireRequest {
  /** What bounds a single attempt, besides `commandTimeout`. */
  readonly attemptMs?: number;
  readonly seniority?: Seniority;
}
