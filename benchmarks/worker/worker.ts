// A worker process of the benchmarks: executes orders on the locks of any library, a line of JSON at a time.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { peerOf } from '../peers/catalogue.js';
import type { PeerClient, Release } from '../peers/peer.js';
import { monotonicMs, quantile } from '../support/figures.js';
import { Crowd } from './crowd.js';
import type {
  Crowd as Outcome,
  KeepOrder,
  Order,
  Pairs,
  PairsOrder,
  Reply,
  Request,
  Target,
  Usage,
} from './messages.js';

/** Acquires and releases locks without contention, and reports how long that took. */
async function pairs(client: PeerClient, order: PairsOrder): Promise<Pairs> {
  const { call, lanes, names = lanes, name, durationMs } = order;
  const operation =
    call === 'withLock'
      ? (key: string) => client.withLock(key, doNothing)
      : async (key: string) => {
          const release = await client.acquire(key);
          await release();
        };
  const tookMs: number[] = [];
  const cpu = process.cpuUsage();
  const startMs = monotonicMs();
  const endMs = startMs + durationMs;
  const lane = async (first: number): Promise<void> => {
    const keys: string[] = [];
    for (let i = first; i < names; i += lanes) keys.push(`${name}:${i}`);
    let atMs = monotonicMs();
    let next = 0;
    do {
      await operation(keys[next]!);
      next = next + 1 === keys.length ? 0 : next + 1;
      const doneMs = monotonicMs();
      tookMs.push(doneMs - atMs);
      atMs = doneMs;
    } while (atMs < endMs);
  };
  await Promise.all(Array.from({ length: lanes }, (_, i) => lane(i)));
  const { user, system } = process.cpuUsage(cpu);
  return {
    count: tookMs.length,
    durationMs: monotonicMs() - startMs,
    p50Micros: quantile(tookMs, 0.5) * 1_000,
    p99Micros: quantile(tookMs, 0.99) * 1_000,
    cpuMicros: user + system,
  };
}

async function doNothing(): Promise<void> {
  // The lock itself is measured, not the work.
}

/** One end of a hand-over between processes: it holds the lock that the other end waits for, or the reverse. */
class Relay {
  readonly #held = new Map<string, Release>();
  readonly #entered = new Map<string, Promise<number>>();

  async hold(client: PeerClient, name: string): Promise<void> {
    this.#held.set(name, await client.acquire(name));
  }

  /** Returns when it began. */
  async letGo(name: string): Promise<number> {
    const startMs = monotonicMs();
    await this.#held.get(name)!();
    return startMs;
  }

  wait(client: PeerClient, name: string): void {
    const entered = client.acquire(name).then(async (release) => {
      const enteredMs = monotonicMs();
      await release();
      return enteredMs;
    });
    entered.catch(() => undefined); // reported to the caller that asks
    this.#entered.set(name, entered);
  }

  /** When the lock came. */
  async tell(name: string): Promise<number> {
    return await this.#entered.get(name)!;
  }
}

/** What this process uses of the machine. */
function usage(): Usage {
  const { user, system } = process.cpuUsage();
  return { atMs: monotonicMs(), cpuMicros: user + system };
}

/** The reachable heap: collected twice, with a pause for objects that are freed on a later turn. */
async function heapBytes(): Promise<number> {
  if (!gc) throw new Error('this process was started without --expose-gc');
  gc();
  await sleep(50);
  gc();
  return process.memoryUsage().heapUsed;
}

/** How many locks are acquired at a time when many are. */
const AT_A_TIME = 256;

const clients = new Map<string, Promise<PeerClient>>();
const crowds = new Map<string, Crowd>();
const relay = new Relay();
const storage = new AsyncLocalStorage();

async function carryOut(order: Order): Promise<unknown> {
  switch (order.do) {
    case 'pairs':
      // After the first run() every promise is slower in a Node.js before 24: then it is so for all alike.
      if (order.call === 'withLock') storage.run('in use', () => undefined);
      return await pairs(await clientOf(order), order);
    case 'crowd':
      crowds.set(order.name, new Crowd(await clientOf(order), order));
      return null;
    case 'disband':
      return await disband(order.name);
    case 'tally':
      return await crowds.get(order.name)!.tally(order.durationMs);
    case 'hold':
      await relay.hold(await clientOf(order), order.name);
      return null;
    case 'let go':
      return await relay.letGo(order.name);
    case 'wait':
      relay.wait(await clientOf(order), order.name);
      return null;
    case 'tell':
      return await relay.tell(order.name);
    case 'keep':
      await keep(await clientOf(order), order);
      return null;
    case 'warm up':
      return await (await clientOf(order)).warmUp?.(namesOf(order));
    case 'take':
      return await take(await clientOf(order), order.name);
    case 'usage':
      return usage();
    case 'heap':
      return await heapBytes();
  }
}

function clientOf({ peer, urls, leaseMs, permits }: Target): Promise<PeerClient> {
  const key = JSON.stringify([peer, urls, leaseMs, permits]);
  let client = clients.get(key);
  if (!client) clients.set(key, (client = peerOf(peer).connect({ urls, leaseMs, permits })));
  return client;
}

async function disband(name: string): Promise<Outcome> {
  const outcome = await crowds.get(name)!.disband();
  crowds.delete(name);
  // Stuck callers would go on asking: the next slice gets a client without them.
  if (outcome.stuck > 0) {
    for (const client of clients.values()) (await client).close();
    clients.clear();
  }
  return outcome;
}

async function keep(client: PeerClient, order: KeepOrder): Promise<void> {
  const limit = pLimit(AT_A_TIME);
  await limit.map(namesOf(order), (lock) => client.keep(lock));
}

function namesOf({ name, count }: { name: string; count: number }): string[] {
  return Array.from({ length: count }, (_, i) => `${name}:${i}`);
}

async function take(client: PeerClient, name: string): Promise<number> {
  const startMs = monotonicMs();
  const release = await client.acquire(name);
  const tookMs = monotonicMs() - startMs;
  await release();
  return tookMs;
}

function answer(reply: Reply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

/** Errors that escape from a library's own timers, as from a client that was closed under stuck callers. */
const strays = new Set(['Error: Connection is closed.']);
process.on('unhandledRejection', (reason) => {
  const message = String(reason);
  if (!strays.has(message)) console.error(`  nobody handled: ${message}`);
  strays.add(message);
});

console.log = console.error; // stdout is for answers
createInterface(process.stdin)
  .on('line', (line) => {
    const { id, order } = JSON.parse(line) as Request;
    carryOut(order).then(
      (result) => {
        answer({ id, answer: result });
      },
      (error: unknown) => {
        answer({ id, error: (error as Error).stack ?? String(error) });
      },
    );
  })
  .on('close', () => process.exit());
