// Reads the options of a semaphore, and says what is wrong with those that the server has to judge.

import { OptionError } from '../../api/errors.js';
import { invalid, isWholeNumber, parseOptions } from '../../api/options.js';
import type { Refusal } from './weighted-replies.js';

/** More permits than anybody counts; Lua counts exactly with far larger numbers, too. */
const MOST_PERMITS = 2 ** 31 - 1;

export function parseSemaphore(name: string, options: unknown): number {
  const what = 'the options of getSemaphore()';
  const { permits } = parseOptions(what, options, ['permits'], { semaphore: name });
  return parsePermits(permits, 'permits', name);
}

export function parsePermits(permits: unknown, what: string, name: string): number {
  if (isWholeNumber(permits, 1, MOST_PERMITS)) return permits;
  throw invalid(what, permits, `a whole number from 1 to ${String(MOST_PERMITS)}`, {
    semaphore: name,
  });
}

/** What is wrong: the semaphore is in use with another number of permits than was declared, or has fewer than are wanted. */
export function refusedPermits(
  lockName: string,
  declared: number,
  wanted: number,
  { why, capacity }: Refusal,
): OptionError {
  const message =
    why === 'declared'
      ? `semaphore "${lockName}" is declared with ${String(declared)} permits here, and in use with ${String(capacity)}: declare the same number everywhere, or change it by setPermits()`
      : `semaphore "${lockName}": ${String(wanted)} permits were asked for, and there are ${String(capacity)}`;
  return new OptionError(message, { lockName });
}

/** Why a call inside `withPermits()` waits for itself. */
export function insidePermits(held: number, declared: number, wanted: number): string {
  return (
    `the call is made inside withPermits(), which holds ${String(held)} of the ${String(declared)} permits, and waits for ${String(wanted)} of them itself. ` +
    'Permits are never re-entered: ask for all that are needed at once, or ask outside'
  );
}
