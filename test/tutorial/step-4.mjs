// A process acquires the lock and is killed. The lease is 3 s here, so that you need not wait for 30 s.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from 'holdfast';

const holdfast = new Holdfast({
  redis: process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379',
  lockWatchdogTimeout: 3_000,
});
const account = holdfast.getLock('tutorial:account');

if (process.argv[2] === 'holder') {
  await account.withLock(async () => {
    process.send('holding');
    await sleep(60_000);
  });
} else {
  const holder = fork(import.meta.filename, ['holder']);
  await once(holder, 'message');
  await sleep(5_000); // longer than the lease
  console.log('after 5 s:', await account.tryAcquire());

  holder.kill('SIGKILL');
  const killedAt = Date.now();
  await account.withLock(() => {
    console.log(`acquired ${((Date.now() - killedAt) / 1_000).toFixed(1)} s after the kill`);
  });
}
await holdfast.close();
