// The masters as they come and go, and what that means to the workers.

import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import { monotonicMs } from '../clock.js';
import type { Worker } from '../crew.js';
import { seconds } from '../figures.js';
import { Screen } from '../screen.js';
import type { View } from '../view.js';
import type { Master } from './master.js';
import type { RunPlan, RunState } from './run.js';

/** What fits below the masters and the figures; the latest stay. */
const EVENT_LINES = 9;
const WIDTH = 78;

export class LiveView implements View<RunPlan, RunState> {
  readonly #screen: Screen;
  readonly #events: string[] = [];

  constructor(out: WriteStream) {
    this.#screen = new Screen(out);
  }

  begin({ title, explanation }: RunPlan): void {
    this.#screen.begin(title, explanation);
  }

  tell(event: string): void {
    this.#events.push(...wrapped(event));
  }

  update(state: RunState): void {
    const leftMs = Math.max(state.plan.durationMs - state.elapsedMs, 0);
    this.#screen.draw([
      ...frame(state),
      ...this.#events.slice(-EVENT_LINES),
      styleText('dim', `${seconds(leftMs, 0)} left`),
    ]);
  }

  end(state: RunState): void {
    this.#screen.draw([...frame(state), ...this.#events]);
  }

  close(): void {
    this.#screen.close();
  }
}

function frame({ masters, workers, transfers, lostCents, refusals }: RunState): string[] {
  return [
    ...masters.map(masterRow),
    '',
    `  ${workers.map(workerCell).join('   ')}`,
    '',
    [
      `  transfers ${transfers}`,
      `refusals ${refusals.count}`,
      styleText(lostCents > 0 ? 'red' : 'green', `cents lost ${lostCents.toLocaleString('en')}`),
    ].join('  '),
    '',
  ];
}

function masterRow({ name, address, state, sinceMs, answer }: Master): string {
  const forTime = seconds(monotonicMs() - sinceMs, 1);
  const place = `${name}   ${address}   `;
  switch (state) {
    case 'up':
      return `  ${styleText('green', '●')} ${place}up`;
    case 'killed':
      return `  ${styleText('red', `✗ ${place}killed ${forTime} ago`)}`;
    case 'back':
      return answer?.answer === 'guarded'
        ? `  ${styleText('yellow', `○ ${place}back, empty: votes in ${seconds(answer.votesInMs, 1)}`)}`
        : `  ${styleText('green', '●')} ${place}up again for ${forTime}`;
  }
}

function workerCell({ name, state }: Worker): string {
  switch (state) {
    case 'holds':
      return styleText('green', `● ${name}`);
    case 'waits':
      return `○ ${name}`;
    case 'starts':
    case 'transfers':
    case 'rests':
    case 'killed':
      return styleText('dim', `· ${name}`);
  }
}

/** In lines that fit, the further ones indented: what is drawn over must not be broken by the terminal. */
function wrapped(event: string): string[] {
  const lines = [''];
  for (const word of event.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length + 1 + word.length > WIDTH) lines.push(`  ${word}`);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}
