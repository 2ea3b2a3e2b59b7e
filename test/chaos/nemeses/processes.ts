// What happens to processes and to clocks: they are killed, stopped, busy with something else, suspended; wall clocks step.
import type { PlannedFault } from '../plan.js';
import type { CrewMember } from '../stage/crew.js';
import { disturb, type Nemesis } from '../stage/stage.js';

/** Forward or back, from a tenth of a second to ten minutes. */
export function stepMs(amount: number): number {
  const sign = amount < 0.5 ? -1 : 1;
  return Math.round(sign * 100 * 6_000 ** Math.abs(2 * amount - 1));
}

export const STEPS_SERVER_CLOCK = "step a server's wall clock";

const LEASES_END = { loses: 'all', endsHolds: true } as const;

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
      const ms = stepMs(amount);
      // Whoever sees time go by must not rely on its locks, though they stand.
      const excuses = { endsHolds: true };
      const noted = [this.name, { workers: [member.index] }, excuses, `by ${ms} ms`] as const;
      await disturb(stage, `clock ${member.index}`, noted, lasting, () => {
        member.send({ type: 'wall', ms });
        return () => {
          member.send({ type: 'wall', ms: 0 });
        };
      });
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
      const { clock, index } = stage.server(target);
      if (!clock) return;
      const ms = Math.round(3_000 * (2 * amount - 1));
      // A clock that goes forward ends leases early, there or back: that is what a lease is.
      const excuses = { ...LEASES_END, aheadMs: ms };
      const noted = [this.name, { servers: [index] }, excuses, `by ${ms} ms`] as const;
      await disturb(stage, `clock of server ${index}`, noted, lasting, async () => {
        await clock.step(ms);
        return () => clock.step(0);
      });
    },
  },
];

/** A fault of one worker; `begin` returns what heals it. */
function onWorker(
  name: string,
  weight: number,
  leases: readonly [number, number],
  begin: (member: CrewMember, fault: PlannedFault) => unknown,
): Nemesis {
  return {
    name,
    weight,
    leases,
    act(stage, fault, lasting) {
      const member = stage.member(fault.target);
      const noted = [name, { workers: [member.index] }] as const;
      const target = `worker ${member.index}`;
      return disturb(stage, target, noted, lasting, () => begin(member, fault));
    },
  };
}
