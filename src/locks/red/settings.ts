// Reads the options of `getRedLock()`.

import { invalid, isWholeNumber, parseDuration, parseOptions } from '../../api/options.js';
import { fixedGuard, learningGuard, type RestartGuard } from './restart-guard.js';

export interface RedLockSettings {
  /** How long one master may take to answer, in milliseconds. */
  readonly nodeTimeoutMs: number;
  /** Decides which masters have been up for too short a time to vote; `longestLeaseMs`: the longest lease that this client has used. */
  readonly guard: (longestLeaseMs: number) => RestartGuard;
  /** How often the watchdog extends a lease at most. */
  readonly maxExtensions: number;
}

/** `isFenced`: whether its holders get tokens, which a master that has restarted may have forgotten. */
export function parseRedLockOptions(
  lockName: string,
  options: unknown,
  isFenced: boolean,
): RedLockSettings {
  const { nodeTimeout, restartGuard, maxExtensions } = parseOptions(
    'the options of getRedLock()',
    options,
    ['nodeTimeout', 'restartGuard', 'maxExtensions'],
    lockName,
  );
  return {
    nodeTimeoutMs:
      nodeTimeout === undefined ? 50 : parseDuration(nodeTimeout, 'nodeTimeout', 1, lockName),
    guard: parseRestartGuard(lockName, restartGuard, isFenced),
    maxExtensions: parseMaxExtensions(lockName, maxExtensions),
  };
}

function parseRestartGuard(
  lockName: string,
  restartGuard: unknown,
  isFenced: boolean,
): RedLockSettings['guard'] {
  if (restartGuard === undefined) return learningGuard;
  if (isFenced && (restartGuard === false || restartGuard === 0)) {
    const right = 'at least 1 ms where the members are fenced locks';
    throw invalid(
      'restartGuard',
      restartGuard,
      `${right}: a master that restarted may have forgotten their tokens`,
      lockName,
    );
  }
  const guardMs =
    restartGuard === false ? 0 : parseDuration(restartGuard, 'restartGuard', 0, lockName);
  return () => fixedGuard(guardMs);
}

function parseMaxExtensions(lockName: string, maxExtensions: unknown): number {
  if (maxExtensions === undefined || maxExtensions === Infinity) return Infinity;
  if (isWholeNumber(maxExtensions, 0)) return maxExtensions;
  const right = 'a whole number of at least 0, or Infinity';
  throw invalid('maxExtensions', maxExtensions, right, lockName);
}
