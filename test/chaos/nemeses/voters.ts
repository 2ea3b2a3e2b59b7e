// What happens to the votes of a Redlock: one of just enough is forgotten, and its holder cannot make that good; and to its tokens:
// those who are guarded must not make up for one that is not told.
import { setTimeout as sleep } from 'node:timers/promises';
import { RESTART_EMPTY } from '../checker/evidence.js';
import type { TcpProxy } from '../../support/tcp-proxy.js';
import type { Plan } from '../plan.js';
import type { Nemesis, Stage } from '../stage/stage.js';

/** By then, what other masters knew of a lock is over. */
const LAPSED = 1.1;
/** Shorter than what is left of a lease that is renewed every third of it. */
const STOPPED = 0.55;

export const VOTER_NEMESES: readonly Nemesis[] = [
  {
    name: 'a voter forgets what nobody repairs',
    weight: 4,
    topologies: ['masters'],
    leases: [LAPSED + STOPPED, LAPSED + STOPPED],
    async act(stage, { target }) {
      const { plan, servers } = stage;
      if (plan.isDurable) return;
      const member = stage.member(target);
      const clients = Array.from(
        { length: plan.clientsPerWorker },
        (_, index) => member.index * plan.clientsPerWorker + index,
      );
      const [forgetful, ...others] = servers.map((_, i) => (target + i) % servers.length);
      const unreached = others.slice(0, Math.floor((servers.length - 1) / 2));
      const wanted = [`worker ${member.index}`, `server ${forgetful}`];
      wanted.push(...clients.map((client) => `links of client ${client}`));
      const taken = wanted.flatMap((what) => stage.faults.take(what) ?? []);
      const free = (): void => {
        for (const giveBack of taken) giveBack();
      };
      if (taken.length < wanted.length) {
        free();
        return;
      }
      const touched = { workers: [member.index], clients, servers: [forgetful!] };
      const fault = stage.faults.begin(this.name, touched, { endsHolds: true });
      const links = clients.flatMap((client) => unreached.map((i) => stage.links(client)[i]!));
      for (const link of links) {
        link.refuse();
        link.cut();
      }
      // From now on its holds have just a majority.
      await sleep(LAPSED * plan.watchdogMs);
      member.pause();
      const { redis } = servers[forgetful!]!;
      await redis.kill();
      await redis.start();
      await sleep(STOPPED * plan.watchdogMs);
      member.resume();
      await Promise.all(links.map((link) => link.accept()));
      fault.end();
      free();
    },
  },
  {
    name: 'a token is lost while masters are guarded',
    weight: 4,
    topologies: ['masters'],
    isOfTokens: true,
    // As long as the shortest guard: who restarted counts again after that.
    leases: [1, 1],
    async act(stage, { target }, lasting) {
      const { servers } = stage;
      const [untold, ...others] = servers.map((_, i) => (target + i) % servers.length);
      const guarded = others.slice(0, Math.floor((servers.length - 1) / 2));
      const taken = guarded.flatMap((index) => stage.faults.take(`server ${index}`) ?? []);
      if (taken.length === guarded.length) {
        const restarting = stage.faults.begin(
          RESTART_EMPTY,
          { servers: guarded },
          { endsHolds: true },
        );
        await Promise.all(guarded.map((index) => servers[index]!.redis.kill()));
        await Promise.all(guarded.map((index) => servers[index]!.redis.start()));
        restarting.end();
        await loseTokens(stage, [untold!], this.name, lasting);
      }
      for (const free of taken) free();
    },
  },
  {
    name: 'votes reach a few masters late and tokens do not',
    weight: 4,
    topologies: ['masters'],
    isOfTokens: true,
    leases: [1, 2],
    // Half of the clients get the votes of the master whose clock is most ahead and of a few others, and have their token known by the
    // rest, who voted for the other half before that. The votes of the few reach the other half when the lock is free again.
    async act(stage, { target }, lasting) {
      const { plan, clientCount } = stage;
      const { ahead, few, rest } = parted(plan);
      const clients = Array.from({ length: clientCount }, (_, client) => client);
      const taken = clients.flatMap((client) => {
        const free = stage.faults.take(`links of client ${client}`);
        return free ? [{ client, free }] : [];
      });
      const delayed: TcpProxy[] = [];
      for (const { client } of taken) {
        const links = stage.links(client);
        const isOtherHalf = (client + target) % 2 === 0;
        const shares = isOtherHalf
          ? { ahead: 0.1, few: 0.75, rest: 0 }
          : { ahead: 0, few: 0.2, rest: 0.1 };
        const delay = (index: number, share: number): void => {
          links[index]!.delay({ upstreamMs: share * plan.nodeTimeoutMs });
          delayed.push(links[index]!);
        };
        delay(ahead, shares.ahead);
        for (const index of few) delay(index, shares.few);
        for (const index of rest) delay(index, shares.rest);
      }
      await loseTokens(stage, few, this.name, lasting);
      for (const link of delayed) link.delay();
      for (const { free } of taken) free();
    },
  },
];

/** The master whose clock is most ahead; as many others as may be missing, those least ahead; and the rest. */
function parted({ masters, clocksAheadMs = [] }: Plan): {
  ahead: number;
  few: number[];
  rest: number[];
} {
  const byClock = Array.from({ length: masters }, (_, index) => index).sort(
    (one, other) => (clocksAheadMs[one] ?? 0) - (clocksAheadMs[other] ?? 0),
  );
  const count = Math.floor((masters - 1) / 2);
  return { ahead: byClock.at(-1)!, few: byClock.slice(0, count), rest: byClock.slice(count, -1) };
}

/** No client's token is taken by these masters meanwhile. */
async function loseTokens(
  stage: Stage,
  untold: readonly number[],
  name: string,
  lasting: () => Promise<void>,
): Promise<void> {
  const taken = Array.from({ length: stage.clientCount }, (_, client) => client).flatMap(
    (client) => {
      const free = stage.faults.take(`commands of client ${client}`);
      return free ? [{ client, free }] : [];
    },
  );
  const fault = stage.faults.begin(name, { clients: taken.map(({ client }) => client) });
  const links = taken.flatMap(({ client }) => untold.map((index) => stage.links(client)[index]!));
  for (const link of links) {
    link.treatCommands((args) => {
      if (!isToken(args)) return undefined;
      stage.mess.commands++;
      return { kind: 'refuse', then: 'cut', done: () => undefined };
    });
  }
  await lasting();
  for (const link of links) link.treatCommands();
  fault.end();
  for (const { free } of taken) free();
}

/** Whether it writes a token, and nothing else: a script with that one key. */
function isToken([name, , count, key]: readonly Buffer[]): boolean {
  const isScript = /^eval(sha)?$/i.test(String(name)) && String(count) === '1';
  return isScript && String(key).startsWith('redisson_lock_token:');
}
