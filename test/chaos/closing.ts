// The end of a round for its processes: all clients are closed, and the processes end by themselves.
import { machineMs } from '../support/time.js';
import type { Violation } from './checker/evidence.js';
import type { OwnLag } from './own-lag.js';
import type { Stage } from './stage/stage.js';
import { STAYED } from './worker/work-order.js';

const CLOSE_SLACK_MS = 2_000;
/** How long a process may live on when its clients are closed. */
const EXIT_MS = 1_000;
/** How long a machine that is slow may take to end one that has nothing left to do: how it ended tells which one it was. */
const SLOW_EXIT_MS = 30_000;

export async function closeAll({ crew, plan }: Stage, ownLag: OwnLag): Promise<Violation[]> {
  const violations: Violation[] = [];
  const accuse = (message: string): void => {
    violations.push({ rule: 'left behind', at: machineMs(), sections: [], message });
  };
  await Promise.all(
    crew.map(async (member) => {
      if (plan.permits) {
        member.send({ type: 'count' });
        await member.next('counted');
      }
      member.send({ type: 'close' });
      const isClosed = await member.next('closed', plan.commandTimeoutMs + CLOSE_SLACK_MS).then(
        () => true,
        () => false,
      );
      if (!isClosed) {
        accuse(`the clients of worker ${member.index} did not close: ${member.output}`);
        return;
      }
      const closedAt = machineMs();
      const exited = await member.exitedWithin(SLOW_EXIT_MS);
      // One that had nothing left to do is ended by a machine that is slow.
      const hadNothingLeft = exited !== undefined && exited.code !== STAYED;
      const lateMs = (exited?.at ?? Infinity) - closedAt - EXIT_MS - ownLag.since(closedAt);
      if (lateMs > 0 && !hadNothingLeft)
        accuse(`worker ${member.index} did not end within ${EXIT_MS} ms of close()`);
      if (member.output) accuse(`worker ${member.index} printed: ${member.output}`);
    }),
  );
  return violations;
}
