// What happens to single commands, replies and messages: lost, doubled, late.
import { setTimeout as sleep } from 'node:timers/promises';
import { scripts } from '../../../src/redis/scripts.generated.js';
import type { Treatment } from '../../support/proxy-interceptors.js';
import { Random } from '../random.js';
import type { Stage } from '../stage/stage.js';
import type { Nemesis } from './nemesis.js';

export const COMMAND_NEMESES: readonly Nemesis[] = [
  {
    name: 'lose, double and delay commands',
    weight: 5,
    leases: [0.3, 3],
    async act(stage, { target, amount }, lasting) {
      const client = target % stage.clientCount;
      const free = stage.faults.take(`commands of client ${client}`);
      if (!free) return;
      const random = new Random(target, this.name);
      const odds = 0.01 + 0.3 * amount ** 2;
      const fault = stage.faults.begin(this.name, { clients: [client] });
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
      await lasting();
      for (const link of stage.links(client)) link.treatCommands();
      await Promise.all(late);
      fault.end();
      free();
    },
  },
  {
    name: 'lose, double and delay messages',
    weight: 4,
    leases: [0.3, 3],
    async act(stage, { target, amount }, lasting) {
      const client = target % stage.clientCount;
      const free = stage.faults.take(`messages of client ${client}`);
      if (!free) return;
      const random = new Random(target, this.name);
      const odds = 0.1 + 0.9 * amount;
      const fault = stage.faults.begin(this.name, { clients: [client] });
      for (const link of stage.links(client)) {
        link.treatMessages(() => {
          if (!random.chance(odds)) return [0];
          stage.mess.messages++;
          const copies = random.pick([0, 1, 1, 2, 3]);
          return Array.from({ length: copies }, () => random.pick([0, random.between(1, 2_000)]));
        });
      }
      await lasting();
      for (const link of stage.links(client)) link.treatMessages();
      fault.end();
      free();
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
