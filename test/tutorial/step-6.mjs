// Which calls re-enter the lock, and which calls wait for it.
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from 'holdfast';

const redis = process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379';
const holdfast = new Holdfast({ redis });
const account = holdfast.getLock('tutorial:account');

async function step(name) {
  await account.withLock(async () => {
    console.log(name, 'in');
    await sleep(20);
    console.log(name, 'out');
  });
}

// Two requests at the same time: each is an owner of its own, so the second one waits.
await Promise.all([step('request 1'), step('request 2')]);

// One holder: calls inside it re-enter the lock. Parallel branches inside it take turns.
await account.withLock(async () => {
  await step('nested');
  await Promise.all([step('branch 1'), step('branch 2')]);
});

// acquire() opens no scope. hold.run() does: calls inside it re-enter the lock.
const hold = await account.acquire();
console.log('outside hold.run():', await account.tryAcquire());
await hold.run(() => step('inside hold.run()'));
await hold.release();

await holdfast.close();
