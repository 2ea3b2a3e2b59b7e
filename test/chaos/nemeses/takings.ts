// Somebody takes locks away from their holders: keys are deleted, everything is flushed, or the server evicts what it likes. The server goes on,
// and tells who wants to know. (forceUnlock() is something that callers do.)
import { setTimeout as sleep } from 'node:timers/promises';
import { LockKeys } from '../../../src/redis/keys.js';
import { machineMs } from '../../support/time.js';
import type { Excuses, Touched } from '../faults.js';
import type { PlannedFault } from '../plan.js';
import type { StageServer } from '../stage/server.js';
import type { Nemesis, Stage } from '../stage/stage.js';

/** Masters of Redlocks may lose locks; what else they have to remember, only a restart may take. */
const SERVED_BY_ONE = ['single', 'sentinel', 'cluster'] as const;

export const TAKING_NEMESES: readonly Nemesis[] = [
  taking('delete a lock', 20, deleteLock),
  { ...taking('flush everything', 6, flush), topologies: SERVED_BY_ONE },
  { ...taking('evict keys', 8, evict), topologies: SERVED_BY_ONE },
];

/** Mostly it waits for a holder that has been there for long enough to be told. */
function taking(
  name: string,
  weight: number,
  take: (stage: Stage, fault: PlannedFault, name: string) => Promise<void>,
): Nemesis {
  return {
    name,
    weight,
    whenLong: 'only',
    leases: [1, 2.5],
    async act(stage, fault, lasting) {
      const lock = lockOf(stage, fault);
      const isOver = lasting().then(() => true);
      if (fault.amount % 0.1 < 0.07) await someHolder(stage, lock, isOver);
      await take(stage, fault, name);
    },
  };
}

function lockOf({ plan: { locks } }: Stage, { target }: PlannedFault): string {
  return locks[target % locks.length]!;
}

/** How long somebody has had the lock at least. */
const OLD_MS = 900;

/** Resolves when somebody has had the lock for long, or when the time is over. */
async function someHolder(
  { servers }: Stage,
  lock: string,
  isOver: Promise<boolean>,
): Promise<void> {
  const since = new Map<string, number>();
  for (;;) {
    const asked = servers.map((server) => server.call('HKEYS', lock).catch(() => []));
    const owners = new Set((await Promise.all(asked)).flat().map(String));
    for (const owner of since.keys()) if (!owners.has(owner)) since.delete(owner);
    const now = machineMs();
    for (const owner of owners) if (!since.has(owner)) since.set(owner, now);
    const isOld = [...since].some(([owner, at]) => /:\d+$/.test(owner) && now - at >= OLD_MS);
    if (isOld || (await Promise.race([isOver, sleep(40, false)]))) return;
  }
}

/** Replies who had it. */
const TAKE = `local owners = redis.call('HKEYS', KEYS[1])
redis.call(ARGV[1], KEYS[1])
return owners`;

async function deleteLock(stage: Stage, fault: PlannedFault, name: string): Promise<void> {
  const { plan, servers } = stage;
  const lock = lockOf(stage, fault);
  const { target, amount } = fault;
  const isOfMinority = plan.topology === 'masters' && amount < 0.6;
  const count = isOfMinority ? (servers.length - 1) >> 1 : servers.length;
  const taken = Array.from({ length: count }, (_, i) => stage.server(target + i));
  const from = machineMs();
  const removed = await Promise.all(
    taken.map(async (server) => {
      if (!(await server.isMaster())) return [];
      const command = amount % 0.2 < 0.1 ? 'DEL' : 'UNLINK';
      const owners = await server.call('EVAL', TAKE, '1', lock, command).catch(ifRefused([]));
      return owners as string[] | undefined;
    }),
  );
  const isUnknown = removed.includes(undefined);
  const owners = new Set(removed.flatMap((each) => each ?? []));
  if (!isUnknown && owners.size === 0) return;
  // A Redlock that still has most of its masters has lost nothing.
  if (isOfMinority && !isUnknown && owners.size === 1) {
    const rest = servers.filter((server) => !taken.includes(server));
    const left = await Promise.all(
      rest.map((server) => server.call('HKEYS', lock).catch(() => [])),
    );
    const [owner] = owners;
    const votes = left.filter((each) => (each as string[]).includes(owner!)).length;
    if (votes > servers.length / 2) {
      stage.faults
        .begin(name, touching(taken), {}, `"${lock}", and most masters keep it`, from)
        .end();
      return;
    }
  }
  const isCertain = !isUnknown && plan.topology === 'single';
  note(stage, name, taken, { loses: [lock], disorders: [lock], isCertain }, `"${lock}"`, from);
  if (amount % 0.02 < 0.014) await wake(stage, taken, lock);
}

async function flush(stage: Stage, { target, amount }: PlannedFault, name: string): Promise<void> {
  const { plan, servers } = stage;
  const from = machineMs();
  const answers = await Promise.all(
    servers.map(async (server) => {
      if (!(await server.isMaster())) return false;
      const command = amount < 0.5 ? 'FLUSHALL' : 'FLUSHDB';
      const mode = amount % 0.2 < 0.1 ? 'SYNC' : 'ASYNC';
      return await server.call(command, mode).then(() => true, ifRefused(false));
    }),
  );
  const isCertain = answers[0] === true && plan.topology === 'single';
  const disorders = plan.locks;
  note(stage, name, servers, { loses: 'all', disorders, isCertain }, '', from);
  if (amount % 0.02 < 0.014)
    for (const lock of plan.locks) await wake(stage, [stage.server(target)], lock);
}

/** For a moment the server has room for less than what it has: it makes room for the next command. */
async function evict(stage: Stage, { target, amount }: PlannedFault, name: string): Promise<void> {
  const { plan } = stage;
  const server = stage.server(target);
  const free = stage.faults.take(`server ${server.index}`);
  if (!free) return;
  if (await server.isMaster()) {
    const used = /^used_memory:(\d+)/m.exec(
      String(await server.call('INFO', 'memory').catch(ignore)),
    );
    const most = amount < 0.5 || !used ? '1' : String(Number(used[1]) - 200);
    const from = machineMs();
    // Sent at once: the server does one after the other, with nobody else's in between.
    await Promise.all([
      server.call('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru').catch(ignore),
      server.call('CONFIG', 'SET', 'maxmemory', most).catch(ignore),
      server.call('CONFIG', 'SET', 'maxmemory', '0').catch(ignore),
      server.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction').catch(ignore),
    ]);
    note(stage, name, [server], { loses: 'all', disorders: plan.locks }, `down to ${most}`, from);
  }
  free();
}

/** It disturbs nobody's connection. */
function note(
  { faults }: Stage,
  name: string,
  servers: readonly StageServer[],
  excuses: Excuses,
  detail: string,
  from: number,
): void {
  faults
    .begin(name, touching(servers), { ...excuses, endsHolds: true, isDeletion: true }, detail, from)
    .end();
}

function touching(servers: readonly StageServer[]): Touched {
  return { clients: [], servers: servers.map(({ index }) => index) };
}

/** As if it had been released: whoever waits for it comes, while the former holder may not know yet. */
async function wake({ plan }: Stage, servers: readonly StageServer[], lock: string): Promise<void> {
  const keys = new LockKeys(lock);
  const command = plan.topology === 'cluster' && keys.isShardable ? 'SPUBLISH' : 'PUBLISH';
  await Promise.all(servers.map((server) => server.call(command, keys.channel, '0').catch(ignore)));
}

/** Refused, or that of another server; without an answer it may have been done. */
function ifRefused<T>(refused: T): (error: unknown) => T | undefined {
  return (error) => ((error as Error).name === 'ReplyError' ? refused : undefined);
}

function ignore(): undefined {
  return undefined;
}
