// A process that waits for permits of a semaphore, and keeps them.
//
// Environment: HOLDFAST_TEST_REDIS_URL, HOLDFAST_TEST_OPTIONS (JSON)
// At once  ->  ready
// wait {name, permits, want}
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, tell } from '../child-messages.js';
import { eventually } from '../time.js';

const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  commandTimeout: 10_000, // for a busy machine
  wait: Infinity,
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});

onMessage(async (message) => {
  const { name, permits, want } = message as unknown as Message;
  await holdfast.getSemaphore(name, { permits }).acquire({ permits: want });
});
await eventually(() => holdfast.getLock('connected').isLocked());
tell('ready');

interface Message {
  readonly name: string;
  readonly permits: number;
  readonly want: number;
}
