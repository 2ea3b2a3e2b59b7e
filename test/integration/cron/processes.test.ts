// Six processes have one schedule, on clocks that are two seconds apart. The one that runs each third tick is killed meanwhile.
import { expect, inject, it } from 'vitest';
import { type Child, startChild } from '../../support/child.js';
import type { Course } from '../../support/children/tick-runner.js';
import { sharedConnection } from '../../support/clients.js';
import { deleteLeftoverKeys } from '../../support/leftovers.js';
import { machineMs } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const PROCESSES = 6;
const APART_MS = 2_000;

/** HOLDFAST_TICKS: more ticks than fit into a run of all tests. */
const MANY_TICKS = process.env['HOLDFAST_TICKS'];
const LIMIT_MS = MANY_TICKS === undefined ? 150_000 : 3_600_000;

interface Run {
  readonly tick: number;
  readonly beganMs: number;
  endedMs: number;
  isComplete: boolean;
}

const redis = sharedConnection();

it(
  'each tick that the scheduler names is run once, beside no other',
  async () => {
    const options = { lockAtLeastFor: 120_000, wait: 60_000 };
    const { ticks, runs } = await play({ intervalMs: 1_500, isTickNamed: true, options }, 10);
    expect(ticksOf(runs)).toEqual(ticks);
    expect(overlaps(runs)).toEqual([]);
  },
  LIMIT_MS,
);

it(
  'each tick that is taken over is run until a run is complete, beside no other',
  async () => {
    const options = { lockAtLeastFor: 120_000, wait: 60_000, takeOver: true };
    const { ticks, runs, killed } = await play(
      { intervalMs: 1_500, isTickNamed: true, options },
      10,
    );
    const complete = runs.filter(({ isComplete }) => isComplete);
    expect(ticksOf(complete)).toEqual(ticks);
    expect(runs.length - complete.length).toBe(killed);
    expect(overlaps(runs)).toEqual([]);
  },
  LIMIT_MS,
);

it(
  'each tick is run once, beside no other, if its lock stays taken for longer than clocks differ',
  async () => {
    const options = { lockAtLeastFor: 5_000 };
    const { ticks, runs } = await play({ intervalMs: 10_000, isTickNamed: false, options }, 3);
    expect(ticksOf(runs)).toEqual(ticks);
    expect(overlaps(runs)).toEqual([]);
  },
  LIMIT_MS,
);

/** Plays `fewTicks` ticks, or as many as HOLDFAST_TICKS says. */
async function play(
  given: Pick<Course, 'intervalMs' | 'isTickNamed' | 'options'>,
  fewTicks: number,
): Promise<{ ticks: number[]; runs: Run[]; killed: number }> {
  const name = uniqueName('schedule');
  const start = (i: number): Child => {
    const aheadMs = (APART_MS * i) / (PROCESSES - 1);
    return startChild('tick-runner.ts', {
      HOLDFAST_TEST_REDIS_URL: inject('redisUrl'),
      HOLDFAST_TEST_NAME: name,
      HOLDFAST_TEST_OPTIONS: JSON.stringify({ ...given, aheadMs, taskMs: 200 } satisfies Course),
    });
  };
  const children = Array.from({ length: PROCESSES }, (_, i) => start(i));
  try {
    await Promise.all(children.map((child) => child.next('ready', LIMIT_MS)));
    const { intervalMs } = given;
    const firstMs = (Math.ceil((Date.now() + APART_MS) / intervalMs) + 1) * intervalMs;
    const ticks = Array.from(
      { length: Number(MANY_TICKS ?? fewTicks) },
      (_, i) => firstMs + i * intervalMs,
    );
    const toKill = new Set(ticks.filter((_, i) => i % 3 === 1));
    let [killed, playing] = [0, 0];
    const runs: Run[] = [];
    const failures: string[] = [];

    /** Lets a process play all ticks; if it is killed, another one plays those that are still to come. */
    const hear = async (i: number): Promise<void> => {
      const child = children[i]!;
      playing++;
      child.send({ type: 'play', firstMs, lastMs: ticks.at(-1)! });
      for (;;) {
        const told = await child.next('told', LIMIT_MS);
        const [tick, atMs] = [Number(told['tick']), Number(told['atMs'])];
        if (told['what'] === 'done') return;
        if (told['what'] === 'failed') failures.push(String(told['message']));
        if (told['what'] === 'ended') {
          const run = runs.findLast((each) => each.tick === tick)!;
          [run.endedMs, run.isComplete] = [atMs, true];
        }
        if (told['what'] !== 'begun') continue;
        const run = { tick, beganMs: atMs, endedMs: Infinity, isComplete: false };
        runs.push(run);
        // On a busy machine a process needs long to start: somebody must be left.
        if (toKill.delete(tick) && playing > 2) {
          [killed, playing] = [killed + 1, playing - 1];
          const dead = child.kill();
          run.endedMs = machineMs();
          await dead;
          await (children[i] = start(i)).next('ready', LIMIT_MS);
          await hear(i);
          return;
        }
        child.send({ type: 'go on' });
      }
    };
    await Promise.all(children.map((_, i) => hear(i)));
    for (const child of children) child.send({ type: 'close' });
    const exits = await Promise.all(children.map((child) => child.exited()));
    expect(exits).toEqual(Array(PROCESSES).fill({ code: 0, signal: null }));
    expect(failures).toEqual([]);
    return { ticks, runs, killed };
  } finally {
    await Promise.all(children.map((child) => child[Symbol.asyncDispose]()));
    await deleteLeftoverKeys(redis); // the ticks, which stay taken
  }
}

function ticksOf(runs: readonly Run[]): number[] {
  return runs.map(({ tick }) => tick).sort((one, other) => one - other);
}

/** The runs that began before the one before them had ended. */
function overlaps(runs: readonly Run[]): Run[] {
  const inOrder = runs.toSorted((one, other) => one.beganMs - other.beganMs);
  return inOrder.filter((run, i) => run.beganMs < (inOrder[i - 1]?.endedMs ?? 0));
}
