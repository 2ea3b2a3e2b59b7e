// The table at the end, and what to make of it.

import { TOTAL_CENTS } from '../support/bank.js';
import { money, seconds } from '../support/figures.js';
import { table } from '../support/table.js';
import type { ReadersState } from './scene.js';

/** What of a scene the verdict rests on. */
type Outcome = Pick<
  ReadersState,
  'transfers' | 'wrongSums' | 'totalCents' | 'mostReaders' | 'intrusions' | 'takeoverMs'
>;

/** Both scenes side by side. */
export function report(bare: ReadersState, locked: ReadersState): string {
  const both = [bare, locked];
  const { longestWriterWaitMs, takeoverMs } = locked;
  return table(
    [
      ['', 'without locks', 'under holdfast'],
      ['sums', ...both.map(({ reads }) => String(reads))],
      ['wrong sums', ...both.map(({ wrongSums }) => String(wrongSums))],
      ['transfers', ...both.map(({ transfers }) => String(transfers))],
      ['at most so many read at a time', '-', String(locked.mostReaders)],
      ['somebody beside one who wrote', '-', String(locked.intrusions)],
      ['longest wait of a writer', '-', seconds(longestWriterWaitMs, 2)],
      ['takeover, a reader killed', '-', takeover(takeoverMs.reader)],
      ['takeover, a writer killed', '-', takeover(takeoverMs.writer)],
      ['in all accounts at the end', ...both.map(({ totalCents }) => money(totalCents))],
    ],
    32,
  );
}

export const MORAL =
  'A sum is wrong that was added up while money was on its way from one account to\n' +
  'the other, or after two who wrote at the same time. Under the lock readers overlap,\n' +
  'and never pause; but who comes while a writer waits lets it in first. A dead reader\n' +
  'keeps writers out, and whoever is behind them, a dead writer everybody: until its\n' +
  'lease of 3 s ends. The longest wait of a writer is that for the living.';

/** What was seen that must not be, or was not seen though the show is about it. */
export function findBug(bare: Outcome, locked: Outcome): string | undefined {
  if (bare.wrongSums === 0) return 'Without locks all sums were right';
  if (locked.wrongSums > 0) return `Under the lock ${locked.wrongSums} sums were wrong`;
  if (locked.intrusions > 0) return `${locked.intrusions} times somebody was beside one who wrote`;
  if (locked.mostReaders < 2) return 'No two read at the same time';
  if (locked.transfers === 0) return 'Readers kept those out who write';
  if (locked.takeoverMs.reader === undefined) return 'After the kill of a reader nobody wrote';
  if (locked.takeoverMs.writer === undefined) return 'After the kill of a writer nobody got in';
  if (locked.totalCents !== TOTAL_CENTS) {
    return `In the end there was ${money(locked.totalCents)} in all accounts instead of ${money(TOTAL_CENTS)}`;
  }
  return undefined;
}

function takeover(ms: number | undefined): string {
  return ms === undefined ? 'never' : seconds(ms, 2);
}
