// How a round is played again.
import type { Plan } from '../plan.js';

/** The command line for the same plan; the timing is another one. */
export function replayOf({ kind, seed, topology, phases }: Plan): string {
  const where = topology === 'masters' ? '' : ` --topology ${topology}`;
  return `npm run chaos -- --kind ${kind} --seed ${seed} --rounds 1 --seconds ${phases.faultsMs / 1_000}${where}`;
}
