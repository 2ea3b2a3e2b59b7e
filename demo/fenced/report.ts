// The table at the end, and what to make of it.

import { seconds } from '../support/figures.js';
import { table } from '../support/table.js';
import type { FencedState } from './scene.js';

/** What of a scene the verdict rests on. */
type Outcome = Pick<FencedState, 'takeoverMs' | 'meanwhile' | 'lateWrite' | 'lostCents'>;

/** Both scenes side by side. */
export function report(bare: FencedState, fenced: FencedState): string {
  const both = [bare, fenced];
  return table(
    [
      ['', 'without tokens', 'with tokens'],
      ['transfers', ...both.map(({ transfers }) => String(transfers))],
      ['takeover after the pause', ...both.map(takeover)],
      ['transfers during the pause', ...both.map(({ meanwhile }) => String(meanwhile))],
      ['the late write', ...both.map(({ lateWrite }) => lateWrite ?? 'never came')],
      ['cents lost', ...both.map(({ lostCents }) => lostCents.toLocaleString('en'))],
    ],
    30,
  );
}

export const MORAL =
  'Cents lost: by how much the balances differ from a ledger that is written in\n' +
  'the same transactions. Both times the lock did all that a lock can: the lease\n' +
  'of the paused process ran out, and others had their turns. That process had\n' +
  'looked at the lock just before, and wrote when it woke up. Only the resource\n' +
  'can refuse that: it remembers the largest token that it has seen.';

/** What was seen that must not be, or was not seen though the show is about it. */
export function findBug(bare: Outcome, fenced: Outcome): string | undefined {
  for (const { takeoverMs, meanwhile, lateWrite } of [bare, fenced]) {
    if (takeoverMs === undefined) return 'While a holder was paused nobody else got the lock';
    if (meanwhile === 0) return 'While a holder was paused nobody else wrote';
    if (lateWrite === undefined) return 'The process that was paused never wrote';
  }
  if (bare.lateWrite !== 'accepted') return 'Without tokens the late write was refused';
  if (bare.lostCents === 0) return 'Without tokens the late write destroyed nothing';
  if (fenced.lateWrite !== 'refused') return 'With tokens the late write was accepted';
  if (fenced.lostCents > 0) return `With tokens ${fenced.lostCents} cents were lost`;
  return undefined;
}

function takeover({ takeoverMs }: Outcome): string {
  return takeoverMs === undefined ? 'never' : seconds(takeoverMs, 2);
}
