// Four processes each deposit 100 times: read the balance, work, write it back. Nothing keeps them apart.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.HOLDFAST_REDIS_URL ?? 'redis://localhost:6379');

async function deposit() {
  const balance = Number(await redis.get('tutorial:balance'));
  await sleep(5); // the work between reading and writing
  await redis.set('tutorial:balance', balance + 1);
}

if (process.argv[2] === 'teller') {
  for (let i = 0; i < 100; i++) await deposit();
} else {
  await redis.set('tutorial:balance', 0);
  const tellers = [1, 2, 3, 4].map(() => fork(import.meta.filename, ['teller']));
  await Promise.all(tellers.map((teller) => once(teller, 'exit')));
  console.log('expected 400, got', Number(await redis.get('tutorial:balance')));
}
redis.disconnect();
