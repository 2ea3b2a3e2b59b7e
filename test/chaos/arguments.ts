// The command line of npm run chaos.
import { parseArgs } from 'node:util';
import { NEMESES } from './nemeses/all.js';
import { KINDS, TOPOLOGIES, type Kind, type PlanWishes, type Topology } from './plan.js';

export const USAGE = `usage: npm run chaos -- [--kind ${KINDS.join('|')}|all] [--minutes 10] [--seed 7]
  --kind        which locks; several with commas (all); kept: reentrant ones that clients keep; mixed: reentrant and fair ones of the same names
  --minutes     for how long rounds begin (10); --rounds N: so many rounds instead
  --seed        of the first round, the next one has the next (at random)
  --topology    ${TOPOLOGIES.join('|')}: only these servers (as the seed says; Redlocks have masters)
  --only        only these faults, by name, with commas
  --long        only rounds with long leases, in which locks are taken away from their holders
  --seconds     how long faults begin in each round (15)
  --beside      how many rounds at a time (1)
  --out         where reports are written (chaos-reports)
  --mutants     instead: spoil the library in many ways, and see each noticed; --mutants=name,name: those`;

const FAULTS = NEMESES.map(({ name }) => name);

export interface Arguments {
  readonly kinds: readonly Kind[];
  readonly minutes: number;
  readonly rounds: number | undefined;
  readonly seed: number;
  readonly beside: number;
  readonly out: string;
  readonly wishes: PlanWishes;
  /** undefined: none; empty: all of them. */
  readonly mutants: readonly string[] | undefined;
}

/** @throws Error that says what is wrong */
export function readArguments(args: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: args.map((arg) => arg.replace(/^--mutants$/, '--mutants=')),
    options: {
      kind: { type: 'string', default: 'all' },
      minutes: { type: 'string', default: '10' },
      rounds: { type: 'string' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e6)) },
      long: { type: 'boolean' },
      topology: { type: 'string' },
      only: { type: 'string' },
      seconds: { type: 'string', default: '15' },
      beside: { type: 'string', default: '1' },
      out: { type: 'string', default: 'chaos-reports' },
      mutants: { type: 'string' },
    },
  });
  return {
    kinds: values.kind === 'all' ? KINDS : namesIn(values.kind).map((name) => oneOf(KINDS, name)),
    minutes: number('minutes', values.minutes),
    rounds: values.rounds === undefined ? undefined : number('rounds', values.rounds),
    seed: number('seed', values.seed),
    beside: number('beside', values.beside),
    out: values.out,
    wishes: {
      isLong: values.long,
      topology:
        values.topology === undefined ? undefined : oneOf<Topology>(TOPOLOGIES, values.topology),
      nemeses: values.only === undefined ? undefined : faultsIn(values.only),
      faultsMs: 1_000 * number('seconds', values.seconds),
    },
    mutants: values.mutants === undefined ? undefined : namesIn(values.mutants),
  };
}

function namesIn(list: string): string[] {
  return list.split(',').filter((name) => name !== '');
}

/** Some of them have commas in their names. */
function faultsIn(list: string): string[] {
  const named = FAULTS.filter((name) => list.includes(name));
  const rest = named.reduce((left, name) => left.replace(name, ''), list);
  return [...named, ...namesIn(rest).map((name) => oneOf(FAULTS, name))];
}

function oneOf<T extends string>(known: readonly T[], name: string): T {
  const found = known.find((each) => each === name);
  if (found === undefined) throw new Error(`"${name}" is none of ${known.join(', ')}`);
  return found;
}

function number(option: string, value: string): number {
  const parsed = Number(value);
  if (value === '' || !Number.isFinite(parsed) || parsed < 0)
    throw new Error(`--${option} is "${value}": it must be a number`);
  return parsed;
}
