// A seed determines everything that happens in a round of the simulator.
import { expect, it, vi } from 'vitest';
import { KINDS, type Kind } from '../../chaos/plan.js';
import { expectShortTimes } from '../../support/expected-warnings.js';
import { playRound, type RoundResult } from '../../simulate/round.js';

vi.setConfig({ testTimeout: 60_000 });
expectShortTimes(); // leases are short, so that many pass in a round

/** A short round: its trace, and what it found. */
async function play(kind: Kind, seed: number): Promise<RoundResult & { trace: string[] }> {
  const trace: string[] = [];
  const result = await playRound(kind, seed, (line) => trace.push(line), { faultsMs: 1_500 });
  return { ...result, trace };
}

it.each(KINDS)(
  'the seed plays a round of %s locks twice in the same way, byte by byte',
  async (kind) => {
    const { violations, callCount, evidence, trace } = await play(kind, 4711);
    const again = await play(kind, 4711);
    expect(violations).toEqual([]);
    expect(callCount).toBeGreaterThan(50);
    expect(evidence.faults.length).toBeGreaterThan(0);
    expect(trace.length).toBeGreaterThan(1_000);
    expect(again.trace.join('\n') === trace.join('\n')).toBe(true);
  },
);

it('another seed plays another round', async () => {
  const [first, second] = [await play('reentrant', 1), await play('reentrant', 2)];
  expect(second.trace.join('\n') === first.trace.join('\n')).toBe(false);
});
