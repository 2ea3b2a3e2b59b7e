// What happens to single keys of a lock: somebody deletes one, or the server evicts it.
import { machineMs } from '../../support/time.js';
import { LockKeys } from '../../../src/redis/keys.js';
import type { Excuses } from '../faults.js';
import type { Plan, PlannedFault } from '../plan.js';
import type { Stage } from '../stage/stage.js';
import type { StageServer } from '../stage/server.js';
import type { Nemesis } from './nemesis.js';

const NAME = 'delete a key';

export const KEY_NEMESES: readonly Nemesis[] = [
  {
    name: NAME,
    weight: 6,
    kinds: ['semaphore', 'read-write'],
    leases: [0, 0],
    async act(stage, fault) {
      const { lock, key, isHolders } = someKey(stage.plan, fault);
      await Promise.all(
        stage.servers.map((server) => deleteAt(stage, server, lock, key, isHolders)),
      );
    },
  },
];

/** A key of a lock; `isHolders`: it says who holds the lock. */
export function someKey(
  { locks }: Pick<Plan, 'locks'>,
  { target, amount }: Pick<PlannedFault, 'target' | 'amount'>,
): { lock: string; key: string; isHolders: boolean } {
  const lock = locks[target % locks.length]!;
  const keys = new LockKeys(lock);
  const { leases, line, places, permits } = keys;
  const all = [keys.lock, keys.lock, leases, leases, line, places, permits];
  const key = all[Math.floor(amount * all.length)]!;
  return { lock, key, isHolders: key === keys.lock || key === leases };
}

/** It disturbs nobody's connection: who lost what by it, and in which line, is all that it excuses. */
async function deleteAt(
  stage: Stage,
  server: StageServer,
  lock: string,
  key: string,
  isHolders: boolean,
): Promise<void> {
  if (!(await server.isMaster())) return;
  const from = machineMs();
  const deleted = await server.call('DEL', key).catch((error: unknown) => {
    // Refused, or that of another server; without an answer it may have been deleted.
    return (error as Error).name === 'ReplyError' ? 0 : undefined;
  });
  if (deleted === 0) return;
  const isCertain = deleted === 1 && stage.plan.topology === 'single';
  const loses = isHolders ? { loses: [lock], endsHolds: true, isCertain } : {};
  const excuses: Excuses = { ...loses, disorders: [lock] };
  const touched = { clients: [], servers: [server.index] };
  stage.faults.begin(NAME, touched, excuses, `"${key}"`, from).end();
}
