// A seed determines everything that happens in a round of the simulator.
import { expect, it, vi } from 'vitest';
import { KINDS } from '../../chaos/plan.js';
import { playRound } from '../../simulate/round.js';

// A round is a second or two of work, and a busy machine takes its time.
vi.setConfig({ testTimeout: 120_000 });

it.each(KINDS)(
  'the seed plays a round of %s locks twice in the same way, byte by byte',
  async (kind) => {
    const [first, second] = [[], []] as [string[], string[]];
    const { violations, callCount } = await playRound(kind, 4711, (line) => first.push(line));
    await playRound(kind, 4711, (line) => second.push(line));
    expect(violations).toEqual([]);
    expect(callCount).toBeGreaterThan(50);
    expect(first.length).toBeGreaterThan(1_000);
    expect(second.join('\n') === first.join('\n')).toBe(true);
  },
);

it('another seed plays another round', async () => {
  const [first, second] = [[], []] as [string[], string[]];
  await playRound('reentrant', 1, (line) => first.push(line));
  await playRound('reentrant', 2, (line) => second.push(line));
  expect(second.join('\n') === first.join('\n')).toBe(false);
});
