// Reads the options of `getFencedLock()`.

import { invalid, isWholeNumber, parseBoolean, parseOptions } from '../../api/options.js';

const DAY_MS = 86_400_000;
const DEFAULT_TOKEN_TTL_MS = 7 * DAY_MS;

export interface FencedLockSettings {
  readonly isFair: boolean;
  /** How long a token is remembered; 0: for ever. */
  readonly tokenTtlMs: number;
}

export function parseFencedLock(lockName: string, options: unknown): FencedLockSettings {
  const what = 'the options of getFencedLock()';
  const { fair, tokenTtl } = parseOptions(what, options, ['fair', 'tokenTtl'], lockName);
  return {
    isFair: fair === undefined ? false : parseBoolean(fair, 'fair', lockName),
    tokenTtlMs: tokenTtl === undefined ? DEFAULT_TOKEN_TTL_MS : parseTokenTtl(tokenTtl, lockName),
  };
}

function parseTokenTtl(tokenTtl: unknown, lockName: string): number {
  if (tokenTtl === Infinity) return 0;
  if (isWholeNumber(tokenTtl, 1)) return tokenTtl;
  const right = 'a whole number of milliseconds of at least 1, or Infinity';
  throw invalid('tokenTtl', tokenTtl, right, lockName);
}
