// Whether the simulator notices a library that was spoiled: each mutant of the fault campaign, until it is noticed or its time is over.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { printTable } from '../../benchmarks/support/figures.js';
import { MUTANTS, type Mutant } from '../chaos/mutants/mutants.js';
import { SpoiledCopy } from '../chaos/mutants/spoiled-copy.js';

interface Noticed {
  readonly rule: string;
  readonly rounds: number;
  readonly seed: number;
  readonly kind: string;
}

/** Returns whether as many were noticed as the simulator is known to notice. */
export async function tryMutants(names: string, seconds: number, seed: number): Promise<boolean> {
  const wanted = names.split(',').filter((name) => name !== '');
  const chosen = MUTANTS.filter(
    ({ name }) => wanted.length === 0 || wanted.some((each) => name.includes(each)),
  );
  const rows: string[][] = [];
  let count = 0;
  for (const mutant of chosen) {
    const startedAt = performance.now();
    const noticed = await tryMutant(mutant, seconds, seed);
    const tookS = (performance.now() - startedAt) / 1_000;
    if (noticed) count++;
    const row = [
      mutant.name,
      noticed?.rule ?? 'NOT NOTICED',
      `${tookS.toFixed(0)} s`,
      noticed ? `${noticed.rounds} rounds, ${noticed.kind} ${noticed.seed}` : '',
    ];
    rows.push(row);
    console.log(row.join('  '));
  }
  printTable([['mutant', 'noticed by', 'after', ''], ...rows]);
  console.log(`${count} of ${chosen.length} mutants noticed, each within ${seconds} s`);
  return count === chosen.length;
}

async function tryMutant(
  mutant: Mutant,
  seconds: number,
  seed: number,
): Promise<Noticed | undefined> {
  using copy = new SpoiledCopy(mutant);
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const fenced = mutant.isFenced === undefined ? [] : ['--fenced'];
  const args = [
    '--import',
    'tsx',
    main,
    '--until-noticed',
    '--kind',
    mutant.kinds.join(','),
    '--seconds',
    String(seconds),
    '--seed',
    String(seed),
    ...fenced,
  ];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, HOLDFAST_CHAOS_LIBRARY: copy.library },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  for await (const chunk of child.stdout) output += String(chunk);
  const line = output.trim().split('\n').at(-1) ?? '';
  return line.startsWith('{') ? (JSON.parse(line) as Noticed) : undefined;
}
