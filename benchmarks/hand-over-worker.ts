// A worker process of the hand-over benchmarks: several waiters that enter one critical section over and over.

import { Redis } from 'ioredis';
import { Holdfast } from './support/built-holdfast.js';
import { monotonicMs } from './support/clock.js';
import type { Order, Result, Stay } from './support/hand-over-messages.js';
import { openRedClient, type RedClient, type RedKind } from './support/red-clients.js';
import { serve } from './support/worker.js';

type Leave = () => Promise<unknown>;

const url = process.argv[2]!;
const redis = new Redis(url);
const holdfast = new Holdfast({ redis: url });
const redClients = new Map<RedKind, Promise<RedClient>>();

async function work(order: Order): Promise<Result> {
  const { guard, name, waiters, until } = order;
  const stays: Stay[] = [];
  const inVainMs: number[] = [];
  let violations = 0;
  const endMs = 'number' in until ? Infinity : monotonicMs() + until.durationMs;
  const isOver = (lastNumber: number): boolean =>
    'number' in until ? lastNumber >= until.number : monotonicMs() >= endMs;
  const wait = async (waiter: number): Promise<void> => {
    const connection = guard === 'token' ? new Redis(url) : redis; // BLPOP blocks its connection
    const enter = await entrance(order, connection, endMs);
    for (let number = 0; !isOver(number);) {
      const askedMs = monotonicMs();
      const leave = await enter();
      const enteredMs = monotonicMs();
      if (!leave) {
        inVainMs.push(enteredMs - askedMs);
        break;
      }
      const found = await stepIn(name);
      if (found.inside !== 1) violations++;
      number = found.number + 1;
      await stepOut(name, number);
      const leftMs = monotonicMs();
      stays.push({ waiter, number, askedMs, enteredMs, leftMs });
      await leave();
    }
    if (connection !== redis) connection.disconnect();
  };
  await Promise.all(Array.from({ length: waiters }, (_, waiter) => wait(waiter)));
  return { stays, inVainMs, violations };
}

/** Counts who is inside, where all processes see it, and reads the number of the stay before. */
async function stepIn(name: string): Promise<{ number: number; inside: number }> {
  const replies = await redis.pipeline().incr(`${name}:inside`).get(`${name}:number`).exec();
  return { inside: replies![0]![1] as number, number: Number(replies![1]![1]) };
}

/** Writes what was made of the number that was read: wrong as soon as somebody else did the same meanwhile. */
async function stepOut(name: string, number: number): Promise<void> {
  await redis.pipeline().set(`${name}:number`, number).decr(`${name}:inside`).exec();
}

async function entrance(
  { guard, name, masters = [] }: Order,
  connection: Redis,
  endMs: number,
): Promise<() => Promise<Leave | undefined>> {
  switch (guard) {
    case 'reentrant':
    case 'fair':
      return async () => {
        const lock = guard === 'fair' ? holdfast.getFairLock(name) : holdfast.getLock(name);
        const hold = await lock.acquire();
        return () => hold.release();
      };
    case 'redlock':
    case 'npm redlock': {
      const client = await redClient(guard === 'redlock' ? 'holdfast' : guard, masters);
      return () => client.acquire(name, endMs);
    }
    case 'token':
      return async () => {
        await connection.blpop(`${name}:token`, 0);
        return () => redis.rpush(`${name}:token`, 1);
      };
    case 'nothing':
      return () => Promise.resolve(() => Promise.resolve());
  }
}

/** One for all waiters of this process. */
function redClient(kind: RedKind, masters: readonly string[]): Promise<RedClient> {
  let client = redClients.get(kind);
  if (!client) redClients.set(kind, (client = openRedClient(kind, masters)));
  return client;
}

await redis.ping();
await holdfast.getLock('bench:connected').isLocked();
serve(work);
