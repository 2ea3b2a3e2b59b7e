// The verb run: takes a lock, runs a command while it is held, and ends it when the lock is lost.

import { spawn, type ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockAbortedError, LockLostError, LockTimeoutError } from '../api/errors.js';
import type { Hold } from '../api/lock.js';
import type { AcquireOptions } from '../api/options.js';
import type { Holdfast } from '../holdfast.js';
import { durationOf, inWords, type Verb, wholeNumberOf, withClient } from './command.js';
import { CommandError, EXIT } from './failure.js';
import { warn } from './terminal.js';
import type { Values } from './where.js';

/** How long before the end of a lease that is not renewed the command is asked to end, in milliseconds. */
const GRACE_MS = 5_000;

/** A longer one, and a lease that is renewed every third of 30 s would look like one that is not. */
const LONGEST_GRACE_MS = 15_000;

/** How often the lease is looked at, in milliseconds. */
const LOOK_EVERY_MS = 100;

/** How often the server is asked whether the lock was forced out, in milliseconds: a renewal may be ten seconds away. */
const ASK_EVERY_MS = 1_000;
const ASK_FOR_MS = 100;

/** How long a signal may take to end what the command has started, counted from the command's own end, in milliseconds. */
const LEFT_BEHIND_MS = 5_000;

/** These end a wait for the lock. They are passed on to all processes of the command. */
const ENDING: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];

/** These are passed on to the command only: the processes that it has started may not handle them, and would end. */
const OWN: readonly NodeJS.Signals[] = ['SIGUSR1', 'SIGUSR2'];

/** All that are handled. While `run` is stopped it renews nothing, so its command is stopped with it. */
const HANDLED: readonly NodeJS.Signals[] = [...ENDING, ...OWN, 'SIGTSTP', 'SIGCONT'];

/** How long Redis may take to answer the one attempt of a run that does not wait, in milliseconds. */
const AT_ONCE_MS = 2_000;

const HAS_PROCESS_GROUPS = process.platform !== 'win32';

export const run: Verb = {
  usage: 'run NAME [options] -- COMMAND …',
  summary: 'runs a command while it holds a lock; exits as the command does',
  details: `The lock is renewed until the command ends. If it cannot be renewed, the command gets SIGTERM when less than --grace is left of
its lease, and SIGKILL at the end. If the lock was forced out, it gets SIGKILL within about a second. There is no shell: for a pipe,
run sh -c '…'. The command and all that it starts are a process group of their own, which gets these signals and those that run
itself gets; the command has no controlling terminal. Its environment has HOLDFAST_LOCK, and with --fenced HOLDFAST_TOKEN. A run
that is killed itself (SIGKILL) leaves its command alone: the lock is free when its lease ends, and the command works on.`,
  options: {
    nonblock: {
      type: 'boolean',
      short: 'n',
      help: 'do not wait: one attempt, exit 75 if it is held',
    },
    wait: {
      type: 'string',
      short: 'w',
      help: 'wait for at most so long, such as 30s, also while Redis is away; without it, for ever',
    },
    shared: { type: 'boolean', short: 's', help: 'as a reader of a read-write lock' },
    exclusive: { type: 'boolean', short: 'x', help: 'as its writer' },
    permits: { type: 'string', help: 'one permit of a semaphore that has so many' },
    fair: { type: 'boolean', help: 'first come, first served' },
    fenced: { type: 'boolean', help: 'with a fencing token, in $HOLDFAST_TOKEN' },
    lease: { type: 'string', help: 'the lock ends after so long, such as 10m, without renewal' },
    'conflict-exit-code': { type: 'string', short: 'E', help: 'instead of 75' },
    grace: { type: 'string', help: `such as 10s (${inWords(GRACE_MS)}, or a third of --lease)` },
  },
  positionals: { least: 1, most: 1 },
  exits: {
    '0': 'the command has exited with 0; any other code may be its own, too',
    '65': 'the key exists but is not a lock',
    '69': 'Redis is not available, or denies a command; nothing was run',
    '75': 'another owner has the lock; nothing was run',
    '76': 'the lock was lost, and the command was ended',
    '126, 127': 'the command cannot be run, or is not found',
    '128 + n': 'the command was ended by signal n, or run was while it waited',
  },
  takesCommand: true,
  run: ({ values, positionals: [name = ''], command }) => {
    const options = optionsOf(values);
    return withClient(
      values,
      (holdfast) => runWhileHeld(holdfast, name, options, command),
      options.waitMs === 0 ? { commandTimeout: AT_ONCE_MS } : {},
    );
  },
};

interface RunOptions {
  readonly kind: 'lock' | 'reader' | 'writer' | 'semaphore';
  readonly permits: number;
  readonly isFair: boolean;
  readonly isFenced: boolean;
  readonly waitMs: number;
  readonly leaseMs: number | undefined;
  readonly graceMs: number;
  readonly busyExitCode: number;
}

function optionsOf(values: Values): RunOptions {
  const permits = wholeNumberOf(values, 'permits', 1);
  const kinds: Exclude<RunOptions['kind'], 'lock'>[] = [];
  if (values['shared'] === true) kinds.push('reader');
  if (values['exclusive'] === true) kinds.push('writer');
  if (permits !== undefined) kinds.push('semaphore');
  if (kinds.length > 1) throw new CommandError('give one of --shared, --exclusive and --permits');
  const kind: RunOptions['kind'] = kinds[0] ?? 'lock';
  const [isFair, isFenced] = [values['fair'] === true, values['fenced'] === true];
  if (kind !== 'lock' && isFenced)
    throw new CommandError(`--fenced is of plain locks: a ${kind} has no token`);
  if (kind !== 'lock' && isFair)
    throw new CommandError(`--fair is of plain locks: a ${kind} always waits in line`);
  const waitMs = durationOf(values, 'wait', 0);
  if (waitMs !== undefined && values['nonblock'] === true)
    throw new CommandError('give one of --nonblock and --wait');
  const leaseMs = durationOf(values, 'lease', 1);
  const graceMs = durationOf(values, 'grace', 0);
  if (graceMs !== undefined && leaseMs === undefined && graceMs > LONGEST_GRACE_MS)
    throw new CommandError(
      `--grace is "${String(values['grace'])}": for a lock that is renewed it must be at most ${String(LONGEST_GRACE_MS / 1_000)}s`,
    );
  const busyExitCode = wholeNumberOf(values, 'conflict-exit-code', 0) ?? EXIT.busy;
  if (busyExitCode > 255)
    throw new CommandError(
      `--conflict-exit-code is ${String(busyExitCode)}: it must be at most 255`,
    );
  return {
    kind,
    permits: permits ?? 1,
    isFair,
    isFenced,
    waitMs: values['nonblock'] === true ? 0 : (waitMs ?? Infinity),
    leaseMs,
    graceMs: graceMs ?? Math.min(GRACE_MS, (leaseMs ?? Infinity) / 3),
    busyExitCode,
  };
}

/** What a hold of any kind has. */
type Held = Pick<Hold, 'signal' | 'token' | 'remaining' | 'extend' | 'release'>;

async function runWhileHeld(
  holdfast: Holdfast,
  name: string,
  options: RunOptions,
  command: readonly string[],
): Promise<number> {
  const received = new Signals();
  let isHeld = false;
  holdfast.on('error', ({ error }) => {
    // Without a wait, the error of the attempt says the same.
    if (isHeld || options.waitMs > 0) warn(error.message);
  });
  try {
    const hold = await acquire(holdfast, name, options, received.abort);
    isHeld = true;
    if (received.first) {
      await release(hold);
      return numberOfSignal(received.first);
    }
    let exitCode: number;
    try {
      exitCode = await runCommand(
        command,
        hold,
        environmentOf(name, hold),
        options.graceMs,
        received,
      );
    } finally {
      await release(hold);
    }
    const { reason } = hold.signal as { reason: unknown };
    if (!hold.signal.aborted) return exitCode;
    throw new CommandError(
      reason instanceof Error ? reason.message : 'the lock was lost',
      EXIT.lost,
    );
  } catch (error) {
    if (error instanceof LockTimeoutError)
      throw new CommandError(error.message, options.busyExitCode);
    if (error instanceof LockAbortedError && received.first) return numberOfSignal(received.first);
    throw error;
  } finally {
    received.stop();
  }
}

async function acquire(
  holdfast: Holdfast,
  name: string,
  { kind, permits, isFair, isFenced, waitMs: wait, leaseMs: lease }: RunOptions,
  signal: AbortSignal,
): Promise<Held> {
  const how: AcquireOptions = { wait, lease, signal, label: 'npx holdfast run' };
  const lock = ((): Lockable => {
    if (kind === 'semaphore') return holdfast.getSemaphore(name, { permits });
    if (kind === 'reader') return holdfast.getReadWriteLock(name).readLock();
    if (kind === 'writer') return holdfast.getReadWriteLock(name).writeLock();
    if (isFenced) return holdfast.getFencedLock(name, { fair: isFair });
    return isFair ? holdfast.getFairLock(name) : holdfast.getLock(name);
  })();
  return await lock.acquire(how);
}

/** What all locks, and semaphores, have. */
interface Lockable {
  acquire(options: AcquireOptions): Promise<Held>;
  tryAcquire(options: AcquireOptions): Promise<Held | undefined>;
}

/** A loss is told by the hold's signal; without an answer, the lock ends with its lease. */
async function release(hold: Held): Promise<void> {
  try {
    await hold.release();
  } catch (error) {
    if (!(error instanceof LockLostError)) warn((error as Error).message);
  }
}

function environmentOf(name: string, { token }: Held): NodeJS.ProcessEnv {
  return {
    ...process.env,
    HOLDFAST_LOCK: name,
    HOLDFAST_TOKEN: token === undefined ? undefined : String(token), // not that of a run around this one
  };
}

/** Resolves with the exit code when the command has ended. */
function runCommand(
  [file = '', ...args]: readonly string[],
  hold: Held,
  env: NodeJS.ProcessEnv,
  graceMs: number,
  received: Signals,
): Promise<number> {
  if (hold.remaining() <= 0)
    throw new CommandError('the lock was lost before the command was started', EXIT.lost);
  return new Promise((resolve, reject) => {
    const child = started(file, args, env);
    const kill = (): void => {
      signalAll(child, 'SIGKILL');
    };
    // By its end, the lock may be another's.
    hold.signal.addEventListener('abort', kill, { once: true });
    let isAsked = false;
    let hasToEnd = false;
    const look = setInterval(() => {
      const leftMs = hold.remaining(); // notices the end of the lease
      if (isAsked || leftMs > graceMs || hold.signal.aborted) return;
      isAsked = true;
      // (The exit code is then that of a lost lock, also if the command is quick.)
      warn(`the lease ends in ${inWords(leftMs)} and is not renewed: the command gets SIGTERM`);
      signalAll(child, 'SIGTERM');
    }, LOOK_EVERY_MS);
    const ask = setInterval(() => {
      // The lease is longer than this, so nothing is extended. If the lock is lost, the hold's signal says so.
      if (hold.remaining() > ASK_FOR_MS) hold.extend(ASK_FOR_MS).catch(() => undefined);
    }, ASK_EVERY_MS);
    received.passTo((signal) => {
      hasToEnd ||= ENDING.includes(signal);
      // A command that was stopped until its lease had ended must not go on.
      if (signal === 'SIGCONT' && hold.remaining() <= 0) kill();
      else if (OWN.includes(signal)) child.kill(signal);
      else signalAll(child, signal);
    });
    const over = (): void => {
      clearInterval(look);
      clearInterval(ask);
      hold.signal.removeEventListener('abort', kill);
    };
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return; // a signal could not be sent: it has just ended
      over();
      const isMissing = error.code === 'ENOENT';
      const why = isMissing ? 'is not found' : `cannot be run (${error.code ?? error.message})`;
      reject(new CommandError(`the command "${file}" ${why}`, isMissing ? 127 : 126));
    });
    child.on('exit', (code, signal) => {
      const exitCode = code ?? (signal ? numberOfSignal(signal) : EXIT.internal);
      const end = isAsked || hasToEnd ? othersEnded(child, hold) : Promise.resolve();
      void end.then(() => {
        over();
        resolve(isAsked ? EXIT.lost : exitCode);
      });
    });
  });
}

/** @throws CommandError the system refuses the command at once, as if its arguments are too long */
function started(file: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  try {
    return spawn(file, args, { stdio: 'inherit', env, detached: HAS_PROCESS_GROUPS });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new CommandError(`the command "${file}" cannot be run (${code ?? message})`, 126);
  }
}

/** Sends a signal to the command and to all that it has started. Returns false if all of them have ended. */
function signalAll(child: ChildProcess, signal: NodeJS.Signals | 0): boolean {
  const { pid } = child;
  if (pid === undefined || !HAS_PROCESS_GROUPS) return child.kill(signal);
  try {
    return process.kill(-pid, signal);
  } catch {
    return isOfOthers(child);
  }
}

/** Whether processes of the command are left that may not be signalled, since they run as another user (by sudo). */
function isOfOthers({ pid }: ChildProcess): boolean {
  if (pid === undefined || !HAS_PROCESS_GROUPS) return false;
  try {
    process.kill(-pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Resolves when all that the command has started has ended, too: until then, it needs the lock. After `LEFT_BEHIND_MS` it is killed. What may
 * not be killed is waited for.
 */
async function othersEnded(child: ChildProcess, hold: Held): Promise<void> {
  const endsAtMs = performance.now() + LEFT_BEHIND_MS;
  while (signalAll(child, 0) && performance.now() < endsAtMs && !hold.signal.aborted)
    await sleep(LOOK_EVERY_MS / 5);
  signalAll(child, 'SIGKILL');
  for (let isWarned = false; isOfOthers(child) && !hold.signal.aborted; isWarned = true) {
    if (!isWarned) warn('a process of the command runs as another user, and cannot be ended here');
    await sleep(LOOK_EVERY_MS);
  }
}

function numberOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/** The signals that this process gets: while it waits for the lock they end the wait, then they are passed on to the command. */
class Signals {
  first: NodeJS.Signals | undefined;
  readonly #aborter = new AbortController();
  #pass: ((signal: NodeJS.Signals) => void) | undefined;

  constructor() {
    for (const signal of HANDLED) process.on(signal, this.#received);
  }

  get abort(): AbortSignal {
    return this.#aborter.signal;
  }

  passTo(pass: (signal: NodeJS.Signals) => void): void {
    this.#pass = pass;
    // It came after the lock was acquired, and before the command was there.
    if (this.first) pass(this.first);
  }

  stop(): void {
    for (const signal of HANDLED) process.off(signal, this.#received);
  }

  readonly #received = (signal: NodeJS.Signals): void => {
    if (signal === 'SIGTSTP') {
      this.#pass?.('SIGSTOP');
      process.kill(process.pid, 'SIGSTOP');
      return;
    }
    if (signal !== 'SIGCONT') {
      this.first ??= signal;
      this.#aborter.abort();
    }
    this.#pass?.(signal);
  };
}
