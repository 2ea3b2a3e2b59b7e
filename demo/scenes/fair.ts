// Worker processes queue for one fair lock; one of them is killed while it is first in line, one while it holds the lock.
import { styleText } from 'node:util';
import { Holdfast, type FairLock } from '../../src/index.js';
import type { Worker } from '../support/crew.js';
import { fault, faults, holderIn, seconds, table, takeover } from '../support/figures.js';
import { monotonicMs, type Report } from '../support/messages.js';
import {
  FOREVER_MS,
  playScene,
  type Scene,
  type ScenePlan,
  type SceneState,
  type Story,
} from '../support/scene.js';
import { conclude, onStage, type Show } from '../support/stage.js';
import { createView } from '../support/view.js';

const WORKERS = 6;

const PLAN: FairPlan = {
  title: "one fair lock: await holdfast.getFairLock('bank').withLock(transfer)",
  explanation:
    `${WORKERS} processes queue for it. Each holds it for 0.1 to 0.3 s and then joins the line again.\n` +
    'After 5 s the demo kills the process that is first in line, after 11 s the holder.',
  lock: 'fair',
  durationMs: 21_000,
  killFirstAfterMs: 5_000,
  killHolderAfterMs: 11_000,
};

export const fairShow: Show = {
  about: 'a line for one fair lock; the first in line is killed, then a holder',
  play: (signal) =>
    onStage({ workers: WORKERS, signal }, async (stage) => {
      await using looking = new Holdfast({ redis: stage.url, keyPrefix: stage.prefix });
      using view = createView({ frame, summary });
      const state = await playScene(
        PLAN,
        stage,
        view,
        (scene) => new FairStory(scene, looking.getFairLock('bank')),
      );
      return conclude(report(state), findBug(state), MORAL);
    }),
};

interface FairPlan extends ScenePlan {
  readonly killFirstAfterMs: number;
  readonly killHolderAfterMs: number;
}

interface FairState extends SceneState<FairPlan> {
  /** The workers in line, the next one first; includes a killed one while its place lasts. */
  readonly waiters: readonly Worker[];
  readonly handOvers: number;
  readonly outOfOrder: number;
  readonly longestWaitMs: number;
  /** After the first in line is killed: from when the holder leaves until the next one is inside. */
  readonly firstKilledMs: number | undefined;
  /** After the holder is killed: from then until the next one is inside. */
  readonly holderKilledMs: number | undefined;
}

/** How long the holder stays inside, so that viewers see who is killed behind it. */
const LINGER_MS = 1_200;

type Place = 'first' | 'holder';

class FairStory implements Story<FairPlan, FairState> {
  readonly #scene: Scene<FairPlan>;
  readonly #lock: FairLock;
  readonly #line = new Line();
  readonly #killedAtMs = new Map<Place, number>();
  readonly #takeoverMs = new Map<Place, number>();

  /** `lock` is only queried. */
  constructor(scene: Scene<FairPlan>, lock: FairLock) {
    this.#scene = scene;
    this.#lock = lock;
  }

  async happen(): Promise<void> {
    await this.#scene.until(this.#scene.plan.killFirstAfterMs);
    const lingering = await this.#scene.somebodyMidway(LINGER_MS);
    const first = await this.#firstInLine(); // while nobody can move up
    if (first && lingering) {
      this.#kill('first', first, `is first in line, while ${lingering.name} holds the lock`);
    }

    await this.#scene.until(this.#scene.plan.killHolderAfterMs);
    const holder = await this.#scene.somebodyMidway(FOREVER_MS);
    if (holder) this.#kill('holder', holder, 'holds the lock, has read and not written yet');
  }

  heed(worker: Worker, report: Report): void {
    if (report.type === 'holds') {
      const { ownerId, waitedMs, atMs: enteredAtMs } = report;
      this.#line.enter({ worker, ownerId, waitedMs, enteredAtMs });
    }
    if (report.type === 'transferred') this.#line.leave(worker, report.atMs);
    this.#noticeTakeovers();
  }

  async look(state: SceneState<FairPlan>): Promise<FairState> {
    this.#line.see(await this.#lock.getWaiters());
    const { stays, waiters, outOfOrder } = this.#line;
    return {
      ...state,
      // A worker may have reported that it is inside since the query that found it in line.
      waiters: waiters
        .flatMap((owner) => this.#scene.stage.crew.withOwner(owner) ?? [])
        .filter((worker) => worker.state !== 'holds'),
      handOvers: Math.max(stays.length - 1, 0),
      outOfOrder,
      longestWaitMs: Math.max(0, ...stays.map(({ waitedMs }) => waitedMs)),
      firstKilledMs: this.#takeoverMs.get('first'),
      holderKilledMs: this.#takeoverMs.get('holder'),
    };
  }

  async #firstInLine(): Promise<Worker | undefined> {
    this.#line.see(await this.#lock.getWaiters());
    return this.#scene.stage.crew.withOwner(this.#line.waiters[0] ?? '');
  }

  #kill(place: Place, victim: Worker, situation: string): void {
    this.#killedAtMs.set(place, monotonicMs());
    void victim.kill();
    this.#scene.tell(`${victim.name} ${situation}: SIGKILL`);
  }

  #noticeTakeovers(): void {
    for (const [place, killedAtMs] of this.#killedAtMs) {
      const next = this.#line.stays.find(({ enteredAtMs }) => enteredAtMs > killedAtMs);
      if (!next || this.#takeoverMs.has(place)) continue;
      const before = this.#line.stays[this.#line.stays.indexOf(next) - 1];
      const fromMs = place === 'first' ? before?.leftAtMs : killedAtMs;
      if (fromMs === undefined) continue; // not reported yet
      const takeoverMs = next.enteredAtMs - fromMs;
      this.#takeoverMs.set(place, takeoverMs);
      const name = next.worker.name;
      this.#scene.tell(
        place === 'first'
          ? `${name}, which was next in line, enters ${takeoverMs.toFixed(1)} ms after ${before!.worker.name} released the lock`
          : `${name}, which was first in line, enters ${seconds(takeoverMs, 2)} after the kill, when the lease ended`,
      );
    }
  }
}

// The line as seen from outside, and whether the lock was passed along it in order.

/** One stay in the critical section; times on the machine's monotonic clock. */
interface Stay {
  readonly worker: Worker;
  readonly ownerId: string;
  readonly waitedMs: number;
  readonly enteredAtMs: number;
  /** undefined: the worker is inside, or was killed there. */
  leftAtMs?: number;
}

class Line {
  readonly #stays: Stay[] = [];
  /** The rank of each owner in the order in which they were first seen in line. */
  readonly #ranks = new Map<string, number>();
  #waiters: readonly string[] = [];
  #jumped = 0;

  /** The owners that wait, the next one first. */
  get waiters(): readonly string[] {
    return this.#waiters;
  }

  /** In the order in which they began. */
  get stays(): readonly Stay[] {
    return this.#stays;
  }

  /** Takes the current line. A new waiter must be behind all that were there before. */
  see(waiters: readonly string[]): void {
    this.#waiters = waiters;
    for (const owner of waiters) {
      if (!this.#ranks.has(owner)) this.#ranks.set(owner, this.#ranks.size);
    }
    this.#jumped += descents(waiters.map((owner) => this.#ranks.get(owner)!));
  }

  enter(stay: Stay): void {
    this.#waiters = this.#waiters.filter((owner) => owner !== stay.ownerId);
    // Different processes report this: the messages may arrive in another order than that of the events.
    const index = this.#stays.findIndex(({ enteredAtMs }) => enteredAtMs > stay.enteredAtMs);
    this.#stays.splice(index === -1 ? this.#stays.length : index, 0, stay);
  }

  leave(worker: Worker, atMs: number): void {
    const stay = this.#stays.findLast((known) => known.worker === worker);
    if (stay) stay.leftAtMs = atMs;
  }

  /** How often a worker entered, or joined the line, ahead of one that had been in line before. */
  get outOfOrder(): number {
    const ranks = this.#stays.map(({ ownerId }) => this.#ranks.get(ownerId));
    return this.#jumped + descents(ranks.filter((rank) => rank !== undefined));
  }
}

/** How many are lower than one before them. */
function descents(ranks: readonly number[]): number {
  let highest = -1;
  let count = 0;
  for (const rank of ranks) {
    if (rank < highest) count++;
    highest = Math.max(highest, rank);
  }
  return count;
}

/** How long a worker is shown as "joined". */
const JUST_NOW_MS = 400;

function frame(state: FairState): string[] {
  const { workers, waiters, handOvers, outOfOrder, longestWaitMs, lostCents } = state;
  const holder = workers.find((worker) => worker.state === 'holds');
  const others = workers.filter((worker) => worker !== holder && !waiters.includes(worker));
  return [
    holder ? holderRow(holder) : `  ${styleText('dim', '● nobody holds the lock')}`,
    ...waiters.map(waiterRow),
    ...others.map(otherRow),
    '',
    ...(holder ? [''] : []), // so that the lines below do not move
    [
      `  hand-overs ${handOvers}`,
      fault('out of order', outOfOrder),
      `longest wait ${seconds(longestWaitMs, 2)}`,
      fault('cents lost', lostCents),
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

function summary(state: FairState): string {
  const { workers, waiters, handOvers, outOfOrder, lostCents } = state;
  const holder = holderIn(workers);
  const names = waiters.map(({ name, isAlive }) => (isAlive ? name : `${name} (killed)`));
  return [
    `${holder} holds`,
    `in line: ${names.join(', ') || 'nobody'}`,
    `${handOvers} hand-overs, ${outOfOrder} out of order, ${lostCents} cents lost`,
  ].join(' | ');
}

/** "At once", on a busy machine: a renewal of a place in line is due later. */
const AT_ONCE_MS = 500;

function report(state: FairState): string {
  const { handOvers, outOfOrder, longestWaitMs, firstKilledMs, holderKilledMs, lostCents } = state;
  return table(
    [
      ['', 'fair lock'],
      ['hand-overs', String(handOvers)],
      ['out of order', faults(outOfOrder)],
      ['longest wait', seconds(longestWaitMs, 2)],
      [
        'takeover, first in line killed',
        firstKilledMs === undefined ? 'never' : `${firstKilledMs.toFixed(1)} ms`,
      ],
      ['takeover, holder killed', takeover(holderKilledMs)],
      ['cents lost', faults(lostCents)],
    ],
    32,
  );
}

const MORAL =
  'Out of order: how often a process entered, or joined the line, ahead of one that\n' +
  'was in line before it. The demo polls the line ten times a second. A release hands\n' +
  'the lock to the first process in line that is still connected, so the dead one\n' +
  'delayed nobody. The dead holder had not written yet, and nobody renewed its lease:\n' +
  'after 3 s the lock went to the next. The longest wait includes these 3 s.';

/** The first observation that must not happen; undefined: none. */
function findBug(state: FairState): string | undefined {
  const { outOfOrder, lostCents, firstKilledMs, holderKilledMs } = state;
  if (outOfOrder > 0) return `${outOfOrder} times a process entered out of order`;
  if (lostCents > 0) return `${lostCents} cents were lost`;
  if (firstKilledMs === undefined)
    return 'After the first in line was killed, nobody acquired the lock';
  if (firstKilledMs > AT_ONCE_MS) return 'The place of a dead process delayed the line';
  if (holderKilledMs === undefined) return 'After the holder was killed, nobody acquired the lock';
  return undefined;
}
