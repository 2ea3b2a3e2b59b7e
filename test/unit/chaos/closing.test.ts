// The end of a round of the fault campaign: which processes are reported for not ending.
import { expect, it } from 'vitest';
import { closeAll, OwnLag } from '../../chaos/ending.js';
import { planRound } from '../../chaos/plan-round.js';
import type { Stage } from '../../chaos/stage/stage.js';
import { STAYED } from '../../chaos/worker/work-order.js';
import { machineMs } from '../../support/time.js';

/** The verdict on a process that ends this long after its clients were closed, with this code; `closeMs`: how long they took to close. */
async function accused(afterMs: number, code: number, closeMs = 0): Promise<string[]> {
  const member = {
    index: 0,
    output: '',
    send: () => undefined,
    next: () =>
      closeMs === Infinity
        ? Promise.reject(new Error('no "closed"'))
        : Promise.resolve({ atMs: machineMs() + closeMs }),
    exitedWithin: (ms: number) =>
      Promise.resolve(ms < afterMs ? undefined : { at: machineMs() + afterMs, code }),
  };
  const stage = { crew: [member], plan: planRound('fair', 1) } as unknown as Stage;
  using ownLag = new OwnLag();
  return (await closeAll(stage, ownLag)).map(({ message }) => message);
}

it('a process that something keeps from ending is reported; one that had nothing left is not, however slow its machine', async () => {
  expect(await accused(100, 0)).toEqual([]);
  expect(await accused(900, STAYED)).toEqual([]);
  expect(await accused(2_000, STAYED)).toHaveLength(1);
  expect(await accused(10_000, 0)).toEqual([]);
  expect(await accused(60_000, 0)).toHaveLength(1);
});

it('clients that take too long to close, or never do, are reported', async () => {
  const { commandTimeoutMs } = planRound('fair', 1);
  expect(await accused(100, 0, commandTimeoutMs)).toEqual([]);
  for (const closeMs of [commandTimeoutMs + 2_100, Infinity])
    expect(await accused(100, 0, closeMs)).toEqual([
      `the clients of worker 0 did not close within ${commandTimeoutMs + 2_000} ms: `,
    ]);
});
