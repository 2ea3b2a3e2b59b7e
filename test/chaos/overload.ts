// Far too much to do: figures of each load, and nothing lost or left.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  Holdfast,
  LockAbortedError,
  UnavailableError,
  type Hold,
  type Lock,
} from '../../src/index.js';
import { startRedisProcess, type RedisServer } from '../support/redis-server.js';
import { block } from './worker/time.js';

/** Returns whether all went well; `wanted`: which loads, none for all. */
export async function overload(wanted: readonly string[]): Promise<boolean> {
  const unknown = wanted.find((name) => !LOADS.some((load) => load.name === name));
  if (unknown !== undefined)
    throw new Error(`there is no load "${unknown}": ${LOADS.map(({ name }) => name).join(', ')}`);
  let isSound = true;
  for (const load of LOADS) {
    if (wanted.length > 0 && !wanted.includes(load.name)) continue;
    console.log(`${load.name}: ${load.what}`);
    const server = await startRedisProcess({ args: ['--maxclients', '10000'] });
    try {
      const figures = await load.run(server);
      await assertNothingLeft(server);
      console.log(
        `  ${Object.entries(figures)
          .map(([name, value]) => `${name} ${value}`)
          .join(', ')}; nothing lost or left`,
      );
    } catch (error) {
      isSound = false;
      console.log(`  FAILED: ${(error as Error).message}`);
    } finally {
      await server[Symbol.asyncDispose]();
    }
  }
  return isSound;
}

/** One way to have far too much to do, and what came of it. */
interface Load {
  readonly name: string;
  readonly what: string;
  /** Returns figures, each with its unit. @throws Error that says what was lost or left */
  run(server: RedisServer): Promise<Record<string, string>>;
}

/** Milliseconds for `work`. */
async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

/** What is on the heap when the garbage is gone, in MB. */
function heapMb(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed / 1e6;
}

/** @throws Error that names what is left on the server when all clients are closed */
async function assertNothingLeft({ url }: RedisServer): Promise<void> {
  const redis = new Redis(url);
  try {
    for (let tries = 50; ; tries--) {
      const keys = await redis.keys('*');
      const channels = (await redis.pubsub('CHANNELS')) as string[];
      const clients =
        String(await redis.client('LIST'))
          .trim()
          .split('\n').length - 1;
      if (keys.length + channels.length + clients === 0) return;
      if (tries === 0)
        throw new Error(
          `left: ${keys.length} keys, ${channels.length} channels, ${clients} connections: ${keys.slice(0, 5).join(', ')}`,
        );
      await sleep(100);
    }
  } finally {
    redis.disconnect();
  }
}

/** @throws Error unless it holds */
function assert(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(what);
}

const WAITERS = 20_000;
const WATCHED = 10_000;
const CLIENTS = 1_000;
const CYCLES = 1_000_000;
const RUBBISH = 15_000;
const NEIGHBOUR_BYTES_PER_SECOND = 10_000_000;

const LOADS: readonly Load[] = [
  {
    name: 'waiters',
    what: `${WAITERS} callers of one process wait for one lock; half of them give up, half get it`,
    async run(server) {
      await using holdfast = new Holdfast({ redis: server.url });
      const lock = holdfast.getLock('crowded');
      const before = heapMb();
      const holder = await lock.acquire();
      const giveUp = new AbortController();
      let entered = 0;
      let abortedCount = 0;
      const calls: Promise<void>[] = [];
      const queuedMs = await timed(async () => {
        for (let i = 0; i < WAITERS; i++) {
          const options = i % 2 === 0 ? {} : { signal: giveUp.signal };
          const call = lock
            .withLock(options, () => {
              entered++;
            })
            .catch((error: unknown) => {
              if (!(error instanceof LockAbortedError)) throw error;
              abortedCount++;
            });
          calls.push(call);
        }
        await holdfast.getLock('other').withLock(() => undefined); // all have been sent, or stand in line
      });
      const heldMb = heapMb() - before;
      giveUp.abort();
      await sleep(0);
      const servedMs = await timed(async () => {
        await holder.release();
        await Promise.all(calls);
      });
      assert(entered === WAITERS / 2, `${entered} of ${WAITERS / 2} got the lock`);
      assert(abortedCount === WAITERS / 2, `${abortedCount} of ${WAITERS / 2} gave up`);
      return {
        queued: `${Math.round(queuedMs)} ms`,
        'kB each': (1_000 * (heldMb / WAITERS)).toFixed(1),
        'served/s': per(WAITERS / 2, servedMs),
      };
    },
  },
  {
    name: 'watched',
    what: `${WATCHED} watched locks, leases of 3 s, while the loop stalls 200 ms in each second, for 15 s`,
    async run(server) {
      await using holdfast = new Holdfast({ redis: server.url, lockWatchdogTimeout: 3_000 });
      let lost = 0;
      let renewed = 0;
      holdfast.on('lost', () => (lost += 1));
      holdfast.on('renewed', () => (renewed += 1));
      const names = Array.from({ length: WATCHED }, (_, i) => `watched:${i}`);
      const holds: { release(): Promise<void> }[] = [];
      const acquiredMs = await timed(async () => {
        for (let i = 0; i < WATCHED; i += 500) {
          const some = names.slice(i, i + 500).map((name) => holdfast.getLock(name).acquire());
          holds.push(...(await Promise.all(some)));
        }
      });
      for (let second = 0; second < 15; second++) {
        block(200);
        await sleep(800);
      }
      const releasedMs = await timed(() => Promise.all(holds.map((hold) => hold.release())));
      assert(lost === 0, `${lost} locks were lost`);
      return {
        'acquired/s': per(WATCHED, acquiredMs),
        'renewed/s': per(renewed, 15_000),
        'released/s': per(WATCHED, releasedMs),
      };
    },
  },
  {
    name: 'clients',
    what: `${CLIENTS} clients of one process, each waits once for the same lock`,
    async run(server) {
      const before = heapMb();
      const clients = Array.from({ length: CLIENTS }, () => new Holdfast({ redis: server.url }));
      let entered = 0;
      const servedMs = await timed(() =>
        Promise.all(
          clients.map((client) => client.getFairLock('popular').withLock(() => (entered += 1))),
        ),
      );
      const eachKb = (1_000 * (heapMb() - before)) / CLIENTS;
      const closedMs = await timed(() => Promise.all(clients.map((client) => client.close())));
      assert(entered === CLIENTS, `${entered} of ${CLIENTS} got the lock`);
      return {
        served: `${Math.round(servedMs)} ms`,
        closed: `${Math.round(closedMs)} ms`,
        'kB each': eachKb.toFixed(0),
      };
    },
  },
  {
    name: 'neighbour',
    what: `hand-overs between two clients while somebody else publishes ${NEIGHBOUR_BYTES_PER_SECOND / 1e6} MB/s on the same server`,
    async run(server) {
      const alone = await handOvers(server, 5_000);
      const neighbour = new Neighbour(server);
      const beside = await handOvers(server, 5_000);
      const sentMb = await neighbour.end();
      assert(
        beside > alone / 20,
        `${Math.round(beside)} hand-overs/s instead of ${Math.round(alone)}`,
      );
      return {
        'alone/s': Math.round(alone).toLocaleString('en'),
        'beside/s': Math.round(beside).toLocaleString('en'),
        'published MB': sentMb.toFixed(0),
      };
    },
  },
  {
    name: 'rubbish',
    what: `${RUBBISH} messages that are none on the channels of a reentrant and a fair lock, while both are handed over`,
    async run(server) {
      const redis = new Redis(server.url);
      const before = await handOvers(server, 2_000);
      const sending = sendRubbish(redis);
      const meanwhile = await handOvers(server, 4_000);
      await sending;
      redis.disconnect();
      return {
        'alone/s': Math.round(before).toLocaleString('en'),
        'beside/s': Math.round(meanwhile).toLocaleString('en'),
      };
    },
  },
  {
    name: 'cycles',
    what: `${CYCLES.toLocaleString('en')} cycles of all kinds of calls over 100 names, with the heap watched`,
    async run(server) {
      await using holdfast = new Holdfast({ redis: server.url });
      const callers = 32;
      const heaps: number[] = [];
      const tookMs = await timed(async () => {
        for (let part = 0; part < 10; part++) {
          await Promise.all(
            Array.from({ length: callers }, (_, caller) =>
              cycles(holdfast, caller, CYCLES / 10 / callers),
            ),
          );
          heaps.push(heapMb());
        }
      });
      // The first part fills caches.
      const grownMb = heaps.at(-1)! - heaps[1]!;
      assert(
        grownMb < 5,
        `the heap has grown by ${grownMb.toFixed(1)} MB: ${heaps.map((mb) => mb.toFixed(1)).join(', ')}`,
      );
      return {
        'cycles/s': per(CYCLES, tookMs),
        'heap grew by': `${grownMb.toFixed(2)} MB`,
        heap: `${heaps.at(-1)!.toFixed(1)} MB`,
      };
    },
  },
];

/** By turns: free or contended, reentrant or fair, given up. */
async function cycles(holdfast: Holdfast, caller: number, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const name = `cycle:${(caller * 31 + i) % 100}`;
    const lock = i % 4 === 0 ? holdfast.getFairLock(`fair ${name}`) : holdfast.getLock(name);
    if (i % 3 === 0) await lock.withLock(() => undefined);
    else if (i % 3 === 1) await (await lock.tryAcquire())?.release();
    else await (await withinMoments(lock))?.release();
  }
}

/** undefined: somebody else had it, or a busy machine did not get its answer in time. */
async function withinMoments(lock: Lock): Promise<Hold | undefined> {
  try {
    return await lock.tryAcquire({ wait: 5, lease: 1_000 });
  } catch (error) {
    if (error instanceof UnavailableError) return undefined;
    throw error;
  }
}

/** How often per second two locks, a reentrant and a fair one, pass between two clients. */
async function handOvers(server: RedisServer, forMs: number): Promise<number> {
  const clients = [new Holdfast({ redis: server.url }), new Holdfast({ redis: server.url })];
  const endMs = performance.now() + forMs;
  let count = 0;
  await Promise.all(
    clients.flatMap((client) =>
      [client.getLock('passed'), client.getFairLock('passed in line')].map(async (lock) => {
        while (performance.now() < endMs) await lock.withLock(() => (count += 1));
      }),
    ),
  );
  await Promise.all(clients.map((client) => client.close()));
  return count / (forMs / 1_000);
}

async function sendRubbish(redis: Redis): Promise<void> {
  const texts = [
    '',
    '0',
    '1 ',
    'ends',
    'ends x',
    'ends -1',
    '99999999999999999999 x:1',
    '\u0000',
    'x'.repeat(10_000),
  ];
  const channels = ['redisson_lock__channel:{passed}', 'redisson_lock__channel:{passed in line}'];
  for (let i = 0; i < RUBBISH; i++) {
    const grants =
      i % 100 === 0 ? ((await redis.pubsub('CHANNELS', 'holdfast_grants:*')) as string[]) : [];
    channels.push(...grants.filter((channel) => !channels.includes(channel)));
    await redis.publish(channels[i % channels.length]!, texts[i % texts.length]!);
  }
}

/** Somebody on the same server with much to say, and somebody who listens. */
class Neighbour {
  readonly #publisher: Redis;
  readonly #subscriber: Redis;
  readonly #publishing: Promise<number>;
  #isOver = false;

  constructor(server: RedisServer) {
    this.#publisher = new Redis(server.url);
    this.#subscriber = new Redis(server.url);
    this.#publishing = this.#publish();
  }

  /** Returns how much it has published, in MB. */
  async end(): Promise<number> {
    this.#isOver = true;
    const bytes = await this.#publishing;
    this.#publisher.disconnect();
    this.#subscriber.disconnect();
    return bytes / 1e6;
  }

  async #publish(): Promise<number> {
    await this.#subscriber.subscribe('neighbour');
    const message = 'x'.repeat(100_000);
    const startMs = performance.now();
    let bytes = 0;
    while (!this.#isOver) {
      const dueBytes = ((performance.now() - startMs) / 1_000) * NEIGHBOUR_BYTES_PER_SECOND;
      for (; bytes < dueBytes; bytes += message.length)
        await this.#publisher.publish('neighbour', message);
      await sleep(5);
    }
    return bytes;
  }
}

function per(count: number, ms: number): string {
  return Math.round(count / (ms / 1_000)).toLocaleString('en');
}
