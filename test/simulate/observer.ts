// Looks at the servers of a simulation: who has which lock there, at one instant.
import { LockKeys } from '../../src/redis/keys.js';
import { booksOf, liveHolders, type Ledger, type Look } from '../chaos/checker/looks.js';
import { isWeighted } from '../chaos/plan.js';
import type { SimServer } from './network.js';
import type { World } from './world.js';

const LOOK_EVERY_MS = 8;

/** Looks again and again, until `isOver` says so. */
export function observe(world: World, looks: Look[], isOver: () => boolean): void {
  for (const server of world.servers) {
    if (server.isDown) continue;
    for (const lock of world.plan.locks) looks.push(look(world, server, lock));
  }
  world.noteDeafness();
  const { time } = world;
  if (isOver()) return;
  time.at(time.nowMs + LOOK_EVERY_MS, () => {
    observe(world, looks, isOver);
  });
}

function look({ plan, time: { nowMs } }: World, server: SimServer, lock: string): Look {
  const keys = new LockKeys(lock);
  const ask = (command: string, ...args: string[]): unknown => server.ask(command, ...args);
  const fields = fieldsOf(ask('hgetall', lock));
  const ttlMs = ask('pttl', lock) as number;
  const seen = { from: nowMs, until: nowMs, server: server.index, lock, ttlMs };
  if (isWeighted(plan)) {
    const ledger = [
      fields,
      ask('time'),
      ask('zrange', keys.leases, '0', '-1', 'WITHSCORES'),
      ask('zrange', keys.line, '0', '0'),
      fieldsOf(ask('hgetall', keys.places)),
    ] as unknown as Ledger;
    return { ...seen, holders: liveHolders(ledger), books: booksOf(ledger) };
  }
  const holders = Object.entries(fields).map(([owner, count]) => ({ owner, count: Number(count) }));
  const last = plan.fencing && (ask('get', keys.counter(false)) as string | null);
  return { ...seen, holders, counter: last == null ? undefined : BigInt(last) };
}

function fieldsOf(flat: unknown): Record<string, string> {
  const list = Array.isArray(flat) ? (flat as string[]) : [];
  return Object.fromEntries(
    Array.from({ length: list.length / 2 }, (_, i) => [list[2 * i]!, list[2 * i + 1]!]),
  );
}
