// The table at the end, and what to make of it.

import { seconds } from '../support/figures.js';
import { table } from '../support/table.js';
import type { RedlockPlan, RedlockState } from './scene.js';

export function report(state: RedlockState): string {
  const { transfersByDead, transfersAfterRestart, longestStallMs, resumedMs, refusals } = state;
  const rows = [
    ['', 'Redlock'],
    ['transfers', String(state.transfers)],
    ...transfersByDead.map((count, dead) => [
      `  ${state.masters.length - dead} of ${state.masters.length} masters up`,
      String(count),
    ]),
    ['  all started again', String(transfersAfterRestart)],
    ['cents lost', state.lostCents.toLocaleString('en')],
    ['longest stall with 3 and more up', seconds(longestStallMs, 2)],
    ['restart to the next holder', resumedMs === undefined ? 'never' : seconds(resumedMs, 2)],
    ['QuorumErrors', String(refusals.count)],
  ];
  const reasons = ['What they said of masters:', ...refusals.lines, ''];
  return [table(rows, 34), ...(refusals.count > 0 ? reasons : [])].join('\n');
}

export function moral({ guardMs }: RedlockPlan): string {
  return (
    'Cents lost: by how much the balances differ from a ledger that is written in\n' +
    'the same transactions. With three of five masters it goes on. With two nobody\n' +
    'can know whether the lock is free, and the error says so. A master that was\n' +
    'started again may have forgotten who holds the lock: it does not vote before\n' +
    `any lease that it may have granted is over, here ${seconds(guardMs, 0)}.`
  );
}

/** What was seen that must not be. */
export function findBug(state: RedlockState): string | undefined {
  const { plan, lostCents, transfersByDead, refusals, heldWithoutMajority, resumedMs } = state;
  if (lostCents > 0) return `${lostCents} cents were lost`;
  if (heldWithoutMajority > 0) return `${heldWithoutMajority} times two masters let somebody in`;
  if (transfersByDead[2] === 0) return 'With three of five masters nothing went on';
  if (refusals.count === 0) return 'Nobody said that too few masters were left';
  if (!refusals.wereGuarded) return 'Masters that were started again were not kept from voting';
  if (resumedMs === undefined) return 'After the restart nobody got the lock';
  if (resumedMs < plan.guardMs) return 'A master voted sooner after its start than it may';
  return undefined;
}
