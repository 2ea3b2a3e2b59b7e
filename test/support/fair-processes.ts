// Processes whose calls wait in the line of a fair lock: children/fair-waiter.ts, from the test's side.
import { expect } from 'vitest';
import type { HoldfastOptions } from '../../src/index.js';
import { startChild, type Child } from './child.js';
import type { FairLine } from './fair-line.js';

interface JoinOptions {
  /** How long it keeps the lock; left out: until it is told to release it. */
  readonly holdMs?: number;
  readonly wait?: number;
  readonly lease?: number;
}

/** Starts processes with one client each; they are connected when this resolves. */
export async function startFairProcesses(
  count: number,
  url: string,
  options: Partial<HoldfastOptions> = {},
): Promise<FairProcesses> {
  const all = Array.from({ length: count }, () => new FairProcess(url, options));
  await Promise.all(all.map((process) => process.connected()));
  return new FairProcesses(all);
}

/** So that they can be named; there are as many as were started. */
type Several = readonly FairProcess[] &
  readonly [FairProcess, FairProcess, FairProcess, FairProcess, FairProcess];

/** Disposed of together. */
export class FairProcesses implements AsyncDisposable {
  readonly all: Several;

  constructor(all: readonly FairProcess[]) {
    this.all = all as Several;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map(({ child }) => child.kill()));
  }
}

export class FairProcess {
  readonly child: Child;
  clientId = '';

  constructor(url: string, options: Partial<HoldfastOptions>) {
    this.child = startChild('fair-waiter.ts', {
      HOLDFAST_TEST_REDIS_URL: url,
      HOLDFAST_TEST_OPTIONS: JSON.stringify(options),
    });
  }

  async connected(): Promise<void> {
    const { clientId } = await this.child.next('ready', 60_000);
    this.clientId = String(clientId);
  }

  /** Calls acquire(), and does not wait for anything. */
  call(line: FairLine, label: string, options: JoinOptions = {}): void {
    this.child.send({ type: 'join', name: line.name, label, ...options });
  }

  /** Calls acquire(); resolves to the owner when it stands in line, which takes that the lock is held. */
  async join(line: FairLine, label: string, options: JoinOptions = {}): Promise<string> {
    return await line.joined(this.clientId, () => {
      this.call(line, label, options);
    });
  }

  /** When this call got the lock, in machineMs(). */
  async acquiredAtMs(label: string): Promise<number> {
    const { atMs } = await this.child.next(`acquired ${label}`);
    return Number(atMs);
  }

  release(label: string): void {
    this.child.send({ type: 'release', label });
  }

  abort(label: string): void {
    this.child.send({ type: 'abort', label });
  }

  /** The turn of this call when it is over, or the code of the error with which the call ended instead. */
  async ending(label: string): Promise<Turn | string> {
    const message = await this.child.next(`ended ${label}`, 60_000);
    return message['ownerId'] === undefined
      ? String(message['code'])
      : (message as unknown as Turn);
  }

  /** The turn of this call; throws if it gave up, or if its release failed. */
  async turn(label: string): Promise<Turn> {
    const ending = await this.ending(label);
    const code = typeof ending === 'string' ? ending : ending.code;
    if (typeof ending === 'string' || code) throw new Error(`${label} failed: ${String(code)}`);
    return ending;
  }
}

/** A call of a process, by its label. */
export interface ProcessCall {
  readonly process: FairProcess;
  readonly label: string;
}

/** How all these calls ended, in the same order; process by process, since each is listened to by one at a time. */
export async function endingsOf(calls: readonly ProcessCall[]): Promise<(Turn | string)[]> {
  const endings = new Map<ProcessCall, Turn | string>();
  const processes = [...new Set(calls.map(({ process }) => process))];
  await Promise.all(
    processes.map(async (process) => {
      for (const call of calls.filter((each) => each.process === process)) {
        endings.set(call, await process.ending(call.label));
      }
    }),
  );
  return calls.map((call) => endings.get(call)!);
}

/** One call of each process, in this order, labelled by its index. */
export async function joinAll(line: FairLine, { all }: FairProcesses): Promise<ProcessCall[]> {
  const calls = all.map((process, index) => ({ process, label: String(index) }));
  for (const { process, label } of calls) await process.join(line, label);
  return calls;
}

/** Each of these calls lets go as soon as it is its turn; resolves when all had theirs, waited for in this order. */
export async function turnsOneByOne(calls: readonly ProcessCall[]): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (const { process, label } of calls) {
    process.release(label);
    turns.push(await process.turn(label));
  }
  return turns;
}

// Who had a lock from when to when, in which process whatever: nobody while somebody else had it.

/** One caller's time with the lock, in machineMs(): as long as it believed that it held it, if it ever did. */
export interface Turn {
  readonly label: string;
  readonly ownerId: string;
  readonly fromMs: number | undefined;
  readonly untilMs: number | undefined;
  /** What its release failed with; undefined: it did not. */
  readonly code: string | undefined;
}

/** The labels in the order of their turns; fails when two turns overlap. */
export function orderOf(turns: readonly Turn[]): string[] {
  const believed = turns.filter((turn) => turn.fromMs !== undefined);
  const sorted = believed.sort((one, other) => one.fromMs! - other.fromMs!);
  for (const [index, turn] of sorted.entries()) {
    const before = sorted[index - 1];
    if (!before || before.untilMs! <= turn.fromMs!) continue;
    const overlapMs = before.untilMs! - turn.fromMs!;
    expect.fail(`${turn.label} came in ${overlapMs} ms before ${before.label} was out`);
  }
  return sorted.map(({ label }) => label);
}
