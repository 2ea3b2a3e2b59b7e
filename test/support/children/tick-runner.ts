// A process that runs ticks of a schedule by the cron recipe.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_NAME (of the schedule).
// tick {at}         ->  ticked {runs}, how often the task was run here
// close             ->  closed; then the process ends by itself
// Whatever fails    ->  failed {name, message, code}
import { Redis } from 'ioredis';
import { Holdfast } from '../../../src/index.js';
import { runTick } from '../../recipes/cron-tick.js';
import { onMessage, stopListening, tell } from '../child-messages.js';

const url = process.env['HOLDFAST_TEST_REDIS_URL']!;
const name = process.env['HOLDFAST_TEST_NAME']!;
const holdfast = new Holdfast({ redis: url });
const redis = new Redis(url);
let runs = 0;

onMessage(async (message) => {
  switch (message.type) {
    case 'tick': {
      const task = (): Promise<void> => {
        runs++;
        return Promise.resolve();
      };
      await runTick(holdfast, redis, name, new Date(String(message['at'])), task);
      tell('ticked', { runs });
      return;
    }
    case 'close':
      await holdfast.close();
      redis.disconnect();
      tell('closed');
      stopListening();
  }
});
tell('ready');
