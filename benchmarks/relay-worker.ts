// One of the two processes of the latency benchmark: holds what the other waits for, or the other way round.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import type { Hold, Lock } from '../src/index.js';
import { BareFairLock } from './support/bare-fair-lock.js';
import { Holdfast } from './support/built-holdfast.js';
import { monotonicMs } from './support/clock.js';
import type { Answer, Order, Way } from './support/relay-messages.js';
import { serve } from './support/worker.js';

const PUBLISH = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";
const SHA1 = createHash('sha1').update(PUBLISH).digest('hex');
/** As long as what a hand-over tells. */
const MESSAGE = '7f0c2b7e-5d0c-4f43-9d5f-0d6a1c3a5b11:140737488355327 29999 17';

type LockWay = Exclude<Way, 'publish' | 'scripts'>;

const url = process.argv[2]!;
const redis = new Redis(url);
const subscriber = new Redis(url);
const holdfast = new Holdfast({ redis: url });
const bare = new BareFairLock(redis, subscriber);
const subscribed = new Set<string>();

let held: Hold | undefined;
let hadAtMs: Promise<number> | undefined;

async function work(order: Order): Promise<Answer> {
  switch (order.do) {
    case 'hold':
      await hold(order.way, order.name);
      return 'done';
    case 'wait':
      if (order.way === 'publish') await waitForMessage(order.name);
      else if (order.way === 'scripts') await waitForGrant(order.name);
      else await waitInLine(order.way, order.name);
      return 'done';
    case 'let go':
      return await letGo(order.way, order.name);
    case 'tell':
      return await hadAtMs!;
  }
}

async function hold(way: Way, name: string): Promise<void> {
  if (way === 'scripts') await bare.hold(name);
  else if (way !== 'publish') held = await lock(way, name).acquire();
}

async function waitForMessage(channel: string): Promise<void> {
  if (!subscribed.has(channel)) await subscriber.subscribe(channel);
  subscribed.add(channel);
  hadAtMs = once(subscriber, 'message').then(monotonicMs);
}

async function waitForGrant(name: string): Promise<void> {
  await bare.wait(name);
  hadAtMs = bare.granted.then(async () => {
    const enteredAtMs = monotonicMs();
    await bare.letGo(name);
    return enteredAtMs;
  });
}

async function waitInLine(way: LockWay, name: string): Promise<void> {
  const waiting = new Promise((resolve) => holdfast.once('waiting', resolve));
  hadAtMs = enterAndLeave(lock(way, name));
  await waiting; // its place in line stands: that is what the event was told for
}

async function enterAndLeave(lock: Lock): Promise<number> {
  const hold = await lock.acquire();
  const enteredAtMs = monotonicMs();
  await hold.release();
  return enteredAtMs;
}

/** Returns when it began. */
async function letGo(way: Way, name: string): Promise<number> {
  const startMs = monotonicMs();
  if (way === 'publish') await redis.evalsha(SHA1, 0, name, MESSAGE);
  else if (way === 'scripts') await bare.letGo(name);
  else await held!.release();
  return startMs;
}

function lock(way: LockWay, name: string): Lock {
  return way === 'fair' ? holdfast.getFairLock(name) : holdfast.getLock(name);
}

await Promise.all([
  redis.script('LOAD', PUBLISH),
  BareFairLock.loadScripts(redis),
  subscriber.ping(),
]);
await holdfast.getLock('bench:connected').isLocked();
serve(work);
