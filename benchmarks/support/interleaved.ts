// Runs contenders in turns: a short slice of each, in a new random order every round, so that whatever else the
// machine does falls on all of them alike.

import type { Peer } from '../peers/peer.js';

/**
 * Calls `slice` for every contender in every round and returns what it returned, by contender, in the order of rounds.
 * Round 0 warms up and does not count; it is left out where every slice begins with processes of its own. A competitor
 * whose slice fails is left out, which is said: what the others did must not go with it.
 */
export async function interleaved<Contender extends Pick<Peer, 'label' | 'role'>, Result>(
  contenders: readonly Contender[],
  rounds: number,
  slice: (contender: Contender, round: number) => Promise<Result>,
  hasWarmUp = true,
): Promise<Map<Contender, Result[]>> {
  const results = new Map<Contender, Result[]>(contenders.map((contender) => [contender, []]));
  for (let round = hasWarmUp ? 0 : 1; round <= rounds; round++) {
    for (const contender of shuffled([...results.keys()])) {
      try {
        const result = await slice(contender, round);
        if (round > 0) results.get(contender)!.push(result);
      } catch (error) {
        if (contender.role !== 'competitor') throw error;
        results.delete(contender);
        console.log(`\n${contender.label} is left out in what follows: ${String(error)}`);
      }
    }
  }
  return results;
}

function shuffled<T>(items: readonly T[]): T[] {
  const rest = [...items];
  return items.map(() => rest.splice(Math.floor(Math.random() * rest.length), 1)[0]!);
}
