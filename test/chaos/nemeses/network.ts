// What happens between a client and its servers: nothing passes, or late, or only one way; and to single commands, replies and
// messages: lost, doubled, late.
import { setTimeout as sleep } from 'node:timers/promises';
import { scripts } from '../../../src/redis/scripts.generated.js';
import type { Swallowed, Treatment } from '../../support/proxy-link.js';
import type { TcpProxy } from '../../support/tcp-proxy.js';
import type { PlannedFault } from '../plan.js';
import { Random } from '../random.js';
import { disturb, type Nemesis, type Stage } from '../stage/stage.js';

export const NETWORK_NEMESES: readonly Nemesis[] = [
  network('cut connections', 3, [0, 0], (link) => {
    link.cut();
    return undefined;
  }),
  network('half-close connections', 2, [0, 0], (link) => {
    link.halfOpen();
    return undefined;
  }),
  swallowing('swallow both directions', 'both'),
  swallowing('swallow commands', 'upstream'),
  swallowing('swallow replies', 'downstream'),
  swallowing('starve the subscriber', 'both', 'subscribers'),
  network('delay everything', 3, [0.2, 3], (link, { amount }) => {
    link.delay({ upstreamMs: 1 + 150 * amount, downstreamMs: 1 + 150 * (1 - amount) });
    return () => {
      link.delay();
    };
  }),
  network('refuse connections', 2, [0.1, 1.5], (link) => {
    link.refuse();
    link.cut();
    return () => link.accept();
  }),
];

/** What was swallowed comes late, or never; then the connection ends, since a stream has no gaps. */
function swallowing(name: string, what: Swallowed, links?: 'subscribers'): Nemesis {
  return network(name, 2, [0.1, 2.5], (link, { amount }) => {
    link.blackhole(what, links);
    return () => {
      link.heal(amount < 0.5 ? 'forward' : 'drop');
      if (amount >= 0.5) link.cut();
    };
  });
}

/** A fault of all links of one client; or, with several masters, of one or two of them. */
function network(
  name: string,
  weight: number,
  leases: readonly [number, number],
  begin: (link: TcpProxy, fault: PlannedFault) => (() => unknown) | undefined,
): Nemesis {
  return {
    name,
    weight,
    leases,
    act(stage, fault, lasting) {
      const client = fault.target % stage.clientCount;
      const noted = [name, { clients: [client] }] as const;
      return disturb(stage, `links of client ${client}`, noted, lasting, () => {
        const heals = touchedLinks(stage, client, fault).map((link) => begin(link, fault));
        return async () => {
          for (const heal of heals) await heal?.();
        };
      });
    },
  };
}

function touchedLinks(stage: Stage, client: number, { target, amount }: PlannedFault): TcpProxy[] {
  const links = stage.links(client);
  if (stage.plan.topology !== 'masters') return [...links];
  const first = target % links.length;
  const count = amount < 0.4 ? 1 : amount < 0.8 ? 2 : links.length;
  return Array.from({ length: count }, (_, i) => links[(first + i) % links.length]!);
}

// What happens to single commands, replies and messages: lost, doubled, late.

export const COMMAND_NEMESES: readonly Nemesis[] = [
  {
    name: 'lose, double and delay commands',
    weight: 5,
    leases: [0.3, 3],
    act(stage, { target, amount }, lasting) {
      const client = target % stage.clientCount;
      const random = new Random(target, this.name);
      const odds = 0.01 + 0.3 * amount ** 2;
      const noted = [this.name, { clients: [client] }] as const;
      return disturb(stage, `commands of client ${client}`, noted, lasting, () => {
        const late: Promise<void>[] = [];
        for (const [server, link] of stage.links(client).entries()) {
          link.treatCommands((args) => {
            if (!random.chance(odds)) return undefined;
            stage.mess.commands++;
            const kind = random.pick(['lose', 'lose reply', 'cut', 'double', 'late'] as const);
            if (kind === 'lose') return treatment('hold back', random);
            if (kind === 'lose reply') return treatment('lose reply', random);
            if (kind === 'cut') return treatment('cut after forwarding', random);
            if (mayRunTwice(args)) {
              const copy = args.map((arg) => Buffer.from(arg));
              late.push(deliver(stage, server, copy, random.between(0, 2 * stage.plan.watchdogMs)));
            }
            // Late: the first try never arrives, and its copy does when the client has long reconnected.
            return kind === 'late' ? treatment('hold back', random) : undefined;
          });
        }
        return async () => {
          for (const link of stage.links(client)) link.treatCommands();
          await Promise.all(late);
        };
      });
    },
  },
  {
    name: 'lose, double and delay messages',
    weight: 4,
    leases: [0.3, 3],
    act(stage, { target, amount }, lasting) {
      const client = target % stage.clientCount;
      const random = new Random(target, this.name);
      const odds = 0.1 + 0.9 * amount;
      const noted = [this.name, { clients: [client] }] as const;
      return disturb(stage, `messages of client ${client}`, noted, lasting, () => {
        const fates = (): number[] => {
          if (!random.chance(odds)) return [0];
          stage.mess.messages++;
          const copies = random.pick([0, 1, 1, 2, 3]);
          return Array.from({ length: copies }, () => random.pick([0, random.between(1, 2_000)]));
        };
        for (const link of stage.links(client)) link.treatMessages(fates);
        return () => {
          for (const link of stage.links(client)) link.treatMessages();
        };
      });
    },
  },
];

function treatment(kind: Treatment['kind'], random: Random): Treatment {
  return { kind, then: random.chance(0.5) ? 'cut' : 'silence', done: () => undefined };
}

async function deliver(
  stage: Stage,
  server: number,
  [name, ...args]: Buffer[],
  inMs: number,
): Promise<void> {
  await sleep(inMs);
  // Refused, or nobody there: then it is lost.
  await stage.servers[server]!.call(String(name), ...args).catch(() => undefined);
}

/** forceUnlock frees whoever holds the lock when it runs: nobody promises anything about a second time. */
const FORCES = [scripts.forceUnlock, scripts.weightedForce];
export const FORCE_SHA1S = FORCES.map(({ sha1 }) => sha1);

/** Whether it may run when its connection is gone: a script does; what concerns a connection concerns another one. */
function mayRunTwice([name, script]: readonly Buffer[]): boolean {
  if (/^evalsha$/i.test(String(name))) return !FORCE_SHA1S.includes(String(script));
  return /^eval$/i.test(String(name)) && !FORCES.some(({ source }) => source === String(script));
}
