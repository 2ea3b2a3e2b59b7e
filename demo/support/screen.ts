// A part of the terminal that is drawn over itself.

import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
const CLEAR_TO_LINE_END = '\x1b[K';
const CLEAR_TO_SCREEN_END = '\x1b[J';

/** A frame at most: what does not fit the terminal cannot be drawn over. */
export const FRAME_HEIGHT = 20;
export const FRAME_WIDTH = 79;

/** Whether this terminal can do it, and nobody asked for plain lines. */
export function isFullScreen(out: WriteStream): boolean {
  const { NO_COLOR: noColor, TERM: term } = process.env;
  const isLargeEnough = out.rows > FRAME_HEIGHT && out.columns > FRAME_WIDTH;
  return out.isTTY && !noColor && term !== 'dumb' && isLargeEnough;
}

export class Screen {
  readonly #out: WriteStream;
  /** How many lines of the last frame are above the cursor. */
  #height = 0;

  constructor(out: WriteStream) {
    this.#out = out;
    out.write(HIDE_CURSOR);
  }

  /** Leaves what is there, and begins anew below it. */
  begin(title: string, explanation: string): void {
    this.#height = 0;
    this.#out.write(`\n${styleText('bold', title)}\n${explanation}\n\n`);
  }

  draw(lines: readonly string[]): void {
    const up = this.#height > 0 ? `\x1b[${this.#height}A\r` : '';
    const body = lines.map((line) => `${line}${CLEAR_TO_LINE_END}\n`).join('');
    this.#out.write(up + body + CLEAR_TO_SCREEN_END);
    this.#height = lines.length;
  }

  /** Leaves the terminal as it was. */
  close(): void {
    this.#out.write(SHOW_CURSOR);
  }
}
