// A process that edits a document as the recipe does, and takes as long for it as the test says.
//
// Environment: HOLDFAST_TEST_REDIS_URL, HOLDFAST_TEST_DOCUMENT, HOLDFAST_TEST_LEASE (milliseconds).
// Once it has the lock  ->  editing
// finish {text}         ->  written, or failed {message}: then the process ends by itself
import { Redis } from 'ioredis';
import { Holdfast } from '../../../src/index.js';
import { edit } from '../../recipes/fencing.js';
import { onMessage, stopListening, tell } from '../child-messages.js';

const url = process.env['HOLDFAST_TEST_REDIS_URL'] ?? '';
const holdfast = new Holdfast({
  redis: url,
  lockWatchdogTimeout: Number(process.env['HOLDFAST_TEST_LEASE']),
  wait: Infinity,
});
const redis = new Redis(url);

const finished = new Promise<string>((resolve) => {
  onMessage(({ text }) => {
    resolve(String(text));
  });
});

try {
  await edit(holdfast, redis, process.env['HOLDFAST_TEST_DOCUMENT'] ?? '', async (before) => {
    tell('editing', { before });
    return before + (await finished);
  });
  tell('written');
} catch (error) {
  tell('failed', { message: (error as Error).message });
} finally {
  await holdfast.close();
  redis.disconnect();
  stopListening();
}
