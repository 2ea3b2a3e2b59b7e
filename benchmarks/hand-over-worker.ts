// A worker process of the hand-over benchmark: several waiters that enter one critical section over and over.

import { Redis } from 'ioredis';
import { Holdfast } from './support/built-holdfast.js';
import type { Guard, Order, Result, Stay } from './support/hand-over-messages.js';

type Leave = () => Promise<unknown>;

const url = process.argv[2]!;
const redis = new Redis(url);
const holdfast = new Holdfast({ redis: url });

async function work(order: Order): Promise<Result> {
  const stays: Stay[] = [];
  let violations = 0;
  const endMs = monotonicMs() + order.durationMs;
  const wait = async (): Promise<void> => {
    const connection = order.guard === 'token' ? new Redis(url) : redis; // BLPOP blocks its connection
    const enter = entrance(order.guard, order.name, connection);
    while (monotonicMs() < endMs) {
      const askedMs = monotonicMs();
      const leave = await enter();
      const enteredMs = monotonicMs();
      const { number, inside } = await stepIn(order.name);
      if (inside !== 1) violations++;
      await redis.decr(`${order.name}:inside`);
      const leftMs = monotonicMs();
      stays.push({ number, enteredMs, leftMs, waitedMs: enteredMs - askedMs });
      await leave();
    }
    if (connection !== redis) connection.disconnect();
  };
  await Promise.all(Array.from({ length: order.waiters }, wait));
  return { stays, violations };
}

/** Counts who is inside, where all processes see it. */
async function stepIn(name: string): Promise<{ number: number; inside: number }> {
  const replies = await redis.pipeline().incr(`${name}:inside`).incr(`${name}:number`).exec();
  return { inside: replies![0]![1] as number, number: replies![1]![1] as number };
}

function entrance(guard: Guard, name: string, connection: Redis): () => Promise<Leave> {
  switch (guard) {
    case 'holdfast':
      return async () => {
        const hold = await holdfast.getLock(name).acquire();
        return () => hold.release();
      };
    case 'token':
      return async () => {
        await connection.blpop(`${name}:token`, 0);
        return () => redis.rpush(`${name}:token`, 1);
      };
    case 'nothing':
      return () => Promise.resolve(() => Promise.resolve());
  }
}

/** The same clock in all processes of a machine. */
function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

process.on('message', (order: Order) => {
  work(order).then(
    (result) => process.send!(result),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit());
await redis.ping();
await holdfast.getLock('bench:connected').isLocked();
process.send!('ready');
