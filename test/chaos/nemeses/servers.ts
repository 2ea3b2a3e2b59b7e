// What happens to servers: they stand still, refuse, forget, come back; keys are deleted; replicas take over, and slots move.
import { setTimeout as sleep } from 'node:timers/promises';
import { LockKeys } from '../../../src/redis/keys.js';
import { SlotMover } from '../../support/cluster.js';
import { machineMs } from '../../support/time.js';
import type { Excuses } from '../faults.js';
import { isWeighted, type Plan, type PlannedFault } from '../plan.js';
import type { StageServer } from '../stage/server.js';
import { disturb, type Nemesis, type Stage } from '../stage/stage.js';

const ANYWHERE = ['single', 'masters', 'sentinel', 'cluster'] as const;
const ALONE = ['single', 'masters'] as const;

export const SERVER_NEMESES: readonly Nemesis[] = [
  onServers('CLIENT KILL', 2, [0, 0], (server, { amount }) =>
    server.call('CLIENT', 'KILL', 'TYPE', amount < 0.5 ? 'normal' : 'pubsub'),
  ),
  // With ALL, not even CLIENT UNPAUSE is heard.
  onServers('CLIENT PAUSE', 2, [0.1, 1.5], (server, { amount, forMs }) =>
    server.call('CLIENT', 'PAUSE', String(Math.ceil(forMs)), amount < 0.5 ? 'ALL' : 'WRITE'),
  ),
  onServers('DEBUG SLEEP', 2, [0.1, 1], (server, { forMs }) => {
    // Where DEBUG is not allowed, nothing happens.
    void server.call('DEBUG', 'SLEEP', String(forMs / 1_000)).catch(() => undefined);
    return Promise.resolve();
  }),
  onServers('SCRIPT FLUSH', 2, [0, 0], (server) => server.call('SCRIPT', 'FLUSH')),
  onServers('memory is full', 2, [0.1, 2], async (server) => {
    await server.call('CONFIG', 'SET', 'maxmemory', '1');
    return () => server.call('CONFIG', 'SET', 'maxmemory', '0');
  }),
  {
    ...onServers('stop a server', 2, [0.1, 1.5], async (server) => {
      await server.redis.pause();
      return () => server.redis.resume();
    }),
    topologies: ALONE,
  },
  {
    ...onServers(
      'restart a server',
      3,
      [0.05, 1],
      async (server, { amount }) => {
        await (amount < 0.5 ? server.redis.kill() : server.redis.stop());
        return () => server.redis.start();
      },
      ({ plan }) =>
        // What a majority of masters knows, or has forgotten and is guarded, is not lost.
        plan.isDurable || plan.topology === 'masters' ? { endsHolds: true } : FORGETS,
    ),
    topologies: ALONE,
  },
];

const FORGETS = { loses: 'all', endsHolds: true } as const;

/** A server that does not answer at this moment, since something else is wrong with it, is healed a moment later. */
async function healed(heal: () => Promise<unknown>): Promise<void> {
  for (let triesLeft = 100; ; triesLeft--) {
    try {
      await heal();
      return;
    } catch (error) {
      if (triesLeft === 0) throw error;
      await sleep(50);
    }
  }
}

/** A fault of a server, with several masters of one or two of them; `begin` may return what heals it. */
function onServers(
  name: string,
  weight: number,
  leases: readonly [number, number],
  begin: (server: StageServer, fault: PlannedFault) => Promise<unknown>,
  excuses: (stage: Stage) => Excuses = () => ({}),
): Nemesis {
  return {
    name,
    weight,
    topologies: ANYWHERE,
    leases,
    async act(stage, fault, lasting) {
      const count = stage.plan.topology === 'masters' && fault.amount % 0.5 < 0.25 ? 2 : 1;
      const servers = Array.from({ length: count }, (_, i) => stage.server(fault.target + i));
      await Promise.all(
        servers.map((server) => {
          const noted = [name, { servers: [server.index] }, excuses(stage)] as const;
          return disturb(stage, `server ${server.index}`, noted, lasting, async () => {
            const heal = await begin(server, fault).catch(() => undefined); // it is down already
            if (typeof heal !== 'function') return undefined;
            return () => healed(heal as () => Promise<unknown>);
          });
        }),
      );
    },
  };
}

// What happens to single keys of a lock: somebody deletes one, or the server evicts it.

const NAME = 'delete a key';

export const KEY_NEMESES: readonly Nemesis[] = [
  {
    name: NAME,
    weight: 6,
    kinds: ['semaphore', 'read-write', 'kept'],
    leases: [0, 0],
    async act(stage, fault) {
      const { lock, key, isHolders } = someKey(stage.plan, fault);
      await Promise.all(
        stage.servers.map((server) => deleteAt(stage, server, lock, key, isHolders)),
      );
    },
  },
];

/** A key of a lock; `isHolders`: it says who holds the lock. */
export function someKey(
  plan: Pick<Plan, 'locks' | 'kind'>,
  { target, amount }: Pick<PlannedFault, 'target' | 'amount'>,
): { lock: string; key: string; isHolders: boolean } {
  const { locks } = plan;
  const lock = locks[target % locks.length]!;
  const keys = new LockKeys(lock);
  const { leases, line, places, permits } = keys;
  const all = isWeighted(plan)
    ? [keys.lock, keys.lock, leases, leases, line, places, permits]
    : [keys.lock];
  const key = all[Math.floor(amount * all.length)]!;
  return { lock, key, isHolders: key === keys.lock || key === leases };
}

/** It disturbs nobody's connection: who lost what by it, and in which line, is all that it excuses. */
async function deleteAt(
  stage: Stage,
  server: StageServer,
  lock: string,
  key: string,
  isHolders: boolean,
): Promise<void> {
  if (!(await server.isMaster())) return;
  const from = machineMs();
  const deleted = await server.call('DEL', key).catch((error: unknown) => {
    // Refused, or that of another server; without an answer it may have been deleted.
    return (error as Error).name === 'ReplyError' ? 0 : undefined;
  });
  if (deleted === 0) return;
  const isCertain = deleted === 1 && stage.plan.topology === 'single';
  const loses = isHolders ? { loses: [lock], endsHolds: true, isCertain, isDeletion: true } : {};
  const excuses: Excuses = { ...loses, disorders: [lock] };
  const touched = { clients: [], servers: [server.index] };
  stage.faults.begin(NAME, touched, excuses, `"${key}"`, from).end();
}

// What happens where masters have replicas: they take over, in order or since the master is silent.

const TOPOLOGIES = ['sentinel', 'cluster'] as const;

/** Replication is asynchronous: what a master granted last its successor may not know. */
const MAY_FORGET = { loses: 'all', endsHolds: true } as const;

/** How long a successor may take, and how long until everybody agrees who is master. */
const SETTLE_LIMIT_MS = 15_000;

export const REPLICA_NEMESES: readonly Nemesis[] = [
  {
    name: 'a replica takes over in order',
    weight: 3,
    topologies: TOPOLOGIES,
    leases: [0, 0],
    async act(stage, { target }) {
      const free = stage.faults.take('masters');
      if (!free) return;
      const fault = stage.faults.begin(this.name, {}, MAY_FORGET);
      const before = await mastersOf(stage);
      await stage.topology.failOver?.(target).catch(() => undefined); // there was one a moment ago
      // It begins some time after it was asked for, if it begins at all.
      await until(async () => (await mastersOf(stage)).some((master) => !before.includes(master)));
      if (await settled(stage, before.length)) fault.end(); // else there are two who take themselves for master
      free();
    },
  },
  {
    name: 'a replica takes over from a silent master',
    weight: 3,
    topologies: TOPOLOGIES,
    leases: [0, 0],
    async act(stage, { target }) {
      const free = stage.faults.take('masters');
      if (!free) return;
      const masters = await mastersOf(stage);
      const master = masters[target % masters.length];
      if (!master) {
        free();
        return;
      }
      const fault = stage.faults.begin(this.name, { servers: [master.index] }, MAY_FORGET);
      await master.redis.pause();
      await until(async () => (await mastersOf(stage)).length === masters.length);
      await master.redis.resume();
      if (await settled(stage, masters.length)) fault.end();
      free();
    },
  },
  {
    name: 'a slot moves',
    weight: 6,
    topologies: ['cluster'],
    leases: [0, 0],
    async act(stage, { target }) {
      const free = stage.faults.take('masters');
      if (!free) return;
      const masters = await mastersOf(stage);
      if (masters.length < 2) {
        free(); // the others do not answer: there is nowhere to move it
        return;
      }
      const fault = stage.faults.begin(this.name, {});
      const { locks } = stage.plan;
      const step = 1 + (target % (masters.length - 1));
      await until(async () => {
        try {
          await using mover = await SlotMover.of(masters.map(({ redis }) => redis));
          await mover.moveBy(step, await mover.slotOf(locks[target % locks.length]!));
          return true;
        } catch (error) {
          // A server stood still meanwhile, or was full: keys may be where nobody looks for them. Whoever moves slots goes on.
          stage.faults.begin(`${this.name} and is lost`, {}, MAY_FORGET, String(error)).end();
          return false;
        }
      });
      fault.end();
      free();
    },
  },
];

/** As many masters as before, and nobody who takes itself for one and is none; false: not within the limit. */
async function settled(stage: Stage, count: number): Promise<boolean> {
  return await until(async () => {
    const roles = await Promise.all(stage.servers.map((server) => server.isMaster()));
    return (
      roles.filter((isMaster) => isMaster).length === count &&
      roles.every((isMaster) => isMaster !== undefined)
    );
  });
}

/** Those that answer; one that stands still does not. */
async function mastersOf({ servers }: Stage): Promise<StageServer[]> {
  const masters = await Promise.all(
    servers.map(async (server) => {
      const isMaster = await Promise.race([server.isMaster(), sleep(200, undefined)]);
      return isMaster ? [server] : [];
    }),
  );
  return masters.flat();
}

async function until(isTrue: () => Promise<boolean>): Promise<boolean> {
  const endsAtMs = performance.now() + SETTLE_LIMIT_MS;
  while (performance.now() < endsAtMs) {
    if (await isTrue()) return true;
    await sleep(50);
  }
  return false;
}
