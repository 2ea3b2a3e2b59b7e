// The live view: one screen that is drawn over itself ten times a second.

import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import type { Account } from '../bank.js';
import type { Worker } from '../crew.js';
import { money, rate, seconds } from '../figures.js';
import { Screen } from '../screen.js';
import type { View } from '../view.js';
import type { PhasePlan, PhaseState } from './phase.js';

export class LiveView implements View<PhasePlan, PhaseState> {
  readonly #screen: Screen;
  #events: string[] = [];

  constructor(out: WriteStream) {
    this.#screen = new Screen(out);
  }

  begin(plan: PhasePlan): void {
    this.#events = [];
    this.#screen.begin(plan.title, plan.explanation);
  }

  tell(event: string): void {
    this.#events.push(event);
  }

  update(state: PhaseState): void {
    const leftMs = Math.max(state.plan.durationMs - state.elapsedMs, 0);
    this.#screen.draw([
      ...frame(state),
      ...this.#events,
      styleText('dim', `${seconds(leftMs, 0)} left`),
    ]);
  }

  end(state: PhaseState): void {
    this.#screen.draw([...frame(state), ...this.#events]);
  }

  close(): void {
    this.#screen.close();
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
      ...(plan.lock !== 'none'
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
