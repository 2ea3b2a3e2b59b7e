// What goes wrong in a simulation. Each fault is noted with what it may excuse, in the words of the fault campaign.
import { RESTART_EMPTY } from '../chaos/checker/evidence.js';
import { WISHES } from '../../src/core/lookout.js';
import { LockKeys } from '../../src/redis/keys.js';
import { INVALIDATIONS } from '../../src/redis/port.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import { grouped } from '../chaos/checker/history.js';
import type { Excuses, Touched } from '../chaos/faults.js';
import { stepMs, STEPS_SERVER_CLOCK } from '../chaos/nemeses/processes.js';
import { someKey } from '../chaos/nemeses/servers.js';
import { planFaults } from '../chaos/plan-round.js';
import { paceMs, type Kind, type PlannedFault } from '../chaos/plan.js';
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
      link.cutHearers();
    };
  }),
  onLinks('end the connections that tell of changes', 4, [0, 0], (link, { amount }) => {
    for (const [reader, hearer] of link.pairs) {
      if (amount < 0.7) hearer.cut();
      if (amount > 0.4) reader.cut();
    }
    return undefined;
  }),
  onServers('refuse to tell of changes', 2, [0.3, 3], (server) => {
    server.tell('refusals');
    return () => {
      server.tell('changes');
    };
  }),
  onServers('promise to tell of changes, and do not', 2, [0.3, 3], (server) => {
    server.tell('nothing');
    return () => {
      server.tell('changes');
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
  onKeys('delete a key', 6, (world, fault, server) => {
    const { lock, key } = someKey(world.plan, fault);
    takeAway(world, 'delete a key', server, [{ lock, key }]);
    return undefined;
  }),
  onKeys('evict keys', 3, (world, { target, amount }, server) => {
    const random = new Random(target, 'evicted');
    const known = world.plan.locks.flatMap((lock) => keysOf(lock).map((key) => ({ lock, key })));
    const present = known.filter(({ key }) => server.keys.names.includes(key));
    const evicted = present.length > 0 ? random.some(present, Math.ceil(3 * amount)) : [];
    takeAway(world, 'evict keys', server, evicted);
    return undefined;
  }),
  {
    ...onKeys('flush all keys', 2, (world, _fault, server) => {
      world.trace(`flushed ${server.index}`);
      server.ask('flushall');
      const excuses = { ...FORGETS, isCertain: world.servers.length === 1, isDeletion: true };
      const disorders = world.plan.locks;
      note(world, 'flush all keys', server, { ...excuses, disorders });
      return undefined;
    }),
    // Which token was the last one most masters must know.
    isPossible: ({ plan }) => plan.topology === 'single' || plan.fencing === undefined,
  },
  {
    // Whoever it is writes what is there already.
    ...onKeys('write to keys all the time', 3, writeAllTheTime),
    leases: [0.3, 3],
  },
  onKeys('publish forged words', 3, (world, _fault, server) => {
    for (const [client, numbers] of ownersAt(world, server))
      for (const word of [`${numbers.join()} forced`, `${numbers.join()} gone`, 'x forced', ' '])
        server.ask('publish', `${WISHES}${client}`, word);
    for (const lock of world.plan.locks) server.ask('publish', INVALIDATIONS, lock);
    note(world, 'publish forged words', server, {});
    return undefined;
  }),
];

/** All that may be known of a lock by its server. */
function keysOf(lock: string): string[] {
  const keys = new LockKeys(lock);
  const { leases, line, places, permits } = keys;
  return [lock, leases, line, places, permits, keys.counter(false), keys.counter(true)];
}

/** Deletes those that are there. Who lost what by it, and in which line, is all that it excuses. */
function takeAway(
  world: World,
  name: string,
  server: SimServer,
  keys: readonly { readonly lock: string; readonly key: string }[],
): void {
  for (const { lock, key } of keys) {
    if (server.ask('del', key) !== 1) continue;
    const isHolders = key === lock || key === new LockKeys(lock).leases;
    const isCertain = isHolders && world.servers.length === 1;
    const isToken = key === new LockKeys(lock).counter(false);
    const loses =
      isHolders || isToken
        ? { loses: [lock], endsHolds: isHolders, isCertain, isDeletion: true }
        : {};
    note(world, name, server, { ...loses, disorders: [lock] }, `"${key}"`);
  }
}

/** Notes what has happened at once, to no connection. */
function note(
  world: World,
  name: string,
  server: SimServer,
  excuses: Excuses,
  detail?: string,
): void {
  world.faults.begin(name, { clients: [], servers: [server.index] }, excuses, detail).end();
}

/** The numbers of the owners that hold a lock there, by client. */
function ownersAt({ plan }: World, server: SimServer): Map<string, string[]> {
  const owners = plan.locks.flatMap((lock) => fieldsOf(server, lock).map(([field]) => field));
  const byClient = grouped(owners, (owner) => owner.replace(/:[^:]*$/, ''));
  return new Map(
    [...byClient].map(([client, its]) => [client, its.map((owner) => owner.replace(/.*:/, ''))]),
  );
}

/** The owners that hold a lock there, and what they have. */
function fieldsOf(server: SimServer, lock: string): [owner: string, count: string][] {
  const value = server.keys.entry(lock)?.value;
  return value instanceof Map ? [...value].filter(([field]) => field.includes(':')) : [];
}

const WRITE_EVERY_MS = 7;

function writeAllTheTime(world: World, _fault: PlannedFault, server: SimServer): () => void {
  let isOver = false;
  const write = (): void => {
    if (isOver) return;
    if (!server.isDown && !server.process.isStopped)
      for (const lock of world.plan.locks)
        for (const [owner, count] of fieldsOf(server, lock)) server.ask('hset', lock, owner, count);
    world.time.at(world.time.nowMs + WRITE_EVERY_MS, write);
  };
  write();
  return () => {
    isOver = true;
  };
}

/** What long rounds are about; and how many leases lie between two such faults: holds have to become old enough to be told of one. */
const TAKINGS: ReadonlySet<string> = new Set([
  'delete a key',
  'evict keys',
  'flush all keys',
  'write to keys all the time',
  'end the connections that tell of changes',
]);
const TAKEN_EVERY = [0.5, 3] as const;

/** What happens in a round. */
export function faultsOf(world: World): PlannedFault[] {
  const { plan } = world;
  const possible = NEMESES.filter(({ isPossible }) => isPossible?.(world) ?? true);
  const random = new Random(plan.seed, `faults ${plan.kind}`);
  if (!plan.isLong) return planFaults(random, possible, plan);
  const pace = { ...plan, watchdogMs: paceMs(plan) };
  const takings = possible
    .filter(({ name }) => TAKINGS.has(name))
    .map((nemesis) => ({ ...nemesis, leases: TAKEN_EVERY }));
  const others = random.chance(0.5) ? possible : [];
  return [...planFaults(random, takings, pace, 2), ...planFaults(random, others, pace, 1)].sort(
    (one, other) => one.atMs - other.atMs,
  );
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

/** What happens to keys: at one server, or at all of several masters. */
function onKeys(
  name: string,
  weight: number,
  act: (world: World, fault: PlannedFault, server: SimServer) => (() => void) | undefined,
): Nemesis {
  return {
    name,
    weight,
    leases: [0, 0],
    begin(world, fault) {
      const { servers } = world;
      const chosen = fault.amount < 0.5 ? [servers[fault.target % servers.length]!] : servers;
      const present = chosen.filter((server) => !server.isDown && !server.process.isStopped);
      const ends = present.map((server) => act(world, fault, server));
      return () => {
        for (const end of ends) end?.();
      };
    },
  };
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
