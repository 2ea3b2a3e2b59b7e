// Figures as text: for the live view, and for the table at the end.
import { stripVTControlCharacters, styleText } from 'node:util';
import type { Account } from './bank.js';
import type { Worker } from './crew.js';

export function money(cents: number): string {
  return (cents / 100).toLocaleString('en', { minimumFractionDigits: 2 });
}

export function seconds(ms: number, decimals: number): string {
  return `${(ms / 1_000).toFixed(decimals)} s`;
}

export function rate(count: number, elapsedMs: number): string {
  return `${Math.round((count * 1_000) / elapsedMs)}/s`;
}

/** How long it took until another worker had the lock. */
export function takeover(ms: number | undefined): string {
  return ms === undefined ? 'never' : seconds(ms, 2);
}

/** The name of the worker that holds the lock. */
export function holderIn(workers: readonly Worker[]): string {
  return workers.find(({ state }) => state === 'holds')?.name ?? 'nobody';
}

/** The count of something that must never happen: red if it did. */
export function fault(what: string, count: number): string {
  return goodOrBad(count, `${what} ${count.toLocaleString('en')}`);
}

/** The same, as a cell of a table. */
export function faults(count: number): string {
  return goodOrBad(count, count.toLocaleString('en'));
}

function goodOrBad(faults: number, text: string): string {
  return styleText(faults > 0 ? 'red' : 'green', text);
}

/** The accounts as a table, with the money that is missing in each. */
export function accountRows(accounts: readonly Account[]): string[] {
  return [
    styleText('dim', '  account      balance   should be     missing'),
    ...accounts.map(accountRow),
  ];
}

function accountRow({ name, balanceCents, rightCents }: Account): string {
  const lost = rightCents - balanceCents;
  const figures = [money(balanceCents), money(rightCents), lost === 0 ? '-' : money(lost)];
  const [balance, right, difference] = figures.map((figure) => figure.padStart(12));
  const text = `${name.padEnd(8)}${balance}${right}`;
  return `  ${text}${lost === 0 ? difference : styleText('red', difference!)}`;
}

/** The table at the end of a show: the first row is the head; figures are right-aligned. */
export function table(rows: readonly (readonly string[])[], labelWidth: number): string {
  const [head, ...body] = rows.map(
    ([label, ...cells]) => `  ${label!.padEnd(labelWidth)}${cells.map(inColumn).join('')}`,
  );
  return ['', head, `  ${'-'.repeat(head!.length - 2)}`, ...body, ''].join('\n');
}

/** Colours take no room. */
function inColumn(cell: string): string {
  return cell.padStart(16 + cell.length - stripVTControlCharacters(cell).length);
}
