// The end of a round: all waiters get a turn, all clients are closed, the processes end by themselves, and once the leases of dead holders
// are over nothing is left on the servers.
import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../support/time.js';
import { violation, type Violation } from './checker/evidence.js';
import type { History } from './checker/history.js';
import type { Plan } from './plan.js';
import type { Stage } from './stage/stage.js';
import { STAYED } from './worker/work-order.js';

/** The locks that these workers wait for, without any progress, although all is healed. */
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
/** How long a slow machine may take to say that it has closed, or to end a process that has nothing left to do. */
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
      const askedAt = machineMs();
      member.send({ type: 'close' });
      // The worker says when: this process, too, may stand still.
      const closed = await member.next('closed', SLOW_EXIT_MS).catch(() => undefined);
      const tookMs = Number(closed?.['atMs'] ?? Infinity) - askedAt - ownLag.since(askedAt);
      const limitMs = plan.commandTimeoutMs + CLOSE_SLACK_MS;
      if (tookMs > limitMs)
        accuse(
          `the clients of worker ${member.index} did not close within ${limitMs} ms: ${member.output}`,
        );
      if (!closed) return;
      const closedAt = machineMs();
      const exited = await member.exitedWithin(SLOW_EXIT_MS);
      // A process that had nothing left to do is ended late by a slow machine.
      const hadNothingLeft = exited !== undefined && exited.code !== STAYED;
      const lateMs = (exited?.at ?? Infinity) - closedAt - EXIT_MS - ownLag.since(closedAt);
      if (lateMs > 0 && !hadNothingLeft)
        accuse(`worker ${member.index} did not end within ${EXIT_MS} ms of close()`);
      if (member.output) accuse(`worker ${member.index} printed: ${member.output}`);
    }),
  );
  return violations;
}

// The remains on the servers when all clients are closed: none, once the leases of dead holders are over.

/**
 * How long servers may take to notice that a client has gone: the remains of close() would last for most of a lease, which is 600 ms at
 * least.
 */
const AT_ONCE_MS = 300;

/** How long the last token of a lock is remembered by default. */
const TOKEN_TTL_MS = 7 * 86_400_000;
/** How long the set number of permits is remembered. */
const PERMITS_TTL_MS = 30 * 86_400_000;
/** How far it may be ahead of the server's clock, which steps; it is remembered longer by that. */
const MOST_AHEAD_MS = 10_000;

export async function findLeftovers(
  stage: Stage,
  healedAt: number,
  ownLag: OwnLag,
): Promise<Violation[]> {
  const begunAt = machineMs();
  // The locks of a killed process, or of a late command, last for their leases; no lease here is longer than this.
  const leasesEndAt = healedAt + 2 * stage.plan.watchdogMs;
  const deadline = Math.max(begunAt, leasesEndAt) + AT_ONCE_MS;
  for (;;) {
    const askedAt = machineMs();
    const left = await everything(stage);
    if (left.length === 0) return [];
    // While this process is suspended, its proxies are as well, and do not report that a client has gone.
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
      // A replica has its master's keys, and does not report their remaining time.
      const keys = (await server.isMaster()) ? await list('KEYS', '*') : [];
      const channels = await list('PUBSUB', 'CHANNELS');
      const sharded = await list('PUBSUB', 'SHARDCHANNELS').catch(() => []); // before Redis 7
      const standing = await Promise.all(
        keys.map(async (key) => ({ key, ttlMs: Number(await server.call('PTTL', key)) })),
      );
      return [
        ...standing
          // They remember something for as long as the leases that it is about, and expire.
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

/** How long a key may exist when all clients have gone. */
export function memoryMs(key: string, { watchdogMs, fencing, permits }: Plan): number {
  if (/^holdfast_(forced|forced_owners|longest_lease):/.test(key)) return 2 * watchdogMs;
  if (fencing && key.startsWith('redisson_lock_token:'))
    return (fencing.tokenTtlMs ?? TOKEN_TTL_MS) + MOST_AHEAD_MS;
  if (permits?.isChanged && key.startsWith('holdfast_permits:')) return PERMITS_TTL_MS;
  return 0;
}

// When the campaign's own process was suspended: then its proxies were as well, and a delay is nobody's fault.

const LOOK_EVERY_MS = 50;
const WORTH_NOTING_MS = 50;

export class OwnLag implements Disposable {
  readonly noted: { readonly at: number; readonly ms: number }[] = [];
  #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = this.#look();
  }

  /** For how long it was suspended since then, in milliseconds. */
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
