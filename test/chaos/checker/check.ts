// All rules over all evidence of a round.
import { desertions, orphans } from './orphans.js';
import {
  forgottenTokens,
  refusedHolders,
  smallerTokens,
  staleWrites,
  unknownTokens,
  wrongTokens,
} from './tokens.js';
import { twoForTooLong } from './deletions.js';
import { violation, type Evidence, type Violation } from './evidence.js';
import {
  freedTooEarly,
  notOnTheServer,
  twoHolders,
  withoutExpiry,
  wrongCounts,
} from './exclusion.js';
import { groundlessRefusals, lateCalls, overtakings } from './waiting.js';
import { keptOverConnections, longMarks, oldProofs, passedOver } from './kept.js';
import { falseAlarms, untoldLosses } from './telling.js';
import { slowWakeUps } from './wake-ups.js';
import {
  brokenBooks,
  isRightlyRefused,
  leakedPermits,
  tooManyHolders,
  upgrades,
  wrongWeights,
} from './weights.js';

const RULES = [
  twoHolders,
  twoForTooLong,
  freedTooEarly,
  notOnTheServer,
  wrongCounts,
  withoutExpiry,
  tooManyHolders,
  wrongWeights,
  brokenBooks,
  upgrades,
  leakedPermits,
  untoldLosses,
  falseAlarms,
  orphans,
  desertions,
  groundlessRefusals,
  lateCalls,
  overtakings,
  slowWakeUps,
  passedOver,
  longMarks,
  oldProofs,
  keptOverConnections,
  smallerTokens,
  wrongTokens,
  forgottenTokens,
  unknownTokens,
  staleWrites,
  refusedHolders,
  troubles,
  oddErrors,
];

export const TROUBLE = 'trouble in a process';
export const ODD_ERROR = 'an odd error';

export function check(evidence: Evidence): Violation[] {
  return RULES.flatMap((rule) => rule(evidence)).sort((one, other) => one.at - other.at);
}

/** Events that should never come up at all. */
function troubles({ history }: Evidence): Violation[] {
  return history.troubles.map(({ at, message, process }) =>
    violation(TROUBLE, at, `${process} ${message}`),
  );
}

const KNOWN_CODES = new Set([
  'FALSE',
  'SectionError',
  'LOCK_TIMEOUT',
  'LOCK_LOST',
  'LOCK_ABORTED',
  'CLIENT_CLOSED',
  'REDIS_UNAVAILABLE',
  'NO_QUORUM',
]);

function oddErrors(evidence: Evidence): Violation[] {
  const { history } = evidence;
  return [...history.sections.values()].flatMap((section): Violation[] => {
    const { failure, endedAt, id } = section;
    if (!failure || KNOWN_CODES.has(failure.code)) return [];
    if (isRightlyRefused(evidence, section)) return [];
    const message = `${id} failed: ${failure.code} ${failure.message}`;
    return [violation(ODD_ERROR, endedAt!, message, [section])];
  });
}
