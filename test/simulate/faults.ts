// What goes wrong in a simulation. Each fault is noted with what it may excuse, in the words of the fault campaign.
import { RESTART_EMPTY } from '../chaos/checker/evidence.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import type { Excuses, Touched } from '../chaos/faults.js';
import { stepMs, STEPS_SERVER_CLOCK } from '../chaos/nemeses/processes.js';
import { someKey } from '../chaos/nemeses/servers.js';
import { planFaults } from '../chaos/plan-round.js';
import { isWeighted, type Kind, type PlannedFault } from '../chaos/plan.js';
import { Random } from '../chaos/random.js';
import type { Direction, Link, SimServer, Treatment } from './network.js';
import type { World } from './world.js';

interface Nemesis {
  readonly name: string;
  readonly weight: number;
  /** How long it lasts, in leases: from, to. */
  readonly leases: readonly [number, number];
  readonly isPossible?: (world: World) => boolean;
  /** Begins it; returns what ends it. Nothing happens where it returns undefined. */
  begin(world: World, fault: PlannedFault): (() => void) | undefined;
}

/** Locks that a release of one caller hands over to the next of the same client. */
const HANDS_OVER: readonly Kind[] = ['reentrant', 'kept', 'mixed', 'fenced'];

const FORGETS: Excuses = { loses: 'all', endsHolds: true };

const NEMESES: readonly Nemesis[] = [
  onProcess('kill a process', 2, [0.05, 1.5], (world, worker) => {
    world.kill(worker);
    return () => {
      world.start(worker);
    };
  }),
  stopping('stop a process', 4, [0.2, 2.5]),
  stopping('suspend a process', 2, [0.3, 2], true),
  {
    name: "step a process's wall clock",
    weight: 2,
    leases: [0.1, 3],
    begin(world, { target, amount }) {
      const worker = target % world.crews.length;
      const machine = world.machines[worker]!;
      if ((machine.upset ??= 'set') !== 'set') return undefined;
      const ms = stepMs(amount);
      // Whoever sees time go by must not rely on its locks, though they stand.
      const fault = [this.name, { workers: [worker] }, { endsHolds: true }] as const;
      return disturb(world, `clock ${worker}`, fault, () => {
        machine.wallAheadMs = ms;
        return () => {
          machine.wallAheadMs = 0;
        };
      });
    },
  },
  onLinks('cut connections', 4, [0, 0], (link) => {
    link.cut();
    return undefined;
  }),
  onLinks('half-close connections', 2, [0, 0], (link) => {
    link.halfOpen();
    return undefined;
  }),
  swallowing('swallow both directions', ['server', 'client']),
  swallowing('swallow commands', ['server']),
  swallowing('swallow replies', ['client']),
  swallowing('starve the subscriber', ['server', 'client'], true),
  onLinks('delay everything', 3, [0.2, 3], (link, { amount }) => {
    link.delayMs.server = 1 + 150 * amount;
    link.delayMs.client = 1 + 150 * (1 - amount);
    return () => {
      link.delayMs.server = 0;
      link.delayMs.client = 0;
    };
  }),
  onLinks('refuse connections', 2, [0.1, 1.5], (link) => {
    link.isRefusing = true;
    link.cut();
    return () => {
      link.isRefusing = false;
    };
  }),
  onLinks('lose, double and delay commands', 6, [0.3, 3], (link, { target, amount }) => {
    const random = new Random(target, `commands ${link.server.index}`);
    const odds = 0.01 + 0.3 * amount ** 2;
    const kinds: readonly Treatment[] = ['lose', 'lose reply', 'cut', 'double', 'late'];
    link.treat = () => (random.chance(odds) ? random.pick(kinds) : undefined);
    return () => {
      link.treat = undefined;
      link.cutSilent();
    };
  }),
  {
    // The successor is inside, its hand-over does not arrive, and others come.
    ...onLinks('lose, double and delay hand-overs', 5, [0.3, 3], (link, { target, amount }) => {
      const random = new Random(target, `hand-overs ${link.server.index}`);
      const kinds: readonly Treatment[] = ['lose', 'lose', 'lose reply', 'double', 'late'];
      link.treat = (_, [script]) =>
        script === scripts.releaseTo.sha1 && random.chance(0.3 + amount)
          ? random.pick(kinds)
          : undefined;
      return () => {
        link.treat = undefined;
        link.cutSilent();
      };
    }),
    isPossible: ({ plan }) => HANDS_OVER.includes(plan.kind),
  },
  {
    // What was marked without an answer is asked for again.
    ...onLinks('lose replies to acquisitions', 5, [0.3, 3], (link, { target, amount }) => {
      const random = new Random(target, `acquisitions ${link.server.index}`);
      link.treat = (_, [script]) =>
        script === scripts.acquire.sha1 && random.chance(0.1 + 0.5 * amount)
          ? random.pick(['lose reply', 'cut'])
          : undefined;
      return () => {
        link.treat = undefined;
        link.cutSilent();
      };
    }),
    isPossible: ({ plan }) => plan.kind === 'kept',
  },
  onLinks('lose, double and delay messages', 5, [0.3, 3], (link, { target, amount }) => {
    const random = new Random(target, `messages ${link.server.index}`);
    const odds = 0.1 + 0.9 * amount;
    link.treatMessage = () => {
      if (!random.chance(odds)) return [0];
      const copies = random.pick([0, 1, 1, 2, 3]);
      return Array.from({ length: copies }, () => random.pick([0, random.between(1, 2_000)]));
    };
    return () => {
      link.treatMessage = undefined;
    };
  }),
  onServers('CLIENT KILL', 2, [0, 0], (server) => {
    server.hangUp();
    return undefined;
  }),
  onServers('SCRIPT FLUSH', 2, [0, 0], (server) => {
    server.forgetScripts();
    return undefined;
  }),
  onServers('stop a server', 3, [0.1, 1.5], (server) => {
    server.process.stop();
    return () => {
      server.process.resume();
    };
  }),
  onServers(
    RESTART_EMPTY,
    3,
    [0.05, 1],
    (server, _fault, world) => {
      server.down();
      return () => {
        server.restart(!world.plan.isDurable);
        server.up();
      };
    },
    // What a majority of masters knows, or has forgotten and is guarded, is not lost.
    ({ plan }) => (plan.isDurable || plan.topology === 'masters' ? { endsHolds: true } : FORGETS),
  ),
  {
    ...onServers(
      STEPS_SERVER_CLOCK,
      2,
      [0.3, 2],
      (server, { amount }) => {
        const ms = Math.round(3_000 * (2 * amount - 1));
        server.machine.wallAheadMs += ms;
        return () => {
          server.machine.wallAheadMs -= ms;
        };
      },
      (_world, { amount }) => ({ ...FORGETS, aheadMs: Math.round(3_000 * (2 * amount - 1)) }),
    ),
    // Not where tokens are soon forgotten by themselves: nobody could tell when.
    isPossible: ({ plan }) => plan.topology === 'single' && plan.fencing?.tokenTtlMs === undefined,
  },
  {
    name: 'a replica takes over in order',
    weight: 2,
    leases: [0, 0],
    isPossible: ({ plan }) => plan.topology === 'single',
    begin(world, { amount }) {
      const [server] = world.servers;
      if (!server || server.isDown) return undefined;
      return disturb(world, 'server 0', [this.name, {}, FORGETS], () => {
        server.failOver(Math.floor(20 * amount));
        return undefined;
      });
    },
  },
  {
    name: 'delete a key',
    weight: 6,
    leases: [0, 0],
    isPossible: ({ plan }) => isWeighted(plan) || plan.kind === 'kept',
    begin(world, fault) {
      const { lock, key, isHolders } = someKey(world.plan, fault);
      const [server] = world.servers;
      if (!server || server.isDown || server.process.isStopped) return undefined;
      if (server.ask('del', key) !== 1) return undefined;
      const loses = isHolders ? { loses: [lock], endsHolds: true, isCertain: true } : {};
      world.faults
        .begin(
          this.name,
          { clients: [], servers: [0] },
          { ...loses, disorders: [lock] },
          `"${key}"`,
        )
        .end();
      return undefined;
    },
  },
];

/** What happens in a round. */
export function faultsOf(world: World): PlannedFault[] {
  const { plan } = world;
  const possible = NEMESES.filter(({ isPossible }) => isPossible?.(world) ?? true);
  return planFaults(new Random(plan.seed, `faults ${plan.kind}`), possible, plan);
}

/** Has them happen, and end, at their times. */
export function schedule(world: World, planned: readonly PlannedFault[]): void {
  const { time } = world;
  const startMs = time.nowMs;
  for (const fault of planned)
    time.at(startMs + fault.atMs, () => {
      const nemesis = NEMESES.find(({ name }) => name === fault.nemesis)!;
      world.trace(`fault ${fault.nemesis} ${fault.target} ${fault.amount} for ${fault.forMs}`);
      const end = nemesis.begin(world, fault);
      if (end)
        time.at(time.nowMs + fault.forMs, () => {
          world.trace(`healed ${fault.nemesis}`);
          end();
        });
    });
}

/** Takes the target, unless something else is wrong with it; returns what heals it. */
function disturb(
  world: World,
  target: string,
  [name, touched, excuses]: readonly [string, Touched, Excuses],
  begin: () => (() => void) | undefined,
): (() => void) | undefined {
  const free = world.faults.take(target);
  if (!free) return undefined;
  const note = world.faults.begin(name, touched, excuses);
  const heal = begin();
  return () => {
    heal?.();
    note.end();
    free();
  };
}

function onProcess(
  name: string,
  weight: number,
  leases: Nemesis['leases'],
  begin: (world: World, worker: number) => () => void,
): Nemesis {
  return {
    name,
    weight,
    leases,
    begin(world, { target }) {
      const worker = target % world.crews.length;
      const fault = [name, { workers: [worker] }, {}] as const;
      return disturb(world, `worker ${worker}`, fault, () => begin(world, worker));
    },
  };
}

/** `canSleep`: its monotonic clock stands still meanwhile, unless its wall clock is set in this round. */
function stopping(
  name: string,
  weight: number,
  leases: Nemesis['leases'],
  canSleep = false,
): Nemesis {
  return onProcess(name, weight, leases, (world, worker) => {
    const { process } = world.crews[worker]!;
    const isSuspended = canSleep && (world.machines[worker]!.upset ??= 'asleep') === 'asleep';
    process.stop();
    return () => {
      process.resume(isSuspended);
    };
  });
}

/** Of all links of one client; with several masters of those to one or two of them, or to all. */
function onLinks(
  name: string,
  weight: number,
  leases: Nemesis['leases'],
  begin: (link: Link, fault: PlannedFault) => (() => void) | undefined,
): Nemesis {
  return {
    name,
    weight,
    leases,
    begin(world, fault) {
      const client = fault.target % world.clientCount;
      return disturb(world, `links of client ${client}`, [name, { clients: [client] }, {}], () => {
        const heals = linksOf(world, client, fault).map((link) => begin(link, fault));
        return () => {
          for (const heal of heals) heal?.();
        };
      });
    },
  };
}

function linksOf(world: World, client: number, { target, amount }: PlannedFault): Link[] {
  const links = world.links[client]!;
  const count = links.length === 1 || amount < 0.4 ? 1 : amount < 0.8 ? 2 : links.length;
  return Array.from({ length: count }, (_, i) => links[(target + client + i) % links.length]!);
}

/** What was swallowed comes late, or never; then the connection ends, since a stream has no gaps. */
function swallowing(name: string, to: readonly Direction[], onlySubscribers = false): Nemesis {
  return onLinks(name, 2, [0.1, 2.5], (link, { amount }) => {
    link.swallowed = { to, onlySubscribers };
    return () => {
      link.heal(amount < 0.5);
    };
  });
}

/** Of a server; with several masters of one or two of them. */
function onServers(
  name: string,
  weight: number,
  leases: Nemesis['leases'],
  begin: (server: SimServer, fault: PlannedFault, world: World) => (() => void) | undefined,
  excuses: (world: World, fault: PlannedFault) => Excuses = () => ({}),
): Nemesis {
  return {
    name,
    weight,
    leases,
    begin(world, fault) {
      const { servers } = world;
      const count = servers.length > 1 && fault.amount % 0.5 < 0.25 ? 2 : 1;
      const heals = Array.from({ length: count }, (_, i) => {
        const server = servers[(fault.target + i) % servers.length]!;
        const noted = [name, { servers: [server.index] }, excuses(world, fault)] as const;
        return disturb(world, `server ${server.index}`, noted, () => begin(server, fault, world));
      });
      if (heals.every((heal) => !heal)) return undefined;
      return () => {
        for (const heal of heals) heal?.();
      };
    },
  };
}
