// The live screen in a terminal: no line wraps, and the head and the first locks stay.
import xterm from '@xterm/headless';
import { describe, expect, it } from 'vitest';
import type { Inspection } from '../../../src/index.js';
import { shown } from '../../../src/cli/terminal.js';
import { screenOf } from '../../../src/cli/watch.js';

const HOST = 'checkout-service-7c9f8b6d5f-x2x4z';

function lockNamed(name: string): Inspection {
  const clientId = `${HOST}-1187-4f0c2a9be1d7`;
  return {
    name,
    kind: 'lock',
    holders: [
      {
        ownerId: `${clientId}:1795708800123000`,
        clientId,
        state: 'held',
        leaseLeftMs: 24_000,
        holdCount: 1,
      },
    ],
    waiters: [],
    waitingClients: 3,
    isCut: false,
  };
}

const locks = [
  ...Array.from({ length: 50 }, (_, index) => lockNamed(`lock:${String(index).padStart(3, '0')}`)),
  lockNamed('tenant-4711:billing:monthly-invoices:2026-11:customer-0815'),
];
const oddLocks = [
  lockNamed('注文'.repeat(20)),
  lockNamed('a\u001b[2Jb\nc'),
  lockNamed('🔒'.repeat(60)),
];
const changes = Array.from(
  { length: 10 },
  (_, index) =>
    `16:00:0${String(index)}  lock:${String(index)}: released by ${HOST}-${'1'.repeat(60)}`,
);

/** The rows of a terminal that shows this, wrapping what is too long. */
async function rowsOf(lines: string[], columns: number, rows: number): Promise<string[]> {
  const terminal = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true });
  await new Promise<void>((resolve) => {
    terminal.write(lines.join('\r\n'), resolve);
  });
  const { active } = terminal.buffer;
  expect(active.baseY, 'scrolled rows').toBe(0);
  const shownRows = Array.from({ length: rows }, (_, index) => active.getLine(index)!);
  expect(shownRows.filter(({ isWrapped }) => isWrapped)).toEqual([]);
  const texts = shownRows.map((row) => row.translateToString(true));
  terminal.dispose();
  return texts;
}

describe.each([80, 100, 200])('at %d columns', (columns) => {
  const screen = (of: Inspection[], rows: number): Promise<string[]> =>
    rowsOf(
      screenOf('16:00:00  ready  51 locks  (q ends)', of, changes, columns, rows).map(shown),
      columns,
      rows,
    );

  it('the head, the first locks and the last changes are there, and nothing wraps', async () => {
    const rows = await screen(locks, 24);
    expect(rows[0]).toContain('(q ends)');
    expect(rows[2]).toMatch(/^NAME .*HOLDER .*WAITING$/);
    for (const index of [0, 1, 2, 3, 4])
      expect(rows[3 + index]).toContain(`lock:00${String(index)}`);
    expect(rows[3]).toMatch(/-1187 .* 24 s +3 clients$/); // the process, and all columns
    expect(rows.join('\n')).not.toContain('4f0c2a9be1d7');
    expect(rows.join('\n')).toMatch(/… and \d+ more/);
    expect(rows.at(-1)).toMatch(/^16:00:0\d {2}lock:\d: released by/);
  });

  it('the holder is whole where there is room', async () => {
    const [, , , row = ''] = await screen(locks.slice(0, 5), 24);
    expect(row.includes(`${HOST}-1187 `)).toBe(columns > 80);
  });

  it.each([5, 10, 24, 60])('wide and control characters wrap nothing, in %d rows', async (rows) => {
    await screen(oddLocks, rows);
    await screen([...oddLocks, ...locks], rows);
    await screen([], rows);
  });
});

it('all locks and all changes are there if they have room', async () => {
  const lines = screenOf('head', locks, changes, 200, 70).map(shown);
  expect(await rowsOf(lines, 200, 70)).toHaveLength(70);
  expect(lines).toHaveLength(3 + 51 + 1 + 10);
});
