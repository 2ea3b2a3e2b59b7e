// The verbs doctor and bench: whether a Redis is set up right for locks, and how many pairs of lock and unlock it gives.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { HoldfastError } from '../api/errors.js';
import { Listeners } from '../core/events.js';
import { WISHES } from '../core/lookout.js';
import { notAnswered } from '../core/messages.js';
import type { Holdfast } from '../holdfast.js';
import { RedisClient } from '../redis/client.js';
import { describe, failureKind, isReply } from '../redis/failure.js';
import { infoField } from '../redis/greeting.js';
import { libraryFor } from '../redis/installed.js';
import { LockKeys, SLOT_COUNT, tagOf } from '../redis/keys.js';
import { INVALIDATIONS } from '../redis/port.js';
import { ignore } from '../redis/wire.js';
import { WaitEnded, WaitLimit } from '../runtime/wait-limit.js';
import { commandsFor } from './acl.js';
import { connect, durationOf, type Verb, withClient } from './command.js';
import { EXIT } from './failure.js';
import { type Line, print, printJson, styled, table } from './terminal.js';
import { sourceOf, type Values } from './where.js';

const TIMEOUT_MS = 5_000;
/** The pause before a command that was not sent is sent again, while the other nodes of a cluster are found. */
const AGAIN_MS = 20;
/** As if this were a client with an id. */
const WISHES_CHANNEL = `${WISHES}doctor`;

export const doctor: Verb = {
  usage: 'doctor',
  summary:
    'checks a Redis: version, eviction, persistence, replicas, permissions, latency, wake-ups, tracking',
  details:
    'It sends commands as a client would, on keys that begin with holdfast-doctor and end within seconds. Give the user of your clients\nin --url, and their --key-prefix: then it checks what that user may do.',
  exits: { '1': 'a check failed' },
  async run({ values }) {
    const redis = new Patient(values);
    try {
      const checks = await allChecks(redis, values);
      for (const check of checks)
        if (values['json']) printJson(check);
        else print(lineOf(check));
      return checks.some(({ state }) => state === 'fail') ? EXIT.failed : EXIT.ok;
    } finally {
      await redis.client.close();
    }
  },
};

/** `unknown`: the server does not tell this user. */
type State = 'ok' | 'warn' | 'fail' | 'unknown';

/** What was found, and what to do. */
type Finding = readonly [state: State, found: string];

interface Check {
  readonly check: string;
  readonly state: State;
  readonly found: string;
}

const COLOURS = { ok: 'green', warn: 'yellow', fail: 'red', unknown: 'gray' } as const;

function lineOf({ check, state, found }: Check): Line {
  return [styled(COLOURS[state], state.padEnd(7)), `  ${check.padEnd(12)}  ${found}`];
}

/** The server that is checked, by the means that clients use. */
class Patient {
  readonly client: RedisClient;
  readonly prefix: string;

  constructor(values: Values) {
    const library = libraryFor(sourceOf(values));
    const { 'key-prefix': given = '' } = values;
    this.prefix = library.keyPrefix + String(given);
    const options = { silenceLimitMs: TIMEOUT_MS, commandTimeoutMs: TIMEOUT_MS, replicas: 0 };
    const events = new Listeners();
    events.on('error', () => undefined); // what fails here is told as the outcome of a check
    this.client = new RedisClient({ library, ...options }, events);
  }

  /** The reply; undefined: this user may not ask. */
  async ask(command: Lowercase<string>, ...args: string[]): Promise<unknown> {
    try {
      return await this.#sent(() => this.client.command(command, ...args));
    } catch (error) {
      if (failureKind(error) === 'denied') return undefined;
      throw error;
    }
  }

  /** Finds the other nodes, if it is a node of a cluster and they have keys. */
  async findMasters(): Promise<void> {
    await this.#sent((limit) => this.client.findMasters(this.prefix, limit));
  }

  /**
   * Sends a command when there is a connection, and again if it was not sent: a server may turn out to be a node of a cluster, which the
   * client then connects to.
   *
   * @throws UnavailableError there is no connection, or no answer
   */
  async #sent<T>(send: (limit: WaitLimit) => Promise<T>): Promise<T> {
    const { client } = this;
    const limit = new WaitLimit({ limitMs: TIMEOUT_MS, isSingleAttempt: true });
    try {
      for (;;) {
        await client.whenReady(limit);
        try {
          return await send(limit);
        } catch (error) {
          if (failureKind(error) !== 'unsent' || client.cluster) throw error;
          await limit.pause(AGAIN_MS);
        }
      }
    } catch (error) {
      if (error instanceof HoldfastError || isReply(error)) throw error;
      const isOver = error instanceof WaitEnded;
      const cause = client.lastError ?? (isOver ? undefined : (error as Error));
      throw notAnswered(client.place, isOver ? TIMEOUT_MS : undefined, cause);
    } finally {
      limit.dispose();
    }
  }
}

async function allChecks(redis: Patient, values: Values): Promise<Check[]> {
  const info = await redis.ask('info');
  const cluster = await outcomeOf(clusterState(redis)); // before the others: which server they ask, and for what, depends on it
  const permitted = await outcomeOf(permissions(redis));
  const isPermitted = permitted?.[0] === 'ok';
  const findings: Readonly<Record<string, Finding | undefined>> = {
    version: version(info),
    memory: memory(info),
    eviction: eviction(info),
    persistence: persistence(info),
    replication: replication(info),
    permissions: permitted,
    latency: await outcomeOf(latency(redis)),
    clock: await outcomeOf(clock(redis)),
    cluster,
    'wake-up': await outcomeOf(wakeUp(values)),
    tracking: isPermitted ? await outcomeOf(tracking(redis)) : NOT_TRIED,
  };
  return Object.entries(findings).flatMap(([check, finding]) =>
    finding ? [{ check, state: finding[0], found: finding[1] }] : [],
  );
}

/** A check that Redis does not let come to its end has failed. */
async function outcomeOf(check: Promise<Finding | undefined>): Promise<Finding | undefined> {
  try {
    return await check;
  } catch (error) {
    if (!(error instanceof HoldfastError || isReply(error))) throw error;
    return ['fail', describe(error)];
  }
}

function version(info: unknown): Finding {
  const redis = infoField(info, 'redis_version');
  const valkey = infoField(info, 'valkey_version');
  if (redis === undefined) return ['unknown', 'this user may not use INFO: allow it (+info)'];
  const name = valkey === undefined ? `Redis ${redis}` : `Valkey ${valkey}`;
  const mode = infoField(info, 'redis_mode') ?? 'standalone';
  return ['ok', `${name}, ${mode}`]; // an older one is refused by the connection
}

/** From how full on it is worth a warning. */
const FULL_FROM = 0.8;

function memory(info: unknown): Finding {
  const used = Number(infoField(info, 'used_memory') ?? NaN);
  const most = Number(infoField(info, 'maxmemory') ?? NaN);
  if (Number.isNaN(used) || Number.isNaN(most)) return ['unknown', 'INFO does not tell it'];
  const policy = infoField(info, 'maxmemory_policy') ?? 'policy not told';
  if (most === 0) {
    const machine = Number(infoField(info, 'total_system_memory') ?? 0);
    const of = machine > 0 ? ` of the ${inBytes(machine)} of its machine` : '';
    const found = `${inBytes(used)} used${of}, no maxmemory (${policy})`;
    return machine > 0 && used >= FULL_FROM * machine
      ? ['warn', `${found}: the system may kill Redis; give it more memory, or set maxmemory`]
      : ['ok', found];
  }
  const found = `${inBytes(used)} of ${inBytes(most)} used, ${String(Math.round((100 * used) / most))} % of maxmemory (${policy})`;
  if (used < FULL_FROM * most) return ['ok', found];
  const what =
    policy === 'noeviction'
      ? 'Redis refuses new locks (OOM)'
      : 'Redis deletes keys, which may be locks';
  return used < most
    ? ['warn', `${found}: when it is full, ${what}; raise maxmemory, or move other data away`]
    : ['fail', `${found}: it is full, so ${what}; raise maxmemory, or delete other data`];
}

function inBytes(count: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  const power = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), units.length - 1);
  return `${(count / 1_024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power] ?? ''}`;
}

function eviction(info: unknown): Finding {
  const policy = infoField(info, 'maxmemory_policy');
  if (policy === undefined) return ['unknown', 'INFO does not tell it'];
  const most = Number(infoField(info, 'maxmemory'));
  if (policy === 'noeviction') return ['ok', 'none (noeviction)'];
  return most === 0
    ? ['ok', `none: no maxmemory (though the policy is ${policy})`]
    : [
        'fail',
        `${policy}: a full server deletes locks that are held; set maxmemory-policy noeviction, or use a server for locks alone`,
      ];
}

function persistence(info: unknown): Finding {
  const isOn = infoField(info, 'aof_enabled');
  if (isOn === undefined) return ['unknown', 'INFO does not tell it'];
  return isOn === '1'
    ? [
        'ok',
        'append-only file; with appendfsync everysec, a crash may still forget the last second',
      ]
    : [
        'warn',
        'no append-only file: a restart forgets the locks, and others get them while their holders work on; set appendonly yes, or rely on fencing tokens',
      ];
}

function replication(info: unknown): Finding {
  const role = infoField(info, 'role');
  if (role === undefined) return ['unknown', 'INFO does not tell it'];
  if (role !== 'master')
    return ['fail', 'this is a read-only replica: give the address of the master'];
  const count = Number(infoField(info, 'connected_slaves') ?? 0);
  return count === 0
    ? ['ok', 'a master without replicas']
    : [
        'warn',
        `a master with ${String(count)} ${count === 1 ? 'replica' : 'replicas'}: a failover forgets what they have not got yet; the option replicas, or fencing tokens, guard against that`,
      ];
}

/** Sends each command that clients send, in a form that does no harm. */
async function permissions(redis: Patient): Promise<Finding> {
  const key = `${redis.prefix}holdfast-doctor-${randomBytes(6).toString('hex')}`;
  const [hash, zset] = [`{${key}}:hash`, `{${key}}:zset`].map((name) => redis.prefix + name) as [
    string,
    string,
  ];
  const forms: Readonly<Record<string, readonly string[]>> = {
    ...{ ping: [], info: ['server'], time: [], eval: ['return 1', '1', key] },
    evalsha: ['0'.repeat(40), '1', key],
    publish: [`redisson_lock__channel:{${key}}`, '0'],
    'pubsub|numsub': [`redisson_lock__channel:{${key}}`],
    ...{ exists: [key], type: [key], set: [key, '1', 'PX', '2000'], get: [key], pttl: [key] },
    ...{ pexpire: [key, '1000'], pexpireat: [key, String(Date.now() + 1_000)], del: [key] },
    ...{ hset: [hash, 'f', '1'], hget: [hash, 'f'], hgetall: [hash], hmget: [hash, 'f'] },
    ...{ hexists: [hash, 'f'], hlen: [hash], hdel: [hash, 'f'] },
    ...{ zadd: [zset, '1', 'm'], zscore: [zset, 'm'], zrange: [zset, '0', '-1'] },
    ...{ zrangebyscore: [zset, '0', '1'], zrem: [zset, 'm'] },
    ...{ 'cluster|slots': [], scan: ['0', 'COUNT', '1'] },
  };
  const missing: string[] = [];
  const { isCluster } = redis.client;
  for (const name of commandsFor({ isCluster, look: true })) {
    const form = forms[name];
    if (!form) continue; // subscriptions, which the wake-up checks, and tracking
    const [command = '', ...more] = name.split('|');
    const isAllowed = await mayRun(redis, command as Lowercase<string>, [...more, ...form]);
    if (!isAllowed) missing.push(name);
  }
  const needed = missing.filter((name) => name !== 'scan');
  const denied = needed.length > 0 ? needed : await deniedNames(redis, new LockKeys(key));
  if (denied.length > 0)
    return [
      'fail',
      `this user may not use ${denied.join(', ')}: npx holdfast acl --prefix '${redis.prefix}' prints what it needs; if the user is limited to a prefix, give it: --key-prefix`,
    ];
  return missing.length > 0
    ? ['ok', 'all that locks need; list(), ls, watch and the live page need +scan, too']
    : ['ok', 'all that locks need'];
}

/** The keys and channels of a lock that this user may not use, though it may use the commands. */
async function deniedNames(redis: Patient, keys: LockKeys): Promise<string[]> {
  const { lock, forced, line, places, leases, permits, forcedOwners, longestLease } = keys;
  const ofLock = [lock, forced, line, places, leases, permits, forcedOwners, longestLease];
  const denied: string[] = [];
  for (const key of [...ofLock, keys.counter(redis.client.isCluster)])
    if (!(await mayRun(redis, 'exists', [key]))) denied.push(`the key ${key}`);
  for (const channel of [keys.channel, `${keys.grants}doctor`, WISHES_CHANNEL])
    if (!(await mayRun(redis, 'publish', [channel, '']))) denied.push(`the channel ${channel}`);
  return denied;
}

async function mayRun(
  redis: Patient,
  command: Lowercase<string>,
  args: string[],
): Promise<boolean> {
  try {
    return (await redis.ask(command, ...args)) !== undefined;
  } catch (error) {
    if (!isReply(error)) throw error;
    return true; // the server knows the command, permits it, and finds something else wrong with it
  }
}

async function latency(redis: Patient): Promise<Finding> {
  const tookMs: number[] = [];
  for (let i = 0; i < 50; i++) {
    const sentAtMs = performance.now();
    if ((await redis.ask('ping')) === undefined) return ['unknown', 'this user may not use PING'];
    tookMs.push(performance.now() - sentAtMs);
  }
  tookMs.sort((one, other) => one - other);
  const [median = 0, worst = 0] = [tookMs[25], tookMs.at(-1)];
  const found = `${median.toFixed(2)} ms median, ${worst.toFixed(1)} ms at worst, of 50 pings`;
  return median < 20
    ? ['ok', found]
    : ['warn', `${found}: each lock and each unlock takes as long`];
}

async function clock(redis: Patient): Promise<Finding> {
  const beforeMs = Date.now();
  const time = (await redis.ask('time')) as [string, string] | undefined;
  if (!time) return ['unknown', 'this user may not use TIME'];
  const serverMs = Number(time[0]) * 1_000 + Number(time[1]) / 1_000;
  const aheadMs = Math.round(serverMs - (beforeMs + Date.now()) / 2);
  const found = `the server's is ${String(Math.abs(aheadMs))} ms ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine's`;
  return Math.abs(aheadMs) < 1_000
    ? ['ok', found]
    : ['warn', `${found}: leases do not depend on it, but times that are shown do`];
}

/** undefined: it is none. */
async function clusterState(redis: Patient): Promise<Finding | undefined> {
  const { client } = redis;
  if (client.server.isClusterNode) await redis.findMasters();
  const { cluster } = client;
  if (!cluster) return client.server.isClusterNode ? ['ok', 'one master has all slots'] : undefined;
  await client.ping(new Set());
  return ['ok', `${String(cluster.masters.length)} masters, all answer`];
}

/** One client waits for what another releases: subscriptions, publishing and the scripts, all as in earnest. */
async function wakeUp(values: Values): Promise<Finding> {
  const name = `holdfast-doctor-${randomBytes(6).toString('hex')}`;
  // Waiters poll so seldom that only a message can wake one in time.
  const options = { lockWatchdogTimeout: 10 * TIMEOUT_MS };
  const [holder, waiter] = [connect(values, options), connect(values, options)] as const;
  try {
    const hold = await holder.getLock(name).acquire({ wait: TIMEOUT_MS });
    const waiting = new Promise<void>((resolve) => {
      waiter.once('waiting', () => {
        resolve();
      });
    });
    const call = waiter.getLock(name).tryAcquire({ wait: 2_000 });
    await Promise.race([waiting, call]);
    await new Promise((resolve) => setTimeout(resolve, 200)); // its subscription stands by then
    const releasedAtMs = performance.now();
    await hold.release();
    const next = await call;
    const tookMs = performance.now() - releasedAtMs;
    await next?.release();
    if (next && tookMs < 1_000)
      return ['ok', `a waiter had the lock ${tookMs.toFixed(1)} ms after its release`];
    return [
      'fail',
      'a waiter was not woken by a release: it polls instead; is SUBSCRIBE or PUBLISH denied, or a proxy in between?',
    ];
  } finally {
    await Promise.all([holder.close(), waiter.close()]);
  }
}

const NOT_TRIED: Finding = ['unknown', 'not tried, since permissions are missing'];

/** How long a word about a change may take, in milliseconds, and how long a connection for it that fails is tried again. */
const TOLD_WITHIN_MS = 1_000;

const TRACKING_RULES = `+info +client|id +client|tracking &${INVALIDATIONS}`;

/** Reads a key of each node as the key of a lock is read, has another connection delete it, and waits for the word. */
async function tracking(redis: Patient): Promise<Finding> {
  const { cluster } = redis.client;
  const slots = Array.from({ length: SLOT_COUNT }, (_, slot) => slot);
  const key = `${redis.prefix}holdfast-doctor-${randomBytes(6).toString('hex')}`;
  const slotAt = (node: string): number =>
    slots.find((slot) => cluster?.masterOf(slot) === node) ?? 0;
  const keys = cluster?.masters.map((node) => `${key}{${tagOf(slotAt(node))}}`) ?? [key];
  const tookMs = await Promise.all(keys.map((each) => toldAfter(redis, each)));
  const longestMs = Math.max(...tookMs.map((ms) => ms ?? Infinity));
  if (longestMs < Infinity) {
    const where = keys.length > 1 ? `, by the slowest of ${String(keys.length)} masters` : '';
    return ['ok', `a deleted key is told after ${longestMs.toFixed(1)} ms${where}`];
  }
  const { state } = redis.client.tracking;
  const why =
    state.state === 'failed'
      ? state.reason + (state.reason.includes('NOPERM') ? `: allow ${TRACKING_RULES}` : '')
      : 'CLIENT TRACKING is accepted, but a deleted key is not told: is a proxy in between?';
  return [
    'warn',
    `${why}; so a holder whose key is deleted learns it only at its next renewal, a third of lockWatchdogTimeout later`,
  ];
}

/** undefined: it was not told. */
async function toldAfter(redis: Patient, key: string): Promise<number | undefined> {
  const { tracking } = redis.client;
  await redis.ask('hset', key, 'f', '1');
  await redis.ask('pexpire', key, String(2 * TIMEOUT_MS));
  const beganAtMs = performance.now();
  while (!(await tracking.hasField(key, 'f'))) {
    const triedMs = performance.now() - beganAtMs;
    const isFailed = tracking.state.state === 'failed';
    if (triedMs > (isFailed ? TOLD_WITHIN_MS : TIMEOUT_MS)) {
      await redis.ask('del', key);
      return undefined;
    }
    await sleep(AGAIN_MS);
  }
  let deletedAtMs = 0;
  const told = new Promise<number>((resolve) => {
    const changed = (which: string | undefined): void => {
      if (which === key) resolve(performance.now() - deletedAtMs);
    };
    tracking.listen(WISHES_CHANNEL, { changed, ready: ignore, message: ignore });
  });
  deletedAtMs = performance.now();
  await redis.ask('del', key);
  return await Promise.race([told, sleep(TOLD_WITHIN_MS, undefined, { ref: false })]);
}

export const bench: Verb = {
  usage: 'bench',
  summary: 'how many pairs of lock and unlock this Redis gives this machine',
  options: {
    seconds: { type: 'string', help: 'for each of the two rows, such as 10 or 500ms (3)' },
  },
  run: ({ values }) =>
    withClient(values, async (holdfast) => {
      const forMs = durationOf(values, 'seconds', 100) ?? 3_000;
      await holdfast.ping();
      const rows = [await pairs(holdfast, 1, forMs), await pairs(holdfast, 256, forMs)];
      if (values['json']) for (const row of rows) printJson(row);
      else {
        const cells = rows.map(({ inFlight, perSecond, p50Ms, p99Ms }) => [
          String(inFlight),
          String(Math.round(perSecond)),
          `${p50Ms.toFixed(2)} ms`,
          `${p99Ms.toFixed(2)} ms`,
        ]);
        for (const line of table([['IN FLIGHT', 'PAIRS/S', 'P50', 'P99'], ...cells])) print(line);
      }
      return EXIT.ok;
    }),
};

interface BenchRow {
  readonly inFlight: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Each caller has a lock of its own. */
async function pairs(holdfast: Holdfast, inFlight: number, forMs: number): Promise<BenchRow> {
  const name = `holdfast-bench-${randomBytes(6).toString('hex')}`;
  const tookMs: number[] = [];
  const beganAtMs = performance.now();
  const call = async (_: unknown, index: number): Promise<void> => {
    const lock = holdfast.getLock(`${name}:${String(index)}`);
    while (performance.now() - beganAtMs < forMs) {
      const sentAtMs = performance.now();
      await (await lock.acquire({ wait: TIMEOUT_MS })).release();
      tookMs.push(performance.now() - sentAtMs);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, call));
  const perSecond = (tookMs.length / (performance.now() - beganAtMs)) * 1_000;
  tookMs.sort((one, other) => one - other);
  const at = (part: number): number => tookMs[Math.floor(tookMs.length * part)] ?? 0;
  return { inFlight, perSecond, p50Ms: at(0.5), p99Ms: at(0.99) };
}
