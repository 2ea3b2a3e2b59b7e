// One of the two processes of the latency benchmark: holds what the other waits for, or the other way round.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import type { Hold, Lock } from '../src/index.js';
import { Holdfast } from './support/built-holdfast.js';
import { monotonicMs } from './support/clock.js';
import type { Answer, Order, Way } from './support/relay-messages.js';
import { serve } from './support/worker.js';

const PUBLISH = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";
const SHA1 = createHash('sha1').update(PUBLISH).digest('hex');
/** As long as what a hand-over tells. */
const MESSAGE = '7f0c2b7e-5d0c-4f43-9d5f-0d6a1c3a5b11:140737488355327 29999 17';

const url = process.argv[2]!;
const redis = new Redis(url);
const subscriber = new Redis(url);
const holdfast = new Holdfast({ redis: url });
const subscribed = new Set<string>();

let held: Hold | undefined;
let hadAtMs: Promise<number> | undefined;

async function work(order: Order): Promise<Answer> {
  switch (order.do) {
    case 'hold':
      if (order.way !== 'publish') held = await lock(order.way, order.name).acquire();
      return 'done';
    case 'wait':
      if (order.way === 'publish') await waitForMessage(order.name);
      else await waitInLine(order.way, order.name);
      return 'done';
    case 'let go':
      return order.way === 'publish' ? await publish(order.name) : await release();
    case 'tell':
      return await hadAtMs!;
  }
}

async function waitForMessage(channel: string): Promise<void> {
  if (!subscribed.has(channel)) await subscriber.subscribe(channel);
  subscribed.add(channel);
  hadAtMs = once(subscriber, 'message').then(monotonicMs);
}

async function waitInLine(way: Exclude<Way, 'publish'>, name: string): Promise<void> {
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

async function publish(channel: string): Promise<number> {
  const startMs = monotonicMs();
  await redis.evalsha(SHA1, 0, channel, MESSAGE);
  return startMs;
}

async function release(): Promise<number> {
  const startMs = monotonicMs();
  await held!.release();
  return startMs;
}

function lock(way: Exclude<Way, 'publish'>, name: string): Lock {
  return way === 'fair' ? holdfast.getFairLock(name) : holdfast.getLock(name);
}

await Promise.all([redis.script('LOAD', PUBLISH), subscriber.ping()]);
await holdfast.getLock('bench:connected').isLocked();
serve(work);
