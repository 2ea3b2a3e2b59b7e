// How the options of `getRedLock()` were meant.

import { invalid, parseDuration, parseOptions } from '../options.js';

export interface RedLockSettings {
  /** How long one master may take to answer, in milliseconds. */
  readonly nodeTimeoutMs: number;
  /** A master that has been up for less does not vote, in milliseconds; undefined: the longest lease of this client. */
  readonly restartGuardMs: number | undefined;
  /** How often the watchdog extends a lease at most. */
  readonly maxExtensions: number;
}

export function parseRedLockOptions(options: unknown): RedLockSettings {
  const { nodeTimeout, restartGuard, maxExtensions } = parseOptions(
    'the options of getRedLock()',
    options,
    ['nodeTimeout', 'restartGuard', 'maxExtensions'],
  );
  return {
    nodeTimeoutMs: nodeTimeout === undefined ? 50 : parseDuration(nodeTimeout, 'nodeTimeout', 1),
    restartGuardMs: parseRestartGuard(restartGuard),
    maxExtensions: parseMaxExtensions(maxExtensions),
  };
}

function parseRestartGuard(restartGuard: unknown): number | undefined {
  if (restartGuard === undefined) return undefined;
  if (restartGuard === false) return 0;
  return parseDuration(restartGuard, 'restartGuard', 0);
}

function parseMaxExtensions(maxExtensions: unknown): number {
  if (maxExtensions === undefined || maxExtensions === Infinity) return Infinity;
  if (
    typeof maxExtensions === 'number' &&
    Number.isSafeInteger(maxExtensions) &&
    maxExtensions >= 0
  )
    return maxExtensions;
  throw invalid('maxExtensions', maxExtensions, 'a whole number of at least 0, or Infinity');
}
