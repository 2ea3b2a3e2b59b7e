// Whether mutants of the library are noticed: each runs until it is noticed or its time is over.
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

/** The rule that noticed a mutant first, and where. */
export interface Noticed {
  readonly rule: string;
  readonly where: string;
}

interface Wanted {
  /** Parts of their names; none: all mutants. */
  readonly names: readonly string[];
  /** For how long each is tried; 0: only whether the edits fit the library. */
  readonly minutes: number;
  /** How many at a time. */
  readonly beside: number;
}

/** Tries each with `notice`, which gets the changed library. Returns whether all were noticed. */
export async function tryMutants(
  { names, minutes, beside }: Wanted,
  notice: (mutant: Mutant, library: string) => Promise<Noticed | undefined>,
): Promise<boolean> {
  const unknown = names.find((name) => !MUTANTS.some((mutant) => mutant.name.includes(name)));
  if (unknown !== undefined) throw new Error(`there is no mutant "${unknown}"`);
  const chosen = MUTANTS.filter(
    ({ name }) => names.length === 0 || names.some((each) => name.includes(each)),
  );
  const typeErrors = new TypeErrors();
  const copies = new Map(chosen.map((mutant) => [mutant, fitted(mutant, typeErrors)]));
  // All edits first: one that no longer fits must be known before the hours of the others.
  const allFit = ![...copies.values()].includes(undefined);
  if (!allFit || minutes === 0) {
    for (const copy of copies.values()) copy?.[Symbol.dispose]();
    if (allFit) console.log(`all ${chosen.length} mutants fit the library`);
    return allFit;
  }
  const rows: string[][] = [];
  let count = 0;
  const tryOneByOne = async (): Promise<void> => {
    for (const [mutant, copy] of copies) {
      copies.delete(mutant);
      const startedAt = machineMs();
      const noticed = await notice(mutant, copy!.library);
      copy![Symbol.dispose]();
      if (noticed) count++;
      const { rule, where } = noticed ?? { rule: 'NOT NOTICED', where: '' };
      const took = `${Math.round((machineMs() - startedAt) / 1_000)} s`;
      rows.push([mutant.name, rule, took, where]);
      console.log(`${mutant.name}: ${rule} (${took}${where && `, ${where}`})`);
    }
  };
  await Promise.all(Array.from({ length: beside }, tryOneByOne));
  printTable([['mutant', 'noticed by', 'after', 'in'], ...rows]);
  console.log(`${count} of ${chosen.length} mutants noticed, each within ${minutes} min`);
  return count === chosen.length;
}

/** undefined, with a message, when the library has changed at the place of the edit. */
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

/** Rounds of the campaign, until one of them notices the mutant. */
export async function noticeInRounds(
  { name, kinds, isFenced }: Mutant,
  library: string,
  { minutes, seed, wishes, out }: Arguments,
): Promise<Noticed | undefined> {
  const endsAt = machineMs() + 60_000 * minutes;
  for (let rounds = 0; machineMs() < endsAt; rounds++) {
    const kind = kinds[rounds % kinds.length]!;
    const plan = planRound(kind, seed + rounds, { ...wishes, isFenced });
    const result = await playRound(plan, { library });
    const first = noticed(result.violations);
    if (!first) continue;
    writeReport(result, join(out, 'mutants', name.replaceAll(' ', '-')));
    return { rule: first.rule, where: `round ${rounds + 1}, ${kind} ${plan.seed}` };
  }
  return undefined;
}

// Which violation shows that a broken rule was noticed.

/** Rules that even a mutant that only crashes breaks: then the rule it is about was not checked. */
const TELL_NOTHING: ReadonlySet<string> = new Set([TROUBLE, ODD_ERROR]);

/** The first violation that proves something; undefined: none does. */
export function noticed(violations: readonly Violation[]): Violation | undefined {
  return violations.find(({ rule }) => !TELL_NOTHING.has(rule));
}
