// Redlocks that give tokens, in some of the rounds over several masters: their clocks differ then, but by less than the restart guard.
import type { Plan, PlanWishes } from './plan.js';
import { Random } from './random.js';

/** How many of these rounds have tokens. */
const SHARE = 0.4;
/** Of the shortest guard that there is: a lease of the watchdog's. */
const MOST_AHEAD = 0.6;
const MOST_MASTERS = 5;

/** Drawn apart from everything else: the plans of rounds without tokens stay what they were. */
export function fencedMasters(
  { kind, seed, watchdogMs }: Pick<Plan, 'kind' | 'seed' | 'watchdogMs'>,
  { isFenced }: PlanWishes,
): Pick<Plan, 'fencing' | 'clocksAheadMs'> {
  const random = new Random(seed, 'fenced masters');
  const isDrawn = random.chance(SHARE);
  if (kind !== 'red' || !(isFenced ?? isDrawn)) return {};
  const clocksAheadMs = Array.from({ length: MOST_MASTERS }, () =>
    Math.round(random.between(0, MOST_AHEAD * watchdogMs)),
  );
  return { fencing: { fairShare: 0, tokenTtlMs: undefined }, clocksAheadMs };
}
