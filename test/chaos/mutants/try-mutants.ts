// Whether a campaign notices that the library was spoiled: each mutant, until it is noticed or its time is over.
import { join } from 'node:path';
import { printTable } from '../../../benchmarks/support/figures.js';
import { machineMs } from '../../support/time.js';
import type { Arguments } from '../arguments.js';
import { ODD_ERROR, TROUBLE } from '../checker/check.js';
import type { Violation } from '../checker/evidence.js';
import { planRound } from '../plan-round.js';
import { writeReport } from '../report/report.js';
import { playRound } from '../round.js';
import { MUTANTS, type Mutant } from './mutants.js';
import { SpoiledCopy, TypeErrors } from './spoiled-copy.js';

interface Outcome {
  readonly mutant: Mutant;
  /** The rule that noticed it first; undefined: none did. */
  readonly rule: string | undefined;
  readonly seconds: number;
  readonly rounds: number;
}

/** Returns whether all were noticed. */
export async function tryMutants(args: Arguments): Promise<boolean> {
  const wanted = args.mutants ?? [];
  const unknown = wanted.find((name) => !MUTANTS.some((mutant) => mutant.name.includes(name)));
  if (unknown !== undefined) throw new Error(`there is no mutant "${unknown}"`);
  const chosen = MUTANTS.filter(
    ({ name }) => wanted.length === 0 || wanted.some((each) => name.includes(each)),
  );
  const typeErrors = new TypeErrors();
  const copies = new Map(chosen.map((mutant) => [mutant, fitted(mutant, typeErrors)]));
  // All of them first: one that does not fit any more is to be known before the hours of the others.
  const allFit = ![...copies.values()].includes(undefined);
  if (!allFit || args.minutes === 0) {
    for (const copy of copies.values()) copy?.[Symbol.dispose]();
    if (allFit) console.log(`all ${chosen.length} mutants fit the library`);
    return allFit;
  }
  const outcomes: Outcome[] = [];
  const rest = [...chosen];
  const tryOneByOne = async (): Promise<void> => {
    for (let mutant = rest.shift(); mutant; mutant = rest.shift()) {
      const copy = copies.get(mutant)!;
      const outcome = await tryMutant(mutant, copy.library, args);
      copy[Symbol.dispose]();
      outcomes.push(outcome);
      const { rule = 'NOT NOTICED', seconds, rounds } = outcome;
      console.log(`${mutant.name}: ${rule} (${Math.round(seconds)} s, ${rounds} rounds)`);
    }
  };
  await Promise.all(Array.from({ length: args.beside }, tryOneByOne));
  print(outcomes);
  return outcomes.every(({ rule }) => rule !== undefined);
}

/** undefined, and told, when the library has changed where it is to be spoiled. */
function fitted(mutant: Mutant, typeErrors: TypeErrors): SpoiledCopy | undefined {
  try {
    const copy = new SpoiledCopy(mutant);
    const errors = typeErrors.in(copy.changed);
    if (errors.length === 0) return copy;
    copy[Symbol.dispose]();
    throw new Error(errors.join('; '));
  } catch (error) {
    console.error(`the mutant "${mutant.name}" does not fit any more: ${(error as Error).message}`);
    return undefined;
  }
}

async function tryMutant(mutant: Mutant, library: string, args: Arguments): Promise<Outcome> {
  const startedAt = machineMs();
  const seconds = (): number => (machineMs() - startedAt) / 1_000;
  let rounds = 0;
  while (seconds() < 60 * args.minutes) {
    const kind = mutant.kinds[rounds % mutant.kinds.length]!;
    const { isFenced } = mutant;
    const plan = planRound(kind, args.seed + rounds, { ...args.wishes, isFenced });
    const result = await playRound(plan, { library });
    rounds++;
    const first = noticed(result.violations);
    if (first) writeReport(result, join(args.out, 'mutants', mutant.name.replaceAll(' ', '-')));
    if (first) return { mutant, rule: first.rule, seconds: seconds(), rounds };
  }
  return { mutant, rule: undefined, seconds: seconds(), rounds };
}

function print(outcomes: readonly Outcome[]): void {
  const rows = outcomes.map(({ mutant, rule = 'NOT NOTICED', seconds, rounds }) => [
    mutant.name,
    rule,
    `${Math.round(seconds)} s`,
    String(rounds),
  ]);
  printTable([['mutant', 'noticed by', 'after', 'rounds'], ...rows]);
}

// Which violation says that a broken rule was noticed.

/** What also a mutant breaks that does nothing but crash: then nobody has seen the rule that it is about. */
const TELL_NOTHING: ReadonlySet<string> = new Set([TROUBLE, ODD_ERROR]);

/** The first that tells something; undefined: none does. */
export function noticed(violations: readonly Violation[]): Violation | undefined {
  return violations.find(({ rule }) => !TELL_NOTHING.has(rule));
}
