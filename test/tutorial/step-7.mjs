// A service that holds the lock gets SIGTERM. It closes its client, so that nobody waits for its lease to end.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from 'holdfast';

const redis = process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379';
const holdfast = new Holdfast({ redis });
const account = holdfast.getLock('tutorial:account');

if (process.argv[2] === 'service') {
  process.once('SIGTERM', () => holdfast.close());
  try {
    await account.withLock(async (hold) => {
      process.send('holding');
      await sleep(60_000, undefined, { signal: hold.signal });
    });
  } catch (error) {
    if (error.cause?.lossReason !== 'closed') throw error;
  }
} else {
  const service = fork(import.meta.filename, ['service']);
  const ended = once(service, 'exit');
  await once(service, 'message');

  service.kill('SIGTERM');
  const stoppedAt = Date.now();
  await account.withLock(() => {
    console.log(`acquired ${((Date.now() - stoppedAt) / 1_000).toFixed(1)} s after SIGTERM`);
  });
  const [code] = await ended;
  console.log('the service ended with code', code);
  await holdfast.close();
}
