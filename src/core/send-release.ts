// The first command of a release, which mostly settles it.

import type { Due } from '../runtime/schedule.js';
import type { Removable } from './cleanup.js';
import type { Session } from './session.js';

/** A release whose first command did not settle it: that command, and how much of `commandTimeout` is left. */
export interface BegunRelease {
  readonly answer: Promise<boolean>;
  readonly limitMs: number;
}

/** Calls back once: with nothing when the lock was released, else with what there is to go on with. */
export function sendRelease(
  { schedule, commandTimeoutMs }: Session,
  lock: Removable,
  ownerId: string,
  done: (begun?: BegunRelease) => void,
): void {
  const endsAtMs = performance.now() + commandTimeoutMs;
  let isDone = false;
  const end = (begun?: BegunRelease): void => {
    if (isDone) return;
    isDone = true;
    schedule.delete(limit);
    done(begun);
  };
  const goOn = (): void => {
    end({ answer, limitMs: endsAtMs - performance.now() });
  };
  const limit: Due = {
    due: () => {
      const leftMs = endsAtMs - performance.now();
      if (leftMs > 0) schedule.within(limit, leftMs);
      else goOn();
    },
  };
  schedule.within(limit, commandTimeoutMs);
  const answer = lock.release(ownerId);
  answer.then((isReleased) => {
    if (isReleased) end();
    else goOn();
  }, goOn);
}
