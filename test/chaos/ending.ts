// The end of a round: all who wait get a turn, all clients are closed, the processes end by themselves, and once the leases of the dead are over nothing
// is left on the servers.
import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../support/time.js';
import { violation, type Violation } from './checker/evidence.js';
import type { History } from './checker/history.js';
import type { Plan } from './plan.js';
import type { Stage } from './stage/stage.js';
import { STAYED } from './worker/work-order.js';

/** Those that these workers wait for, who do nothing since then, though all is healed. */
export function waitingInVain(
  { sections }: History,
  since: number,
  isWorking: (worker: number) => boolean = () => true,
): Violation {
  const all = [...sections.values()];
  const lastOf = new Map(all.map(({ worker, process }) => [worker, process]));
  const waiting = all.filter(
    ({ endedAt, worker, process }) =>
      endedAt === undefined && isWorking(worker) && lastOf.get(worker) === process,
  );
  const calls = waiting.map(({ id, how, locks }) => `${id} ${how} ${locks.join('+')}`).join(', ');
  const message = `${waiting.length} calls have not settled though all is healed and nothing has happened since: ${calls}`;
  return violation('waiting in vain', since, message, waiting);
}

const CLOSE_SLACK_MS = 2_000;
/** How long a process may live on when its clients are closed. */
const EXIT_MS = 1_000;
/** How long a machine that is slow may take to end one that has nothing left to do: how it ended tells which one it was. */
const SLOW_EXIT_MS = 30_000;

export async function closeAll({ crew, plan }: Stage, ownLag: OwnLag): Promise<Violation[]> {
  const violations: Violation[] = [];
  const accuse = (message: string): void => {
    violations.push(violation('left behind', machineMs(), message));
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

// What is left on the servers when all clients are closed: nothing, once the leases of the dead are over.

/** How long servers may take to hear that somebody has gone: what close() left behind would stand for most of a lease, which is 600 ms at least. */
const AT_ONCE_MS = 300;

/** How long the last token of a lock is remembered by default. */
const TOKEN_TTL_MS = 7 * 86_400_000;
/** How long it is remembered how many permits were set. */
const PERMITS_TTL_MS = 30 * 86_400_000;
/** By how much it may be ahead of the server's clock, which steps, and is remembered for longer. */
const MOST_AHEAD_MS = 10_000;

export async function findLeftovers(
  stage: Stage,
  healedAt: number,
  ownLag: OwnLag,
): Promise<Violation[]> {
  const begunAt = machineMs();
  // What a killed process held, or a late command took, stays for its lease; no lease here is longer than this.
  const leasesEndAt = healedAt + 2 * stage.plan.watchdogMs;
  const deadline = Math.max(begunAt, leasesEndAt) + AT_ONCE_MS;
  for (;;) {
    const askedAt = machineMs();
    const left = await everything(stage);
    if (left.length === 0) return [];
    // While this process stands still, its proxies do, too, and do not say that somebody has gone.
    if (askedAt > deadline + ownLag.since(begunAt)) {
      const message = `left on the server: ${left.join(', ')}`;
      return [violation('left behind', machineMs(), message)];
    }
    await sleep(50);
  }
}

async function everything({ servers, plan }: Stage): Promise<string[]> {
  const lists = await Promise.all(
    servers.map(async (server) => {
      const list = async (...command: [string, ...string[]]): Promise<string[]> =>
        ((await server.call(...command)) as string[] | undefined) ?? [];
      // A replica has what its master has, and does not tell how much longer.
      const keys = (await server.isMaster()) ? await list('KEYS', '*') : [];
      const channels = await list('PUBSUB', 'CHANNELS');
      const sharded = await list('PUBSUB', 'SHARDCHANNELS').catch(() => []); // before Redis 7
      const standing = await Promise.all(
        keys.map(async (key) => ({ key, ttlMs: Number(await server.call('PTTL', key)) })),
      );
      return [
        ...standing
          // They remember something for as long as the leases that it is about, and end by themselves.
          .filter(({ key, ttlMs }) => !(ttlMs > 0 && ttlMs <= memoryMs(key, plan)))
          .filter(({ ttlMs }) => ttlMs !== -2)
          .map(({ key, ttlMs }) => `key "${key}" (${ttlMs} ms)`),
        ...[...channels, ...sharded]
          .filter((channel) => !channel.startsWith('__sentinel__'))
          .map((channel) => `a subscription to ${channel}`),
      ];
    }),
  );
  return lists.flat();
}

/** For how long a key may stand when nobody is there any more. */
export function memoryMs(key: string, { watchdogMs, fencing, permits }: Plan): number {
  if (/^holdfast_(forced|forced_owners|longest_lease):/.test(key)) return 2 * watchdogMs;
  if (fencing && key.startsWith('redisson_lock_token:'))
    return (fencing.tokenTtlMs ?? TOKEN_TTL_MS) + MOST_AHEAD_MS;
  if (permits?.isChanged && key.startsWith('holdfast_permits:')) return PERMITS_TTL_MS;
  return 0;
}

// When the campaign's own process stood still: then its proxies did, too, and nothing that was late is anybody's fault.

const LOOK_EVERY_MS = 50;
const WORTH_NOTING_MS = 50;

export class OwnLag implements Disposable {
  readonly noted: { readonly at: number; readonly ms: number }[] = [];
  #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = this.#look();
  }

  /** For how long it stood still since then, in milliseconds. */
  since(at: number): number {
    return this.noted.filter((lag) => lag.at >= at).reduce((sum, { ms }) => sum + ms, 0);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #look(): NodeJS.Timeout {
    const since = machineMs();
    return setTimeout(() => {
      const ms = machineMs() - since - LOOK_EVERY_MS;
      if (ms > WORTH_NOTING_MS) this.noted.push({ at: machineMs(), ms });
      this.#timer = this.#look();
    }, LOOK_EVERY_MS);
  }
}
