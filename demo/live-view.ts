// The live view: one screen that is drawn over itself ten times a second.

import { styleText } from 'node:util';
import type { WriteStream } from 'node:tty';
import type { Account } from './bank.js';
import type { Worker } from './crew.js';
import { money, rate, seconds } from './figures.js';
import type { PhasePlan, PhaseState } from './phase.js';
import type { View } from './view.js';

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
const CLEAR_TO_LINE_END = '\x1b[K';
const CLEAR_TO_SCREEN_END = '\x1b[J';

/** A frame's lines at most: what does not fit the terminal cannot be drawn over. */
const FRAME_HEIGHT = 20;

export function isFullScreen(out: WriteStream): boolean {
  const { NO_COLOR: noColor, TERM: term } = process.env;
  return out.isTTY && !noColor && term !== 'dumb' && out.rows > FRAME_HEIGHT && out.columns >= 80;
}

export class LiveView implements View {
  readonly #out: WriteStream;
  #events: string[] = [];
  /** How many lines of the last frame are above the cursor. */
  #height = 0;

  constructor(out: WriteStream) {
    this.#out = out;
    out.write(HIDE_CURSOR);
  }

  begin(plan: PhasePlan): void {
    this.#height = 0;
    this.#events = [];
    this.#out.write(`\n${styleText('bold', plan.title)}\n${plan.explanation}\n\n`);
  }

  tell(event: string): void {
    this.#events.push(event);
  }

  update(state: PhaseState): void {
    const leftMs = Math.max(state.plan.durationMs - state.elapsedMs, 0);
    this.#draw([...frame(state), ...this.#events, styleText('dim', `${seconds(leftMs, 0)} left`)]);
  }

  end(state: PhaseState): void {
    this.#draw([...frame(state), ...this.#events]);
  }

  close(): void {
    this.#out.write(SHOW_CURSOR);
  }

  #draw(lines: readonly string[]): void {
    const up = this.#height > 0 ? `\x1b[${this.#height}A\r` : '';
    const body = lines.map((line) => `${line}${CLEAR_TO_LINE_END}\n`).join('');
    this.#out.write(up + body + CLEAR_TO_SCREEN_END);
    this.#height = lines.length;
  }
}

function frame(state: PhaseState): string[] {
  const { plan, workers, accounts, transfers, elapsedMs, handOvers, longestWaitMs } = state;
  const lost = `cents lost ${state.lostCents.toLocaleString('en')}`;
  return [
    ...workers.map(workerLine),
    '',
    styleText('dim', '  account      balance   should be     missing'),
    ...accounts.map(accountLine),
    '',
    [
      `  transfers ${transfers} (${rate(transfers, elapsedMs)})`,
      ...(plan.underLock
        ? [`hand-overs ${handOvers}`, `longest wait ${seconds(longestWaitMs, 2)}`]
        : []),
      styleText(state.lostCents > 0 ? 'red' : 'green', lost),
    ].join('  '),
    '',
  ];
}

function workerLine({ name, state, sinceMs }: Worker): string {
  const forTime = seconds(performance.now() - sinceMs, 1);
  switch (state) {
    case 'holds':
      return `  ${name}   ${styleText('green', '● holds the lock')}`;
    case 'waits':
      return `  ${name}   ○ waits ${forTime}`;
    case 'transfers':
      return `  ${name}   ● reads, thinks, writes`;
    case 'killed':
      return `  ${name}   ${styleText('red', `✗ killed ${forTime} ago`)}`;
    case 'starts':
    case 'rests':
      return `  ${name}   ${styleText('dim', '· between two transfers')}`;
  }
}

function accountLine({ name, balanceCents, rightCents }: Account): string {
  const lost = rightCents - balanceCents;
  const figures = [money(balanceCents), money(rightCents), lost === 0 ? '-' : money(lost)];
  const [balance, right, difference] = figures.map((figure) => figure.padStart(12));
  const text = `${name.padEnd(8)}${balance}${right}`;
  return `  ${text}${lost === 0 ? difference : styleText('red', difference!)}`;
}
