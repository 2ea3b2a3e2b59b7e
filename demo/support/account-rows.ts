// The accounts as a table, and what is missing in each.

import { styleText } from 'node:util';
import type { Account } from './bank.js';
import { money } from './figures.js';

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
