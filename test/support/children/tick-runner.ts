// A process that has a schedule, on a clock of its own.
//
// Environment: HOLDFAST_TEST_REDIS_URL, HOLDFAST_TEST_NAME (of the schedule), and HOLDFAST_TEST_OPTIONS (JSON: Course).
// play {firstMs, lastMs}  ->  told {what: done} when all ticks are over, from the first to the last, that are still to come on its clock
// Whenever a run begins   ->  told {what: begun, tick, atMs}; then it waits for: go on
// Whenever a run ends     ->  told {what: ended, tick, atMs}; or {what: failed, tick, message}
// close                   ->  the process ends by itself
import { setTimeout as sleep } from 'node:timers/promises';
import { onePerTick } from '../../../src/adapters/cron.js';
import { Holdfast } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';
import { machineMs } from '../time.js';

export interface Course {
  readonly intervalMs: number;
  /** How far its clock is ahead. */
  readonly aheadMs: number;
  readonly taskMs: number;
  readonly isTickNamed: boolean;
  readonly options: { readonly lockAtLeastFor: number; wait?: number; takeOver?: boolean };
}

const course = JSON.parse(process.env['HOLDFAST_TEST_OPTIONS']!) as Course;
const { intervalMs, aheadMs, taskMs, isTickNamed, options } = course;
const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL']!,
  lockWatchdogTimeout: 2_000,
});
const name = process.env['HOLDFAST_TEST_NAME']!;
let goOn: () => void;

async function onTick(tick: number): Promise<void> {
  const due = isTickNamed ? (): Date => new Date(tick) : undefined;
  await onePerTick(holdfast, name, { ...options, tick: due }, async () => {
    const told = new Promise<void>((resolve) => (goOn = resolve));
    tell('told', { what: 'begun', tick, atMs: machineMs() });
    await told;
    await sleep(taskMs);
    tell('told', { what: 'ended', tick, atMs: machineMs() });
  })();
}

const now = (): number => Date.now() + aheadMs;

async function play(firstMs: number, lastMs: number): Promise<void> {
  const runs: Promise<void>[] = [];
  const nextMs = Math.ceil(now() / intervalMs) * intervalMs;
  for (let tick = Math.max(firstMs, nextMs); tick <= lastMs; tick += intervalMs) {
    while (now() < tick) await sleep(tick - now());
    const failed = ({ message }: Error): void => {
      tell('told', { what: 'failed', tick, message });
    };
    runs.push(onTick(tick).catch(failed));
  }
  await Promise.all(runs);
  tell('told', { what: 'done' });
}

onMessage(async ({ type, ...content }) => {
  if (type === 'play') await play(Number(content['firstMs']), Number(content['lastMs']));
  if (type === 'go on') goOn();
  if (type !== 'close') return;
  await holdfast.close();
  stopListening();
});
tell('ready');
