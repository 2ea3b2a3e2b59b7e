// What happens to servers: they stand still, refuse, forget, and come back.
import { setTimeout as sleep } from 'node:timers/promises';
import type { PlannedFault } from '../plan.js';
import type { Stage } from '../stage/stage.js';
import type { StageServer } from '../stage/server.js';
import type { Nemesis } from './nemesis.js';
import type { Excuses } from '../faults.js';

const ANYWHERE = ['single', 'masters', 'sentinel', 'cluster'] as const;
const ALONE = ['single', 'masters'] as const;

export const SERVER_NEMESES: readonly Nemesis[] = [
  onServers('CLIENT KILL', 2, [0, 0], async (server, { amount }) => {
    await server.call('CLIENT', 'KILL', 'TYPE', amount < 0.5 ? 'normal' : 'pubsub');
    return undefined;
  }),
  onServers('CLIENT PAUSE', 2, [0.1, 1.5], async (server, { amount, forMs }) => {
    // With ALL, not even CLIENT UNPAUSE is heard.
    await server.call('CLIENT', 'PAUSE', String(Math.ceil(forMs)), amount < 0.5 ? 'ALL' : 'WRITE');
    return undefined;
  }),
  onServers('DEBUG SLEEP', 2, [0.1, 1], (server, { forMs }) => {
    // Where DEBUG is not allowed, nothing happens.
    void server.call('DEBUG', 'SLEEP', String(forMs / 1_000)).catch(() => undefined);
    return Promise.resolve(undefined);
  }),
  onServers('SCRIPT FLUSH', 2, [0, 0], async (server) => {
    await server.call('SCRIPT', 'FLUSH');
    return undefined;
  }),
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

/** A fault of a server; with several masters of one or two of them. */
function onServers(
  name: string,
  weight: number,
  leases: readonly [number, number],
  begin: (
    server: StageServer,
    fault: PlannedFault,
  ) => Promise<(() => Promise<unknown>) | undefined>,
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
        servers.map(async (server) => {
          const free = stage.faults.take(`server ${server.index}`);
          if (!free) return;
          const noted = stage.faults.begin(name, { servers: [server.index] }, excuses(stage));
          const heal = await begin(server, fault).catch(() => undefined); // it is down already
          await lasting();
          if (heal) await healed(heal);
          noted.end();
          free();
        }),
      );
    },
  };
}
