// One worker process of the demo: repeats transfers or sums, and reports to the main process what it is doing.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  Holdfast,
  LockLostError,
  LockTimeoutError,
  QuorumError,
  type Hold,
  type Lock,
} from '../src/index.js';
import { Bank } from './support/bank.js';
import {
  BANK_PREFIX,
  BANK_URL,
  CLIENT_ID,
  KEEP_MS,
  LOCK_WATCHDOG_TIMEOUT_MS,
  MASTER_URLS,
  monotonicMs,
  type LockKind,
  type Order,
  type Report,
  type Task,
} from './support/messages.js';

/** How long a transfer thinks: under the fair lock long enough for viewers to see the line move. */
const THINK_MS: Record<LockKind, [number, number]> = {
  none: [10, 30],
  reentrant: [10, 30],
  kept: [10, 30],
  fair: [100, 300],
  redlock: [10, 30],
  fenced: [10, 30],
  'read-write': [10, 30],
};

/** Between the steps of a sum and of a transfer in two steps: long enough for viewers to see who is inside. */
const LINGER_MS: [number, number] = [30, 90];

/** How long to rest after a task: a reader never pauses. */
const REST_MS: Record<Task, [number, number]> = {
  transfer: [5, 15],
  visit: [60_000, 60_000], // until it is told to hurry
  pairs: [0, 0],
  write: [300, 900],
  read: [0, 0],
};

/** After that a worker that was told to hurry goes on. */
const HURRIED_REST_MS: [number, number] = [5, 15];

/** When a visitor comes for the first time. */
const VISIT_AFTER_MS: [number, number] = [1_900, 2_100];

/** For how long it takes and releases the lock before it transfers money. */
const PAIRING_MS = 100;

/** How long it waits for a Redlock before it reports why it has none. */
const REDLOCK_PATIENCE_MS = 1_000;

const url = process.env[BANK_URL]!;
const prefix = process.env[BANK_PREFIX]!;
const bank = new Bank(url, prefix);
const holdfast = new Holdfast({
  redis: url,
  keyPrefix: prefix,
  clientId: process.env[CLIENT_ID]!,
  lockWatchdogTimeout: LOCK_WATCHDOG_TIMEOUT_MS,
  wait: Infinity,
});
const readWriteLock = holdfast.getReadWriteLock('bank');
const locks: Record<Exclude<LockKind, 'read-write'>, Lock | undefined> = {
  none: undefined,
  reentrant: holdfast.getLock('bank'),
  kept: holdfast.getLock('bank', { keep: KEEP_MS }),
  fair: holdfast.getFairLock('bank'),
  fenced: holdfast.getFencedLock('bank'),
  redlock: redLockOn((process.env[MASTER_URLS] ?? '').split(' ').filter(Boolean)),
};

const DO: Record<Task, (thinkMs: [number, number], hold?: Hold) => Promise<void>> = {
  transfer,
  visit: transfer,
  pairs: transfer,
  write,
  read,
};

let working: Promise<void> | undefined;
let shallStop = false;
let shallLeaveItKept = false;
let isHurried = false;
/** Ends the present rest. */
let wake = new AbortController();
/** How long to stop in the middle of the next task, and where. */
let dawdle: { readonly forMs: number; readonly hasLooked: boolean } | undefined;

async function work(kind: LockKind, task: Task): Promise<void> {
  const lock = lockFor(kind, task);
  if (task === 'visit') await rest(VISIT_AFTER_MS);
  while (!shallStop) {
    if (lock && task === 'pairs' && (await pair(lock))) return;
    if (lock) await workUnder(lock, kind, task);
    else await DO[task](THINK_MS[kind]);
    await rest(isHurried ? HURRIED_REST_MS : REST_MS[task]);
  }
}

async function rest(forMs: [number, number]): Promise<void> {
  await sleep(between(...forMs), undefined, { signal: wake.signal }).catch(() => undefined);
}

/** Takes and releases the lock again and again. True: it shall leave the lock kept, and does. */
async function pair(lock: Lock): Promise<boolean> {
  const startMs = monotonicMs();
  let count = 0;
  do {
    const hold = await lock.acquire();
    await hold.release();
    count++;
  } while (monotonicMs() - startMs < PAIRING_MS);
  tell({ type: 'paired', count, forMs: monotonicMs() - startMs });
  if (!shallLeaveItKept || lock.toJSON().state !== 'kept by this client') return false;
  tell({ type: 'keeps' });
  return true;
}

function lockFor(kind: LockKind, task: Task): Lock | undefined {
  if (kind !== 'read-write') return locks[kind];
  return task === 'read' ? readWriteLock.readLock() : readWriteLock.writeLock();
}

async function workUnder(lock: Lock, kind: LockKind, task: Task): Promise<void> {
  tell({ type: 'waits' });
  const askedAtMs = monotonicMs();
  try {
    const wait = kind === 'redlock' ? REDLOCK_PATIENCE_MS : Infinity;
    await lock.withLock({ wait }, async (hold) => {
      const atMs = monotonicMs();
      const token = hold.token?.toString();
      tell({ type: 'holds', ownerId: hold.ownerId, atMs, waitedMs: atMs - askedAtMs, token });
      await DO[task](THINK_MS[kind], hold);
    });
  } catch (error) {
    if (error instanceof QuorumError) {
      tell({ type: 'no quorum', message: error.message, nodes: error.nodes });
      return;
    }
    // Lost: it was frozen for longer than the lease, and cancelled the transfer before the write.
    if (!(error instanceof LockLostError || error instanceof LockTimeoutError)) throw error;
  }
}

async function transfer(thinkMs: [number, number], hold?: Hold): Promise<void> {
  const token = hold?.token?.toString();
  const number = await bank.transfer(async () => {
    await sleep(between(...thinkMs));
    await stopIfTold(false);
    hold?.assertHeld();
    await stopIfTold(true);
  }, token);
  if (number !== undefined) tell({ type: 'transferred', number, atMs: monotonicMs() });
  else tell({ type: 'refused', token: token! });
}

/** A worker that adds up between the two steps gets a wrong sum. */
async function write(thinkMs: [number, number], hold?: Hold): Promise<void> {
  const number = await bank.transferInSteps(async () => {
    await sleep(between(...thinkMs));
    await stopIfTold(false);
    hold?.assertHeld();
  }, linger);
  tell({ type: 'transferred', number, atMs: monotonicMs() });
}

async function read(): Promise<void> {
  await stopIfTold(false);
  const sumCents = await bank.sum(linger);
  tell({ type: 'read', sumCents, atMs: monotonicMs() });
}

async function linger(): Promise<void> {
  await sleep(between(...LINGER_MS));
}

/** `hasLooked`: whether the write follows without a further check of the lock. */
async function stopIfTold(hasLooked: boolean): Promise<void> {
  if (dawdle?.hasLooked !== hasLooked) return;
  const { forMs } = dawdle;
  dawdle = undefined;
  tell({ type: 'midway' });
  await sleep(forMs);
}

/** One lock on all of these masters, each with a client of its own; undefined without masters. */
function redLockOn(masters: readonly string[]): Lock | undefined {
  const members = masters.map((redis) => {
    const lockWatchdogTimeout = LOCK_WATCHDOG_TIMEOUT_MS;
    return new Holdfast({ redis, keyPrefix: prefix, lockWatchdogTimeout }).getLock('bank');
  });
  return members.length > 0 ? holdfast.getRedLock(...members) : undefined;
}

async function obey(order: Order): Promise<void> {
  switch (order.type) {
    case 'work':
      shallStop = shallLeaveItKept = isHurried = false;
      wake = new AbortController();
      working = work(order.lock, order.task);
      await working;
      break;
    case 'dawdle':
      dawdle = order;
      break;
    case 'leave it kept':
      shallLeaveItKept = true;
      break;
    case 'hurry':
      isHurried = true;
      wake.abort();
      wake = new AbortController();
      break;
    case 'stop':
      shallStop = true;
      wake.abort();
      await working;
      tell({ type: 'stopped' });
      break;
  }
}

function tell(report: Report): void {
  process.send?.(report);
}

function between(lowest: number, highest: number): number {
  return lowest + Math.random() * (highest - lowest);
}

process.on('message', (order: Order) => {
  obey(order).catch((error: unknown) => {
    tell({ type: 'failed', message: String(error) });
  });
});
process.on('SIGINT', () => undefined); // Ctrl-C reaches the whole group; the main process ends the workers
process.on('disconnect', () => process.exit());
await bank.accounts();
await locks.reentrant!.isLocked();
await locks.redlock?.withLock(() => undefined); // resolves once the masters have been up long enough to vote
tell({ type: 'ready' });
