// Random programs of nested and parallel acquisitions: holders that must exclude each other never overlap, all end, and nothing is left.
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { LockAbortedError, LockTimeoutError } from '../../../src/api/errors.js';
import type { Lock } from '../../../src/api/lock.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import {
  detached,
  holding,
  inBranch,
  inRun,
  legalLock,
  outermost,
  programs,
  SectionOracle,
  VirtualTime,
  type Acquire,
  type Place,
  type Program,
  type Section,
  type Step,
} from '../../support/lock-programs.js';

interface Position {
  readonly place: Place;
  readonly around: readonly Section[];
  readonly runs: readonly number[];
}

class Execution {
  readonly time = new VirtualTime();
  readonly oracle = new SectionOracle();
  readonly #holdfast: FakeHoldfast;
  readonly #entered = new Set<string>();
  #lastRun = 0;
  #lastSection = 0;

  constructor(holdfast: FakeHoldfast, travels: readonly number[]) {
    this.#holdfast = holdfast;
    let travel = 0;
    holdfast.server.travel = () => this.time.pass(travels[travel++ % travels.length]!);
  }

  async steps(steps: readonly Step[], position: Position): Promise<void> {
    for (const step of steps) await this.#step(step, position);
  }

  async #step(step: Step, position: Position): Promise<void> {
    const { place, runs } = position;
    switch (step.kind) {
      case 'pause':
        await this.time.pass(step.ticks);
        return;
      case 'parallel': {
        const branch = { ...position, place: inBranch(place) };
        await Promise.all(step.branches.map((body) => this.steps(body, branch)));
        return;
      }
      case 'run': {
        const inside = { ...position, place: inRun(place), runs: [...runs, ++this.#lastRun] };
        await this.#holdfast.run(() => this.steps(step.body, inside));
        return;
      }
      case 'detach':
        await this.#holdfast.detach(() =>
          this.steps(step.body, { place: detached(place), around: [], runs: [] }),
        );
        return;
      case 'withLock':
      case 'lock':
      case 'hold':
      case 'hold.run':
        await this.#acquire(step, position);
    }
  }

  async #acquire(step: Acquire, position: Position): Promise<void> {
    const index = legalLock(position.place, step.lock);
    if (index === undefined) {
      await this.steps(step.body, position);
      return;
    }
    try {
      await this.#inside(step, index, position);
    } catch (error) {
      if (step.wait === 'forever') throw error;
      if (!(error instanceof LockTimeoutError || error instanceof LockAbortedError)) throw error;
    }
  }

  async #inside(step: Acquire, index: number, position: Position): Promise<void> {
    const lock = this.#holdfast.getLock(String(index));
    const options = this.#options(step);
    const body = (): Promise<void> => this.#section(step, index, position);
    switch (step.kind) {
      case 'withLock':
        await lock.withLock(options, body);
        return;
      case 'lock':
        if (!(await lock.tryLock(options))) return;
        await body();
        await lock.unlock();
        return;
      case 'hold':
      case 'hold.run': {
        const hold = await lock.acquire(options);
        await (step.kind === 'hold' ? body() : hold.run(body));
        await hold.release();
      }
    }
  }

  #options({ wait }: Acquire): Parameters<Lock['acquire']>[0] & object {
    if (wait === 'forever') return { wait: Infinity };
    if (wait === 'not at all') return { wait: 0 };
    const aborter = new AbortController();
    void this.time.pass(wait).then(() => {
      aborter.abort();
    });
    return { wait: Infinity, signal: aborter.signal };
  }

  async #section(step: Acquire, lock: number, position: Position): Promise<void> {
    const { place, around, runs } = position;
    const section: Section = {
      lock,
      around,
      runs,
      ownerRun: step.kind === 'withLock' ? undefined : runs.at(-1),
      isOutermost: this.#isOutermost(lock),
      label: `${step.kind} ${String(lock)} #${String(++this.#lastSection)}`,
    };
    this.oracle.enter(section);
    await this.time.pass(1);
    const inside = { place: holding(place, lock, step.kind), around: [...around, section], runs };
    await this.steps(step.body, inside);
    this.oracle.leave(section);
  }

  /** Whoever re-enters has an owner that was inside before. (The count on the server is 1 again once the first one has left.) */
  #isOutermost(lock: number): boolean {
    const { ownerId } = this.#holdfast.getLock(String(lock)).toJSON();
    const entered = `${String(lock)} ${String(ownerId)}`;
    const isNew = !this.#entered.has(entered);
    this.#entered.add(entered);
    return isNew;
  }
}

async function execute({ steps, travels }: Program): Promise<number> {
  vi.clearAllTimers(); // of a program that failed: the next ones tell what is left of it, otherwise
  const holdfast = fakeHoldfast();
  const { server, told } = holdfast;
  const execution = new Execution(holdfast, travels);
  await execution.time.until(execution.steps(steps, { place: outermost, around: [], runs: [] }));
  await execution.time.until(execution.time.pass(100)); // wake-ups that nobody needs any more
  expect(server.heldNames).toEqual([]);
  expect(holdfast.holdfast.toJSON().heldCount).toBe(0);
  // Programs have branches of one run that lock() at the same time; there is no other warning.
  const warnings = told('warning').filter(
    ({ message }) => !message.includes('calls of one run overlap'),
  );
  expect([...told('lost'), ...warnings, ...told('error')]).toEqual([]);
  await execution.time.until(holdfast.holdfast.close());
  await execution.time.until(execution.time.pass(100)); // commands that are still under way
  expect(server.connectionCount).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
  return execution.oracle.entered;
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const numRuns = Number(process.env['HOLDFAST_PROPERTY_RUNS'] ?? 1_000);

it(`${String(numRuns)} random programs: exclusion holds, all end, nothing is left`, async () => {
  let sections = 0;
  await fc.assert(
    fc.asyncProperty(programs, async (program) => {
      sections += await execute(program);
    }),
    { numRuns },
  );
  expect(sections).toBeGreaterThan(numRuns); // they do acquire something
}, 600_000);
