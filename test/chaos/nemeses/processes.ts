// What happens to processes and to clocks: they are killed, stopped, busy with something else, suspended; wall clocks step.
import type { Nemesis } from '../stage/stage.js';

export const PROCESS_NEMESES: readonly Nemesis[] = [
  {
    name: 'kill a process',
    weight: 2,
    leases: [0.05, 1.5],
    async act(stage, { target }, lasting) {
      const member = stage.member(target);
      const free = stage.faults.take(`worker ${member.index}`);
      if (!free) return;
      const fault = stage.faults.begin(this.name, { workers: [member.index] });
      await member.kill();
      await lasting();
      await member.start();
      fault.end();
      free();
    },
  },
  {
    name: 'stop a process',
    weight: 3,
    leases: [0.2, 2.5],
    async act(stage, { target }, lasting) {
      const member = stage.member(target);
      const free = stage.faults.take(`worker ${member.index}`);
      if (!free) return;
      const fault = stage.faults.begin(this.name, { workers: [member.index] });
      member.pause();
      await lasting();
      member.resume();
      fault.end();
      free();
    },
  },
  {
    name: 'block an event loop',
    weight: 3,
    leases: [0.2, 2.2],
    async act(stage, { target, forMs }, lasting) {
      const member = stage.member(target);
      const free = stage.faults.take(`worker ${member.index}`);
      if (!free) return;
      const fault = stage.faults.begin(this.name, { workers: [member.index] });
      member.send({ type: 'block', ms: forMs });
      await lasting();
      await member.next('blocked');
      fault.end();
      free();
    },
  },
];

// What happens to clocks: wall clocks step, and a machine is suspended, so that monotonic clocks stand still.

/** Forward or back, from a tenth of a second to ten minutes. */
export function stepMs(amount: number): number {
  const sign = amount < 0.5 ? -1 : 1;
  return Math.round(sign * 100 * 6_000 ** Math.abs(2 * amount - 1));
}

export const STEPS_SERVER_CLOCK = "step a server's wall clock";

export const CLOCK_NEMESES: readonly Nemesis[] = [
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
  {
    name: 'suspend a process',
    weight: 2,
    leases: [0.3, 2],
    async act(stage, { target, forMs }, lasting) {
      const member = stage.member(target);
      const free = stage.faults.take(`worker ${member.index}`);
      if (!free) return;
      const fault = stage.faults.begin(this.name, { workers: [member.index] });
      member.send({ type: 'suspend', ms: forMs });
      await lasting();
      await member.next('blocked');
      fault.end();
      free();
    },
  },
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
