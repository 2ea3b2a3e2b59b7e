// A process in which several callers at once take MultiLocks of some names, again and again.
//
// Environment: HOLDFAST_TEST_REDIS_URL (several, with blanks between them: the locks are Redlocks over these), and
// HOLDFAST_TEST_OPTIONS (JSON, further options of the clients).
// At once  ->  ready
// pairs {names, callers, rounds, holdMs}
//          ->  done {turns, longestLagMs}, or {error}: each caller took so many times two names at random, in random order
// same {names, callers, rounds, holdMs}
//          ->  the same: each caller took all names in the given order
// close    ->  the process ends by itself
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast, type HoldfastOptions, type Lock } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';
import { EventLoopLag, eventually, machineMs } from '../time.js';
import type { MultiTurn } from '../multi-locks.js';

const urls = (process.env['HOLDFAST_TEST_REDIS_URL'] ?? '').split(' ');
const clients = urls.map((redis) => {
  return new Holdfast({
    redis,
    commandTimeout: 20_000, // for a busy machine
    wait: Infinity,
    ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
  });
});
const holdfast = clients[0]!;

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
    await Promise.all(clients.map((client) => client.close()));
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
await eventually(() => lockOf('connected').isLocked()); // a busy machine takes its time
tell('ready');

async function callAgainAndAgain({ type, names, rounds, holdMs }: Task): Promise<MultiTurn[]> {
  const turns: MultiTurn[] = [];
  for (let round = 0; round < rounds; round++) {
    const wanted = type === 'pairs' ? twoOf(names) : [...names];
    const lock = holdfast.getMultiLock(...wanted.map(lockOf));
    const askedMs = machineMs();
    await lock.withLock(async () => {
      const fromMs = machineMs();
      await sleep(holdMs);
      turns.push({ names: wanted, askedMs, fromMs, untilMs: machineMs() });
    });
  }
  return turns;
}

function lockOf(name: string): Lock {
  const locks = clients.map((client) => client.getLock(name));
  // Masters that were started for a test, on a busy machine.
  return locks.length === 1
    ? locks[0]!
    : holdfast.getRedLock(...locks, { restartGuard: false, nodeTimeout: 1_000 });
}

function twoOf(names: readonly string[]): string[] {
  const first = Math.floor(Math.random() * names.length);
  const second = (first + 1 + Math.floor(Math.random() * (names.length - 1))) % names.length;
  return [names[first]!, names[second]!];
}
