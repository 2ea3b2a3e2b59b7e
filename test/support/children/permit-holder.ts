// A process that takes permits of a semaphore again and again, and counts in Redis how many are in use: each section adds its permits
// to a counter, looks at it, and takes them away again.
//
// Environment: HOLDFAST_TEST_REDIS_URL (for holdfast), HOLDFAST_TEST_COUNTER_URL (for the counter), HOLDFAST_TEST_OPTIONS (JSON)
// At once  ->  ready
// start {name, permits, callers}
// once {name, permits, want, lease?}
//          ->  held {ownerId, atMs}
// stop     ->  stopped {sections, lost, most}: how many sections there were, how many were lost, and the most permits seen in use
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast, LockLostError, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';
import { eventually, machineMs } from '../time.js';
import { enterSection } from '../inside-oracle.js';

const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  commandTimeout: 10_000, // for a busy machine
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});
holdfast.on('error', () => undefined); // what goes wrong on the way is meant to
const counter = new Redis(process.env['HOLDFAST_TEST_COUNTER_URL'] ?? '');
let isStopping = false;
let sections = 0;
let lost = 0;
let most = 0;
const callers: Promise<void>[] = [];

onMessage(async (message) => {
  const { type, name, permits } = message as unknown as Message;
  if (type === 'start') {
    const { callers: count } = message as unknown as Message;
    for (let i = 0; i < count; i++) callers.push(call(name, permits, 1 + (i % 3)));
  } else if (type === 'once') {
    const { want, lease } = message as unknown as Message;
    const options = { permits: want, lease };
    const hold = await holdfast.getSemaphore(name, { permits }).acquire(options);
    tell('held', { ownerId: hold.ownerId, atMs: machineMs() });
  } else {
    isStopping = true;
    await Promise.all(callers);
    await holdfast.close();
    counter.disconnect();
    tell('stopped', { sections, lost, most });
    stopListening();
  }
});
await eventually(() => holdfast.getLock('connected').isLocked());
tell('ready');

interface Message {
  readonly type: string;
  readonly name: string;
  readonly permits: number;
  readonly callers: number;
  readonly want: number;
  readonly lease?: number;
}

async function call(name: string, permits: number, want: number): Promise<void> {
  const semaphore = holdfast.getSemaphore(name, { permits });
  while (!isStopping) {
    try {
      await semaphore.withPermits({ permits: want, wait: 20_000 }, async (hold) => {
        const used = await enterSection(counter, name, hold);
        most = Math.max(most, used);
        await sleep(5 * Math.random());
        await counter.zrem(`${name}:inside`, hold.ownerId);
        sections++;
      });
    } catch (error) {
      if (error instanceof LockLostError) lost++;
      else await sleep(20);
    }
  }
}
