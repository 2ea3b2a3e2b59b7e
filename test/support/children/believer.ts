// A process that holds one lock and notes, all the time, whether it believes that it holds it.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_OPTIONS (JSON, further options of the client).
// acquire {name}  ->  acquired, and when it is lost: lost {lossReason}
// block {ms}      ->  blocked {believes}: what it believed at once when the event loop went on
// report          ->  report {lastBelievedAt (ms since 1970), lastLookedAt}
// release         ->  released, or failed {name, message, code}
// close           ->  the process ends by itself
import { Holdfast, type Hold, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';

const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  wait: Infinity,
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});
let hold: Hold | undefined;
let lastBelievedAt = 0;
let lastLookedAt = 0;

holdfast.on('lost', ({ lossReason }) => {
  tell('lost', { lossReason });
});

/** The time is taken before the look: a process that is stopped in between must not seem to believe later than it does. */
function believes(): boolean {
  const at = Date.now();
  const isBelieved = hold !== undefined && (hold.remaining() > 0 || !hold.signal.aborted);
  lastLookedAt = at;
  if (isBelieved) lastBelievedAt = at;
  return isBelieved;
}

const looking = setInterval(believes, 2);

onMessage(async (message) => {
  switch (message.type) {
    case 'acquire':
      hold = await holdfast.getLock(String(message['name'])).acquire();
      tell('acquired');
      return;
    case 'block':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(message['ms']));
      tell('blocked', { believes: believes() });
      return;
    case 'report':
      believes(); // the last look may have begun before the process was stopped, and found the loss after it
      tell('report', { lastBelievedAt, lastLookedAt });
      return;
    case 'release':
      await hold?.release();
      tell('released');
      return;
    case 'close':
      clearInterval(looking);
      await holdfast.close();
      stopListening();
  }
});
