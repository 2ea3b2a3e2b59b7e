// The machine and the versions behind the figures, and what a Redis server did and used meanwhile.
import { Redis } from 'ioredis';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, loadavg } from 'node:os';

/** For the head of a report. */
export interface Machine {
  readonly CPU: string;
  readonly Node: string;
  readonly Redis: string;
  readonly ioredis: string;
  readonly 'node-redis': string;
}

export async function describeMachine(url: string): Promise<Machine> {
  const [cpu] = cpus();
  return {
    CPU: `${cpu?.model.trim() ?? 'unknown'}, ${availableParallelism()} cores, load ${loadavg()[0]!.toFixed(2)}`,
    Node: process.versions.node,
    Redis: await redisVersion(url),
    ioredis: versionOf('ioredis'),
    'node-redis': versionOf('redis'),
  };
}

async function redisVersion(url: string): Promise<string> {
  const redis = new Redis(url);
  try {
    const info = await redis.info('server');
    const field = (name: string): string | undefined =>
      new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
    const valkey = field('valkey_version');
    return valkey ? `Valkey ${valkey}` : (field('redis_version') ?? 'unknown');
  } finally {
    redis.disconnect();
  }
}

/** The version in use: ioredis5 replaces ioredis under HOLDFAST_LIBRARY=ioredis@5. */
function versionOf(library: 'ioredis' | 'redis'): string {
  const name = process.env['HOLDFAST_LIBRARY'] === `${library}@5` ? `${library}5` : library;
  const file = createRequire(import.meta.url).resolve(`${name}/package.json`);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

// The work and the processor time of a Redis server, by its own statistics.

interface ServerUsage {
  /** All commands that it executed: those sent, and those that scripts called. */
  readonly commands: number;
  readonly scripts: number;
  /** Microseconds of a core, for everything that it does. */
  readonly cpuMicros: number;
}

/** Since the server was started. */
async function serverUsage(redis: Redis): Promise<ServerUsage> {
  const [stats, cpu] = await Promise.all([redis.info('commandstats'), redis.info('cpu')]);
  let commands = 0;
  let scripts = 0;
  for (const [, name, calls] of stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (name === 'info') continue; // that is our own connection
    commands += Number(calls);
    if (/^eval(sha)?$/.test(name!)) scripts += Number(calls);
  }
  const seconds = [...cpu.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].map(([, s]) => Number(s));
  return { commands, scripts, cpuMicros: seconds.reduce((sum, s) => sum + s, 0) * 1e6 };
}

/** The work meanwhile, including that for other clients. */
export async function serverUsageOf<T>(
  redis: Redis,
  work: () => Promise<T>,
): Promise<{ result: T; used: ServerUsage }> {
  const before = await serverUsage(redis);
  const result = await work();
  const after = await serverUsage(redis);
  return {
    result,
    used: {
      commands: after.commands - before.commands,
      scripts: after.scripts - before.scripts,
      cpuMicros: after.cpuMicros - before.cpuMicros,
    },
  };
}
