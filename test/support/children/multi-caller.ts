// A process in which several callers at once take MultiLocks of some names, again and again.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_OPTIONS (JSON, further options of the client).
// At once  ->  ready
// pairs {names, callers, rounds, holdMs}
//          ->  done {turns, longestLagMs}, or {error}: each caller took so many times two names at random, in random order
// same {names, callers, rounds, holdMs}
//          ->  the same: each caller took all names in the given order
// close    ->  the process ends by itself
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';
import { EventLoopLag } from '../event-loop-lag.js';
import { machineMs } from '../machine-clock.js';
import type { MultiTurn } from '../multi-processes.js';

const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  commandTimeout: 20_000, // for a busy machine
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});

interface Task {
  readonly type: 'pairs' | 'same' | 'close';
  readonly names: readonly string[];
  readonly callers: number;
  readonly rounds: number;
  readonly holdMs: number;
}

onMessage(async (message) => {
  const task = message as unknown as Task;
  if (task.type === 'close') {
    await holdfast.close();
    stopListening();
    return;
  }
  using lag = new EventLoopLag();
  const { callers } = task;
  const calling = Array.from({ length: callers }, () => callAgainAndAgain(task));
  const turns = await Promise.all(calling).catch((error: unknown) => {
    tell('done', { error: String(error) });
  });
  if (turns) tell('done', { turns: turns.flat(), longestLagMs: lag.longestMs });
});
await holdfast.getLock('connected').isLocked();
tell('ready');

async function callAgainAndAgain({ type, names, rounds, holdMs }: Task): Promise<MultiTurn[]> {
  const turns: MultiTurn[] = [];
  for (let round = 0; round < rounds; round++) {
    const wanted = type === 'pairs' ? twoOf(names) : [...names];
    const lock = holdfast.getMultiLock(...wanted.map((name) => holdfast.getLock(name)));
    const askedMs = machineMs();
    await lock.withLock(async () => {
      const fromMs = machineMs();
      await sleep(holdMs);
      turns.push({ names: wanted, askedMs, fromMs, untilMs: machineMs() });
    });
  }
  return turns;
}

function twoOf(names: readonly string[]): string[] {
  const first = Math.floor(Math.random() * names.length);
  const second = (first + 1 + Math.floor(Math.random() * (names.length - 1))) % names.length;
  return [names[first]!, names[second]!];
}
