// A process that holds 500 locks and listens to nothing: no events, no signals.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_OPTIONS (JSON, further options of the client).
// At once   ->  acquired, and when none is held any more: lost all {lost}
// close     ->  the process ends by itself
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';

const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  wait: Infinity,
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});
onMessage(async () => {
  await holdfast.close();
  stopListening();
});

const names = Array.from({ length: 500 }, (_, i) => `silent:${i}`);
const holds = await Promise.all(names.map((name) => holdfast.getLock(name).acquire()));
tell('acquired');
const looking = setInterval(() => {
  const lost = holds.filter((hold) => hold.remaining() === 0).length;
  if (lost < holds.length) return;
  clearInterval(looking);
  tell('lost all', { lost });
}, 10);
