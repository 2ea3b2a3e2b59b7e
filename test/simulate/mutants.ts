// Whether the simulator notices a library that was spoiled: rounds of a process that imports it, which ends with the first violation.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Mutant } from '../chaos/mutants/mutants.js';
import type { Noticed } from '../chaos/mutants/try-mutants.js';

export async function noticeInProcess(
  { kinds, isFenced }: Mutant,
  library: string,
  seconds: number,
  seed: number,
): Promise<Noticed | undefined> {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const args = ['--import', 'tsx', main, '--until-noticed', '--kind', kinds.join(',')];
  args.push('--seconds', String(seconds), '--seed', String(seed));
  if (isFenced) args.push('--fenced');
  const child = spawn(process.execPath, args, {
    env: { ...process.env, HOLDFAST_CHAOS_LIBRARY: library },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  for await (const chunk of child.stdout) output += String(chunk);
  const line = output.trim().split('\n').at(-1) ?? '';
  return line.startsWith('{') ? (JSON.parse(line) as Noticed) : undefined;
}
