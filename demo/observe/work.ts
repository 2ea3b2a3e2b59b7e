// docker compose --profile observe up: three workers contend for a few locks, so that the dashboard has something to show. Their metrics
// are on port 9464.

import { setMaxListeners } from 'node:events';
import { fileURLToPath } from 'node:url';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { Holdfast, type HoldfastOptions, HoldfastError } from '../../src/index.js';
import { instrument } from '../../src/telemetry/opentelemetry.js';

const WORKERS = 3;

/** What each worker does at the same time. Two callers of one client hand locks over without Redis. */
const TASKS = [changeOrder, changeOrder, printTicket, askPartner, readCatalog, sendReport];
const PORT = 9464;

/** `orders:3` and `orders:7` are one family: a label for each order would be a time series for each order. */
export function lockLabel(lockName: string): string | undefined {
  return lockName.split(':')[0];
}

/** Lets the workers work until the signal aborts. Each is a client of its own, as if it were a process of its own. */
export async function work(redis: HoldfastOptions['redis'], until: AbortSignal): Promise<void> {
  setMaxListeners(0, until); // each pause listens
  const workers = Array.from({ length: WORKERS }, (_, index) => {
    // Leases of 6 s are renewed every 2 s.
    const options = { redis, clientId: `worker-${index + 1}`, lockWatchdogTimeout: 6_000 };
    const holdfast = new Holdfast(options);
    holdfast.on('error', ({ error }) => {
      console.error(error.message);
    });
    return holdfast;
  });
  await Promise.all([
    ...workers.flatMap((holdfast) =>
      TASKS.map((task) => repeat(() => task(holdfast, until), until)),
    ),
    repeat(() => takeAway(workers[0]!, until), until),
  ]);
  await Promise.all(workers.map((holdfast) => holdfast.close()));
}

/** A plain lock for each of a few orders. Who waits for more than 200 ms gives up. */
async function changeOrder(holdfast: Holdfast, until: AbortSignal): Promise<void> {
  const order = Math.floor(random(0, 4));
  await holdfast
    .getLock(`orders:${order}`)
    .withLock({ wait: 200 }, () => pause(random(20, 120), until));
  await pause(random(0, 100), until);
}

/** One fair lock, handed over from worker to worker. */
async function printTicket(holdfast: Holdfast, until: AbortSignal): Promise<void> {
  await holdfast.getFairLock('tickets').withLock(() => pause(random(5, 50), until));
}

/** Two callers at a time, over all workers. */
async function askPartner(holdfast: Holdfast, until: AbortSignal): Promise<void> {
  const partner = holdfast.getSemaphore('partner', { permits: 2 });
  await partner.withPermits(() => pause(random(50, 300), until));
}

/** Many readers, and now and then a writer. */
async function readCatalog(holdfast: Holdfast, until: AbortSignal): Promise<void> {
  const catalog = holdfast.getReadWriteLock('catalog');
  const half = Math.random() < 0.1 ? catalog.writeLock() : catalog.readLock();
  await half.withLock(() => pause(random(10, 200), until));
}

/** A long task of one worker, which renews its lock; the others do not wait for it. */
async function sendReport(holdfast: Holdfast, until: AbortSignal): Promise<void> {
  await using hold = await holdfast.getLock('report').tryAcquire();
  await pause(hold ? random(3_000, 10_000) : 1_000, until);
}

/** Every half a minute somebody takes the report's lock from its holder. */
async function takeAway(holdfast: Holdfast, until: AbortSignal): Promise<void> {
  await pause(30_000, until);
  if (!until.aborted) await holdfast.getLock('report').forceUnlock();
}

/** A refusal or a loss is what the dashboard shows: the worker goes on. */
async function repeat(task: () => Promise<void>, until: AbortSignal): Promise<void> {
  while (!until.aborted)
    try {
      await task();
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
    }
}

function random(least: number, most: number): number {
  return least + Math.random() * (most - least);
}

/** Sleeps, and wakes up early when the work is over. */
function pause(ms: number, until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      until.removeEventListener('abort', wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    if (until.aborted) wake();
    else until.addEventListener('abort', wake);
  });
}

async function main(): Promise<void> {
  const readers = [new PrometheusExporter({ port: PORT })];
  const meterProvider = new MeterProvider({ readers });
  instrument(undefined, { meterProvider, lockLabel });
  const ended = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      ended.abort();
    });
  console.log(`metrics: http://localhost:${PORT}/metrics`);
  await work(process.env['REDIS_URL'] ?? 'redis://localhost:6379', ended.signal);
  await meterProvider.shutdown();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
