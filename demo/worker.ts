// One worker process of the demo: transfers money over and over, and tells the main process what it is doing.

import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast, LockLostError } from '../src/index.js';
import { Bank } from './bank.js';
import { BANK_PREFIX, BANK_URL, type Order, type Report } from './messages.js';

/** Short, so that nobody has to wait long for the lock of a dead process. */
const LOCK_WATCHDOG_TIMEOUT_MS = 3_000;

const url = process.env[BANK_URL]!;
const prefix = process.env[BANK_PREFIX]!;
const bank = new Bank(url, prefix);
const holdfast = new Holdfast({
  redis: url,
  keyPrefix: prefix,
  lockWatchdogTimeout: LOCK_WATCHDOG_TIMEOUT_MS,
});
const lock = holdfast.getLock('bank');

let working: Promise<void> | undefined;
let shallStop = false;
let shallDawdle = false;

async function work(underLock: boolean): Promise<void> {
  while (!shallStop) {
    if (underLock) await transferUnderLock();
    else await transfer();
    await sleep(between(5, 15));
  }
}

async function transferUnderLock(): Promise<void> {
  tell({ type: 'waits' });
  const askedAtMs = performance.now();
  try {
    await lock.withLock(async (hold) => {
      tell({ type: 'holds', waitedMs: performance.now() - askedAtMs });
      await transfer(hold.signal);
    });
  } catch (error) {
    // Frozen for longer than the lease: the transfer was given up before it was written.
    if (!(error instanceof LockLostError)) throw error;
  }
}

async function transfer(signal?: AbortSignal): Promise<void> {
  const number = await bank.transfer(async () => {
    await sleep(between(10, 30));
    if (shallDawdle) {
      tell({ type: 'midway' });
      await sleep(60_000);
    }
    signal?.throwIfAborted();
  });
  tell({ type: 'transferred', number });
}

async function obey(order: Order): Promise<void> {
  switch (order.type) {
    case 'work':
      shallStop = false;
      working = work(order.underLock);
      await working;
      break;
    case 'dawdle':
      shallDawdle = true;
      break;
    case 'stop':
      shallStop = true;
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
process.on('SIGINT', () => undefined); // Ctrl-C reaches the whole group; the main process ends us
process.on('disconnect', () => process.exit());
await bank.accounts();
await lock.isLocked();
tell({ type: 'ready' });
