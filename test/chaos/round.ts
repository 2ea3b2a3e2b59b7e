// One round: sets the stage, lets the plan's faults happen, heals, waits until everybody has had a turn, closes, and checks.
import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../support/time.js';
import { check } from './checker/check.js';
import type { Evidence, Violation } from './checker/evidence.js';
import { History, Journals } from './checker/history.js';
import { Observer } from './checker/observer.js';
import { closeAll, findLeftovers, OwnLag, waitingInVain } from './ending.js';
import { NEMESES } from './nemeses/all.js';
import type { Plan } from './plan.js';
import { Stage } from './stage/stage.js';

export interface RoundResult {
  readonly plan: Plan;
  readonly evidence: Evidence;
  readonly violations: readonly Violation[];
  readonly mess: Stage['mess'];
  readonly tookMs: number;
}

/** What goes on, for a status line; called now and then. */
type Watcher = (progress: Progress) => void;

export interface Progress {
  readonly phase: 'starting' | 'faults' | 'calm' | 'draining' | 'closing' | 'checking';
  readonly sections: number;
  readonly faults: readonly string[];
}

export interface RoundOptions {
  readonly watch?: Watcher;
  /** What the workers import instead of src/. */
  readonly library?: string;
}

export async function playRound(plan: Plan, options: RoundOptions = {}): Promise<RoundResult> {
  const { watch = () => undefined, library } = options;
  const startedAt = machineMs();
  watch({ phase: 'starting', sections: 0, faults: [] });
  using ownLag = new OwnLag();
  await using stage = await Stage.set(plan, library);
  const history = new History(plan.clientsPerWorker);
  using journals = new Journals(stage.journals, history);
  await Promise.all(stage.crew.map((member) => member.ready()));
  await using observer = new Observer(stage.servers, plan);

  let phase: Progress['phase'] = 'faults';
  const status = setInterval(() => {
    journals.read();
    const faults = stage.faults.present.map(({ nemesis }) => nemesis);
    watch({ phase, sections: history.sections.size, faults });
  }, 500);
  try {
    await letThingsGoWrong(stage);
    const healedAt = machineMs();
    phase = 'calm';
    await sleep(plan.phases.calmMs);
    const stoppedAt = machineMs();
    phase = 'draining';
    const stuck = await drain(stage, journals, history, observer);
    phase = 'closing';
    const unclosed = stuck.length > 0 ? [] : await closeAll(stage, ownLag);
    const left = stuck.length > 0 ? [] : await findLeftovers(stage, healedAt, ownLag);
    phase = 'checking';
    journals.read();
    const { looks, takeovers } = observer;
    const faults = [...stage.faults.all, ...takeovers.besides(stage.faults.all)];
    const ownLags = ownLag.noted;
    const heardWithinMs = 500;
    const evidence = {
      plan,
      history,
      faults,
      looks,
      healedAt,
      stoppedAt,
      heardWithinMs,
      // Lags are looked for every 50 ms, and noted if they are longer than that.
      unnotedMs: 100,
      ownLags,
    };
    const violations = [...check(evidence), ...stuck, ...unclosed, ...left];
    return { plan, evidence, violations, mess: stage.mess, tookMs: machineMs() - startedAt };
  } finally {
    clearInterval(status);
  }
}

async function letThingsGoWrong(stage: Stage): Promise<void> {
  const { faults, phases } = stage.plan;
  const startMs = machineMs();
  await Promise.all([
    sleep(phases.startMs + phases.faultsMs),
    ...faults.map(async (fault) => {
      const nemesis = NEMESES.find(({ name }) => name === fault.nemesis)!;
      await sleep(Math.max(0, fault.atMs - (machineMs() - startMs)));
      await nemesis.act(stage, fault, () => sleep(fault.forMs));
    }),
  ]);
}

/** Nothing new begins; all who wait get their turn. Returns who waits in vain: nothing has happened for a lease and some slack. */
async function drain(
  { crew, plan }: Stage,
  journals: Journals,
  history: History,
  observer: Observer,
): Promise<Violation[]> {
  const working = new Set(crew);
  for (const member of crew) {
    member.send({ type: 'stop' });
    void member.next('stopped', 600_000).then(
      () => working.delete(member),
      () => undefined, // killed by us, below
    );
  }
  const patienceMs = 2 * plan.watchdogMs + 3_000;
  let movedAt = machineMs();
  while (working.size > 0) {
    await sleep(50);
    if (journals.read() > 0) movedAt = machineMs();
    // A machine that is busy answers late; what waits for all that it needs to answer in time waits for longer.
    if (machineMs() - movedAt > patienceMs * (observer.isSlowSince(movedAt) ? 10 : 1)) {
      for (const member of working) member.send({ type: 'describe' });
      await sleep(1_500);
      journals.read();
      const workers = new Set([...working].map(({ index }) => index));
      return [waitingInVain(history, movedAt, (worker) => workers.has(worker))];
    }
  }
  return [];
}
