// Two holders lose the lock: one is forced out, one blocks its event loop for longer than its lease.
import { execSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from 'holdfast';

const redis = process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379';
const holdfast = new Holdfast({ redis, lockWatchdogTimeout: 3_000 });
const operator = new Holdfast({ redis });
const account = holdfast.getLock('tutorial:account');
holdfast.on('lost', ({ lockName, lossReason }) => console.log(`event: ${lockName} ${lossReason}`));

try {
  await account.withLock(async (hold) => {
    await operator.getLock('tutorial:account').forceUnlock();
    await sleep(60_000, undefined, { signal: hold.signal }); // the work; the signal ends it
    console.log('never printed');
  });
} catch (error) {
  console.log(`${error.name}, caused by ${error.cause.name}`);
}

try {
  await account.withLock((hold) => {
    execSync('sleep 4'); // blocks this process for 4 s: no renewal is sent
    hold.assertHeld(); // right before the write
    console.log('never printed');
  });
} catch (error) {
  console.log(`${error.name}: ${error.lossReason}`);
}

await holdfast.close();
await operator.close();
