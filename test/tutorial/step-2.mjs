// The same, but each deposit holds the lock 'tutorial:account', so the processes take turns.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Holdfast } from 'holdfast';
import { Redis } from 'ioredis';

const url = process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379';
const redis = new Redis(url);
const holdfast = new Holdfast({ redis: url });
const account = holdfast.getLock('tutorial:account');

async function deposit() {
  const balance = Number(await redis.get('tutorial:balance'));
  await sleep(5); // the work between reading and writing
  await redis.set('tutorial:balance', balance + 1);
}

if (process.argv[2] === 'teller') {
  for (let i = 0; i < 100; i++) await account.withLock(deposit);
} else {
  await redis.set('tutorial:balance', 0);
  const tellers = [1, 2, 3, 4].map(() => fork(import.meta.filename, ['teller']));
  await Promise.all(tellers.map((teller) => once(teller, 'exit')));
  console.log('expected 400, got', Number(await redis.get('tutorial:balance')));
}
await holdfast.close();
redis.disconnect();
