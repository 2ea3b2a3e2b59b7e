// The line as it moves: who holds the lock, who is next, who joined.

import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import type { Worker } from '../crew.js';
import { seconds } from '../figures.js';
import { Screen } from '../screen.js';
import type { View } from '../view.js';
import type { RunPlan, RunState } from './run.js';

/** How long it is said of somebody that he joined. */
const JUST_NOW_MS = 400;

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
    this.#events.push(event);
  }

  update(state: RunState): void {
    const leftMs = Math.max(state.plan.durationMs - state.elapsedMs, 0);
    this.#screen.draw([
      ...frame(state),
      ...this.#events,
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

function frame(state: RunState): string[] {
  const { workers, waiters, handOvers, outOfOrder, longestWaitMs, lostCents } = state;
  const holder = workers.find((worker) => worker.state === 'holds');
  const others = workers.filter((worker) => worker !== holder && !waiters.includes(worker));
  return [
    holder ? holderRow(holder) : `  ${styleText('dim', '● nobody holds the lock')}`,
    ...waiters.map(waiterRow),
    ...others.map(otherRow),
    '',
    ...(holder ? [''] : []), // so that what is below stays where it is
    [
      `  hand-overs ${handOvers}`,
      counted('out of order', outOfOrder),
      `longest wait ${seconds(longestWaitMs, 2)}`,
      counted('cents lost', lostCents),
    ].join('  '),
    '',
  ];
}

function holderRow({ name, sinceMs }: Worker): string {
  return `  ${styleText('green', `● ${name}   holds the lock`)}   ${forTime(sinceMs)}`;
}

function waiterRow({ name, isAlive, sinceMs }: Worker, index: number): string {
  const place = `  ${index + 1} ${name}   `;
  if (!isAlive) return place + styleText('red', `killed ${forTime(sinceMs)} ago, still listed`);
  if (performance.now() - sinceMs < JUST_NOW_MS) return place + styleText('yellow', 'joined');
  return `${place}${index === 0 ? styleText('bold', 'next') : 'waits'}   ${forTime(sinceMs)}`;
}

function otherRow({ name, isAlive, sinceMs }: Worker): string {
  return isAlive
    ? `  ${styleText('dim', `· ${name}   outside`)}`
    : `  ${styleText('red', `✗ ${name}   killed ${forTime(sinceMs)} ago`)}`;
}

function forTime(sinceMs: number): string {
  return seconds(performance.now() - sinceMs, 1);
}

/** What should be none. */
function counted(what: string, count: number): string {
  return styleText(count > 0 ? 'red' : 'green', `${what} ${count.toLocaleString('en')}`);
}
