// What happens to the votes of a Redlock: one of just enough is forgotten, and its holder cannot make that good.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Nemesis } from './nemesis.js';

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
];
