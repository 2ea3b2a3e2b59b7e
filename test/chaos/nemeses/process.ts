// What happens to processes: they are killed, stopped, and busy with something else.
import type { Nemesis } from './nemesis.js';

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
