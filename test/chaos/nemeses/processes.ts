// What happens to processes and to clocks: they are killed, stopped, busy with something else, suspended; wall clocks step.
import type { PlannedFault } from '../plan.js';
import type { CrewMember } from '../stage/crew.js';
import type { Nemesis } from '../stage/stage.js';

/** Forward or back, from a tenth of a second to ten minutes. */
export function stepMs(amount: number): number {
  const sign = amount < 0.5 ? -1 : 1;
  return Math.round(sign * 100 * 6_000 ** Math.abs(2 * amount - 1));
}

export const STEPS_SERVER_CLOCK = "step a server's wall clock";

export const PROCESS_NEMESES: readonly Nemesis[] = [
  onWorker('kill a process', 2, [0.05, 1.5], async (member) => {
    await member.kill();
    return () => member.start();
  }),
  onWorker('stop a process', 3, [0.2, 2.5], (member) => {
    member.pause();
    return () => {
      member.resume();
    };
  }),
  onWorker('block an event loop', 3, [0.2, 2.2], (member, { forMs }) => {
    member.send({ type: 'block', ms: forMs });
    return () => member.next('blocked');
  }),
  {
    name: "step a process's wall clock",
    weight: 2,
    leases: [0.1, 3],
    async act(stage, { target, amount }, lasting) {
      const member = stage.member(target);
      const free = stage.faults.take(`clock ${member.index}`);
      if (!free) return;
      const detail = `by ${stepMs(amount)} ms`;
      const touched = { workers: [member.index] };
      // Whoever sees time go by must not rely on its locks, though they stand.
      const fault = stage.faults.begin(this.name, touched, { endsHolds: true }, detail);
      member.send({ type: 'wall', ms: stepMs(amount) });
      await lasting();
      member.send({ type: 'wall', ms: 0 });
      fault.end();
      free();
    },
  },
  onWorker('suspend a process', 2, [0.3, 2], (member, { forMs }) => {
    member.send({ type: 'suspend', ms: forMs });
    return () => member.next('blocked');
  }),
  {
    name: STEPS_SERVER_CLOCK,
    weight: 2,
    topologies: ['single'],
    leases: [0.3, 2],
    async act(stage, { target, amount }, lasting) {
      const server = stage.server(target);
      if (!server.clock) return;
      const free = stage.faults.take(`clock of server ${server.index}`);
      if (!free) return;
      const ms = Math.round(3_000 * (2 * amount - 1));
      const touched = { servers: [server.index] };
      const excuses = { ...LEASES_END, aheadMs: ms };
      // A clock that goes forward ends leases early, there or back: that is what a lease is.
      const fault = stage.faults.begin(this.name, touched, excuses, `by ${ms} ms`);
      await server.clock.step(ms);
      await lasting();
      await server.clock.step(0);
      fault.end();
      free();
    },
  },
];

const LEASES_END = { loses: 'all', endsHolds: true } as const;

/** A fault of one worker; `begin` returns what heals it. */
function onWorker(
  name: string,
  weight: number,
  leases: readonly [number, number],
  begin: (member: CrewMember, fault: PlannedFault) => Awaitable<() => unknown>,
): Nemesis {
  return {
    name,
    weight,
    leases,
    async act(stage, fault, lasting) {
      const member = stage.member(fault.target);
      const free = stage.faults.take(`worker ${member.index}`);
      if (!free) return;
      const noted = stage.faults.begin(name, { workers: [member.index] });
      const heal = await begin(member, fault);
      await lasting();
      await heal();
      noted.end();
      free();
    },
  };
}

type Awaitable<T> = T | Promise<T>;
