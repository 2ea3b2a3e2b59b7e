// What goes to the terminal: lines that no name of a lock can forge, colours, and tables that fit.

import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** A part of a line that is coloured on a terminal. */
export interface Styled {
  readonly style: Style;
  readonly text: string;
}

/** One line: only `Styled` parts bring escape sequences, since the name of a lock may have any characters. */
export type Line = string | readonly (string | Styled)[];

export function styled(style: Style, text: string): Styled {
  return { style, text };
}

export function print(line: Line): void {
  process.stdout.write(`${shown(line)}\n`);
}

/** Prints one JSON document. Its strings name control characters as JSON does, so that a terminal shows them, too. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(value).replaceAll(UNSEEN, (character) =>
    [...Array(character.length).keys()]
      .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join(''),
  );
  process.stdout.write(`${text}\n`);
}

export function warn(line: string): void {
  process.stderr.write(`holdfast: ${line.split('\n').map(visible).join('\n')}\n`);
}

/** A line as it is written: in colour on a terminal, unless the user wants none. */
export function shown(line: Line): string {
  const { NO_COLOR: none } = process.env;
  const isColoured = process.stdout.isTTY && (none === undefined || none === '');
  return partsOf(line)
    .map((part) => {
      if (typeof part === 'string') return visible(part);
      return isColoured ? styleText(part.style, visible(part.text)) : visible(part.text);
    })
    .join('');
}

/** Characters that move the cursor, end a line, or change the direction of text. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text with its control characters named instead. */
export function visible(text: string): string {
  return text.replaceAll(
    UNSEEN,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

function partsOf(line: Line): readonly (string | Styled)[] {
  return typeof line === 'string' ? [line] : line;
}

// Widths: some characters take two columns of a terminal, some none.

const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Yi}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]/u;
const NARROW = /[\uff61-\uffdc]/;
const NONE = /\p{M}/u;

/** How many columns visible text takes: never fewer than on a terminal that knows fewer wide characters. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfOne(character);
  return width;
}

function widthOfOne(character: string): number {
  if (character <= '\u007e') return 1;
  if (NONE.test(character)) return 0;
  return WIDE.test(character) && !NARROW.test(character) ? 2 : 1;
}

/** Visible text in at most so many columns. What is left out is in the middle, since names differ at their ends. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  if (columns < 1) return '';
  const characters = Array.from(text);
  const head = Math.ceil((columns - 1) / 2);
  let [start, startWidth] = [0, 0];
  for (; startWidth + widthOfOne(characters[start] ?? '') <= head; start++)
    startWidth += widthOfOne(characters[start] ?? '');
  let [end, endWidth] = [characters.length, 0];
  for (; startWidth + endWidth + widthOfOne(characters[end - 1] ?? '') < columns; end--)
    endWidth += widthOfOne(characters[end - 1] ?? '');
  return `${characters.slice(0, start).join('')}…${characters.slice(end).join('')}`;
}

/** A column of a table that is cut keeps so many columns of the terminal, if it has them. */
const LEAST_WIDTH = 8;

/**
 * Columns as wide as their widest cell.
 *
 * @param fit - a terminal's columns, and which cells of a row are cut so that the others fit
 */
export function table(
  rows: readonly (readonly string[])[],
  fit?: { readonly columns: number; readonly cuts: readonly number[] },
): string[] {
  const cells = rows.map((row) => row.map(visible));
  const widths: number[] = [];
  for (const row of cells)
    for (const [index, cell] of row.entries())
      widths[index] = Math.max(widths[index] ?? 0, widthOf(cell));
  const widthAt = (index: number): number => widths[index] ?? 0;
  const whole = widths.reduce((sum, width) => sum + width + 2, -2);
  for (let over = fit ? whole - fit.columns : 0; over > 0; over--) {
    const [widest] = [...(fit?.cuts ?? [])].sort((one, other) => widthAt(other) - widthAt(one));
    if (widest === undefined || widthAt(widest) <= LEAST_WIDTH) break;
    widths[widest] = widthAt(widest) - 1;
  }
  return cells.map((row) => {
    const line = row
      .map((cell, index) => {
        const kept = cut(cell, widthAt(index));
        return kept + ' '.repeat(widthAt(index) - widthOf(kept));
      })
      .join('  ')
      .trimEnd();
    return fit ? cut(line, fit.columns) : line;
  });
}
