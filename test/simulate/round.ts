// One round of the simulator: everybody works while things go wrong, all is healed, all who wait get their turn, all clients close, and nothing
// may be left. The checker of the fault campaign judges. In the end a crowd of callers shows whether clients take turns.
import { LockKeys } from '../../src/redis/keys.js';
import { memoryMs, waitingInVain } from '../chaos/ending.js';
import { check } from '../chaos/checker/check.js';
import type { History } from '../chaos/checker/history.js';
import { violation, type Evidence, type Violation } from '../chaos/checker/evidence.js';
import type { Look } from '../chaos/checker/looks.js';
import { planRound } from '../chaos/plan-round.js';
import { paceMs, type Kind, type Plan, type PlanWishes } from '../chaos/plan.js';
import { faultsOf, schedule } from './faults.js';
import { observe } from './observer.js';
import type { SimServer } from './network.js';
import { playTurns } from './turns.js';
import { World } from './world.js';

export interface RoundResult {
  readonly plan: Plan;
  readonly evidence: Evidence;
  readonly violations: readonly Violation[];
  /** How many commands the servers ran, and how many calls there were. */
  readonly commandCount: number;
  readonly callCount: number;
  /** How many holds began on grants that their clients had kept. */
  readonly keptCount: number;
  /** How many milliseconds of virtual time it took. */
  readonly tookMs: number;
}

/** In one of so many rounds leases are long: whoever loses one must be told at once, since its next renewal is far off. */
const LONG_EVERY = 3;
/** How long servers may take to hear that somebody has gone. */
const AT_ONCE_MS = 300;
/** How much longer than `commandTimeout` the sockets of a closing client may take. */
const CLOSE_SLACK_MS = 600;

/** `trace` is told everything that happens, line by line. */
export async function playRound(
  kind: Kind,
  seed: number,
  trace: (line: string) => void = () => undefined,
  wishes: Pick<PlanWishes, 'faultsMs' | 'isFenced'> = {},
): Promise<RoundResult> {
  const plan = planRound(kind, seed, {
    topology: 'single',
    nemeses: [],
    faultsMs: 8_000,
    isLong: seed % LONG_EVERY === 0,
    ...wishes,
  });
  const world = new World(plan, trace);
  const { time, history } = world;
  const startMs = time.nowMs;
  const looks: Look[] = [];
  let isOver = false;
  const troubled = (error: unknown): void => {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    world.noteIn('', { what: 'trouble', message });
  };
  process.on('unhandledRejection', troubled);
  try {
    observe(world, looks, () => isOver);
    schedule(world, faultsOf(world));
    await time.play(startMs + plan.phases.startMs + plan.phases.faultsMs + 1);
    const healedAt = time.nowMs;
    await time.play(healedAt + plan.phases.calmMs);
    const stoppedAt = time.nowMs;
    const stuck = await drain(world);
    isOver = true;
    const left = stuck.length > 0 ? [] : await close(world, healedAt);
    const turns = await playTurns(kind, seed, trace);
    const evidence = {
      plan,
      history,
      faults: world.faults.all,
      deafness: world.deafness,
      looks,
      healedAt,
      stoppedAt,
      ownLags: [],
    };
    return {
      plan,
      evidence,
      violations: [...check(evidence), ...stuck, ...left, ...turns.violations],
      commandCount: world.commandCount + turns.commandCount,
      callCount: history.sections.size,
      keptCount: history.keptCount,
      tookMs: time.nowMs - startMs,
    };
  } finally {
    process.off('unhandledRejection', troubled);
  }
}

/** Nothing new begins. Returns who waits in vain: all is healed, and nothing has happened for two leases and some more. */
async function drain(world: World): Promise<Violation[]> {
  const { crews, time, history, plan } = world;
  let stillWorking = crews.length;
  for (const { callers, working } of crews) {
    for (const caller of callers) caller.stop();
    void working.then(() => stillWorking--);
  }
  const patienceMs = 2 * plan.watchdogMs + 3_000;
  for (;;) {
    const before = world.noteCount;
    const movedAt = time.nowMs;
    await time.play(movedAt + patienceMs, () => stillWorking === 0);
    if (stillWorking === 0) return [];
    if (world.noteCount === before) return [waitingInVain(history, movedAt)];
  }
}

/** All clients are closed, in time, and nothing of them is left: no timer, no subscription, no key that outlives its lease. */
async function close(world: World, healedAt: number): Promise<Violation[]> {
  const { crews, time, plan } = world;
  const violations: Violation[] = [];
  const accuse = (message: string): void => {
    violations.push(violation('left behind', time.nowMs, message));
  };
  const parties = crews.flatMap((crew) => crew.parties);
  let counting = parties.length;
  for (const party of parties) void party.countPermits().finally(() => counting--);
  await time.play(time.nowMs + 60_000, () => counting === 0);
  if (counting > 0) accuse('clients were not told how many permits are available');
  let closing = parties.length;
  for (const party of parties) void party.close().finally(() => closing--);
  await time.play(time.nowMs + plan.commandTimeoutMs + CLOSE_SLACK_MS, () => closing === 0);
  if (closing > 0) accuse(`${closing} clients did not close`);
  // What a killed process held, or a late command took, stays for its lease; no lease here is longer than this.
  const lapsedAt = healedAt + 2 * paceMs(plan) + 2 * plan.watchdogMs;
  await time.play(Math.max(time.nowMs, lapsedAt) + AT_ONCE_MS);
  for (const [worker, { process }] of crews.entries())
    if (process.timers.size > 0) accuse(`worker ${worker} has ${process.timers.size} timers`);
  // Places whose line was deleted stay for as long as the lock is in use, and for one lease.
  const disordered = world.faults.all.flatMap(({ disorders = [] }) => disorders);
  const withoutLine = disordered.map((lock) => new LockKeys(lock).places);
  for (const server of world.servers) {
    const longer = [...withoutLine, ...keysOfLapsed(server, world.history)];
    for (const key of server.keys.names) {
      const ttlMs = server.ask('pttl', key) as number;
      const mostMs = longer.includes(key) ? 2 * plan.watchdogMs : memoryMs(key, plan);
      if (ttlMs !== -2 && !(ttlMs >= 0 && ttlMs <= mostMs))
        accuse(`key "${key}" (${ttlMs} ms) on server ${server.index}`);
    }
    for (const channel of server.channels) accuse(`a subscription to ${channel}`);
  }
  return violations;
}

/**
 * The keys of semaphores and read-write locks whose last holders were not released at once: exported and never adopted, or to stay for
 * `lockAtLeastFor`. No script shortens the time to live of these keys, so they stay until the longest lease beside such a holder would have ended.
 */
function keysOfLapsed(server: SimServer, { sections }: History): string[] {
  const lapsing = [...sections.values()].filter(
    ({ exportedAt, atLeastMs }) => exportedAt !== undefined || atLeastMs !== undefined,
  );
  const owners = lapsing.map(({ owner }) => owner);
  return [...server.keys.names].flatMap((lock) => {
    const { leases } = new LockKeys(lock);
    const left = (server.ask('zrange', leases, '0', '-1') ?? []) as string[];
    return left.length > 0 && left.every((owner) => owners.includes(owner)) ? [lock, leases] : [];
  });
}
