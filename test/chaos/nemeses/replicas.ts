// What happens where masters have replicas: they take over, in order or since the master is silent.
import { setTimeout as sleep } from 'node:timers/promises';
import { SlotMover } from '../../support/cluster.js';
import type { Stage } from '../stage/stage.js';
import type { StageServer } from '../stage/server.js';
import type { Nemesis } from './nemesis.js';

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
