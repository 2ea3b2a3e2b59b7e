// What all rounds of a campaign came to, as a table.
import { printTable } from '../../../benchmarks/support/table.js';
import type { RoundResult } from '../round.js';

interface Sum {
  rounds: number;
  seconds: number;
  calls: number;
  sections: number;
  losses: number;
  faults: number;
  mess: number;
  looks: number;
  /** To what fenced locks guard. */
  writes: number;
  refused: number;
  violations: number;
}

const MANY_WRITES = 100;
const NEVER_REFUSED =
  'Of all writes under fenced locks none was refused: nobody came late, or nobody noticed.';

export class Tally {
  readonly #sums = new Map<string, Sum>();
  readonly #broken: string[] = [];

  /** What was broken, or cannot have been noticed. */
  get isSound(): boolean {
    return this.#broken.length === 0 && !this.#isBlind;
  }

  /** Whether nobody came late to what fenced locks guard, though many wrote: then nothing is known of who does. */
  get #isBlind(): boolean {
    const { writes, refused } = this.total;
    return writes >= MANY_WRITES && refused === 0;
  }

  get total(): Sum {
    const all = sum();
    for (const each of this.#sums.values()) addTo(all, each);
    return all;
  }

  add({ plan, evidence, violations, mess, tookMs }: RoundResult): void {
    const sections = [...evidence.history.sections.values()];
    const entered = sections.filter(({ enteredAt }) => enteredAt !== undefined);
    const writes = entered.flatMap((section) => section.writes);
    const key = `${plan.kind}, ${plan.topology}`;
    const into = this.#sums.get(key) ?? sum();
    this.#sums.set(key, into);
    addTo(into, {
      rounds: 1,
      seconds: tookMs / 1_000,
      calls: sections.length,
      sections: entered.length,
      losses: entered.filter((each) => each.doubtedAt ?? each.failure?.code === 'LOCK_LOST').length,
      faults: evidence.faults.length,
      mess: mess.commands + mess.messages,
      looks: evidence.looks.length,
      writes: writes.length,
      refused: writes.filter(({ refusedBy }) => refusedBy !== undefined).length,
      violations: violations.length,
    });
    for (const { rule } of violations) this.#broken.push(`${plan.kind} ${plan.seed}: ${rule}`);
  }

  print(): void {
    const rows = [...this.#sums, ['all', this.total] as const].map(([name, each]) => [
      name,
      ...[each.rounds, each.seconds, each.calls, each.sections, each.losses].map(figure),
      ...[each.faults, each.mess, each.looks, each.writes, each.refused].map(figure),
      figure(each.violations),
    ]);
    printTable([
      [
        '',
        'rounds',
        'seconds',
        'calls',
        'sections',
        'losses',
        'faults',
        'frames',
        'looks',
        'writes',
        'refused',
        'violations',
      ],
      ...rows,
    ]);
    const blind = this.#isBlind ? [NEVER_REFUSED] : [];
    const verdict = this.isSound ? ['Every promise was kept.'] : [...this.#broken, ...blind];
    console.log(`\n${verdict.join('\n')}`);
  }
}

function sum(): Sum {
  return {
    rounds: 0,
    seconds: 0,
    calls: 0,
    sections: 0,
    losses: 0,
    faults: 0,
    mess: 0,
    looks: 0,
    writes: 0,
    refused: 0,
    violations: 0,
  };
}

function addTo(sum: Sum, more: Sum): void {
  for (const key of Object.keys(sum) as (keyof Sum)[]) sum[key] += more[key];
}

function figure(value: number): string {
  return Math.round(value).toLocaleString('en');
}
