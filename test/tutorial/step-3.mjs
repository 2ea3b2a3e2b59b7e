// Alice holds the lock for two seconds. Bob tries once, then waits for too short, then for long enough.
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from 'holdfast';

const redis = process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379';
const alice = new Holdfast({ redis, clientId: 'alice' }); // two clients, as two processes would have
const bob = new Holdfast({ redis, clientId: 'bob' });

const hold = await alice.getLock('tutorial:account').acquire();
const released = sleep(2_000).then(() => hold.release());

const account = bob.getLock('tutorial:account');
console.log('one attempt:', await account.tryAcquire());

try {
  await account.withLock({ wait: 500 }, () => console.log('never printed'));
} catch (error) {
  console.log(`${error.name}: ${error.message}`);
}

await account.withLock({ wait: 5_000 }, () => console.log('bob has the lock'));

await released;
await alice.close();
await bob.close();
