// npm run demo: worker processes transfer money in one Redis, first without locks, then under holdfast, where one of
// them is killed while it holds the lock.

import { randomBytes } from 'node:crypto';
import { givenRedis } from '../test/support/given-redis.js';
import { Bank } from './bank.js';
import { Crew } from './crew.js';
import { BANK_PREFIX, BANK_URL } from './messages.js';
import { Phase, type PhasePlan } from './phase.js';
import { report, verdict } from './report.js';
import { createView } from './view.js';

const WORKERS = 5;

const WITHOUT_LOCKS: PhasePlan = {
  title: '1 of 2: without locks',
  explanation:
    `${WORKERS} processes each read two balances, think for 10 to 30 ms, write both back.
` + 'Money vanishes, or comes from nowhere.',
  underLock: false,
  durationMs: 7_000,
};

const UNDER_HOLDFAST: PhasePlan = {
  title: '2 of 2: under holdfast, await lock.withLock(transfer)',
  explanation:
    'The same, one at a time. After 4 s the process that holds the lock is killed\n' +
    'in the middle of a transfer.',
  underLock: true,
  durationMs: 14_000,
  killAfterMs: 4_000,
};

async function demo(signal: AbortSignal): Promise<boolean> {
  await using redis = await givenRedis();
  const prefix = `demo:${randomBytes(4).toString('hex')}:`;
  const bank = new Bank(redis.url, prefix);
  try {
    return await bothPhases(redis.url, prefix, bank, signal);
  } finally {
    await bank.clear().catch(() => undefined); // the server is gone: so are the accounts
    bank.disconnect();
  }
}

async function bothPhases(
  url: string,
  prefix: string,
  bank: Bank,
  signal: AbortSignal,
): Promise<boolean> {
  console.log(`holdfast demo on ${withoutPassword(url)}: starting ${WORKERS} processes`);
  await using crew = new Crew(WORKERS, { [BANK_URL]: url, [BANK_PREFIX]: prefix });
  await untilAborted(crew.all('ready'), signal);
  const view = createView();
  try {
    const bare = await new Phase(WITHOUT_LOCKS, crew, bank, view).run(signal);
    const locked = await new Phase(UNDER_HOLDFAST, crew, bank, view).run(signal);
    const { isGood, text } = verdict(locked);
    console.log(`${report(bare, locked)}\n${text}`);
    return isGood;
  } finally {
    view.close();
  }
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/.*@/, '//');
}

async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
    promise.then(resolve, reject);
  });
}

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    interrupted.abort();
  });
}

try {
  process.exitCode = (await demo(interrupted.signal)) ? 0 : 1;
} catch (error) {
  if (!interrupted.signal.aborted) console.error('the demo failed:', error);
  process.exitCode = interrupted.signal.aborted ? 130 : 1;
}
