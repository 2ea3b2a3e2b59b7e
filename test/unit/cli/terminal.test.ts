// What goes to the terminal: lines that no name of a lock can forge, and tables that fit.
import { describe, expect, it } from 'vitest';
import { durationOf } from '../../../src/cli/command.js';
import { cut, shown, table, visible, widthOf } from '../../../src/cli/terminal.js';

describe('a time option', () => {
  const read = (text: string, leastMs = 0): number | undefined =>
    durationOf({ wait: text }, 'wait', leastMs);

  it.each([
    ['500ms', 500],
    ['5s', 5_000],
    ['2m', 120_000],
    ['1h', 3_600_000],
    ['1.5m', 90_000],
    ['5', 5_000],
    ['0.3', 300],
    ['.5', 500],
    ['999', 999_000],
    ['0', 0],
    ['30000ms', 30_000],
    ['1000s', 1_000_000],
  ])('%s is %d ms', (text, ms) => {
    expect(read(text)).toBe(ms);
  });

  it.each(['', 's', '5 apples', '-1', '-1s', '1e3', '0x10', 'Infinity', '5d', '5S', '1.2.3'])(
    '%j is none',
    (text) => {
      expect(() => read(text)).toThrow('must be a time such as 500ms, 5s, 2m or 1h');
    },
  );

  it('without a unit is refused from 1,000 on, since it was probably meant as milliseconds', () => {
    expect(() => read('30000')).toThrow('--wait is "30000", without a unit: say 30s or 30000s');
    expect(() => read('1000')).toThrow('say 1s or 1000s');
    expect(() => read('2500.5')).toThrow('say 2.5005s or 2500.5s');
  });

  it('has a least value', () => {
    expect(() => read('99ms', 100)).toThrow('--wait is "99ms": it must be at least 100ms');
    expect(durationOf({}, 'wait', 100)).toBeUndefined();
  });
});

describe('a line', () => {
  it('shows control characters, and those that turn text around, instead of writing them', () => {
    const odd = 'a\u001b[31mb\u009b2J\r\n\u202ec\u2028d\u007f';
    const safe = 'a\\u{1b}[31mb\\u{9b}2J\\u{d}\\u{a}\\u{202e}c\\u{2028}d\\u{7f}';
    expect(visible(odd)).toBe(safe);
    expect(shown(odd)).toBe(safe);
    expect(shown(['held by ', { style: 'green', text: odd }])).toBe(`held by ${safe}`);
  });
});

describe('widths', () => {
  it.each([
    ['orders:42', 9],
    ['注文', 4],
    ['e\u0301', 1],
    ['ｱｲ', 2],
    ['한글', 4],
    ['🔒', 2],
    ['äß', 2],
  ])('%s takes %d columns', (text, width) => {
    expect(widthOf(text)).toBe(width);
  });

  it.each([0, 1, 2, 3, 7, 8, 20])('what is cut to %d columns has at most so many', (columns) => {
    for (const text of [
      'orders:1234567890',
      '注文注文注文注文注文',
      'a注b文c注d文e',
      '🔒🔒🔒🔒🔒🔒🔒🔒🔒🔒🔒',
    ])
      expect(widthOf(cut(text, columns)), text).toBeLessThanOrEqual(columns);
  });

  it('what is cut keeps its beginning and its end', () => {
    expect(cut('checkout:orders:4242', 11)).toBe('check…:4242');
  });
});

describe('a table', () => {
  it('has columns as wide as their widest cell, also with wide characters', () => {
    expect(table([['注文', 'x'], ['a', 'y']])).toEqual(['注文  x', 'a     y']); // prettier-ignore
  });

  it('cuts the columns that may be cut, so that the others fit', () => {
    const rows = [
      ['a-very-long-name-of-a-lock', 'lock', 'a-very-long-host-1187'],
      ['b', 'lock', 'c'],
    ];
    for (const line of table(rows, { columns: 40, cuts: [0, 2] })) {
      expect(widthOf(line)).toBeLessThanOrEqual(40);
      expect(line).toContain('lock');
    }
  });
});
