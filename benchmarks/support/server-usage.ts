// What a Redis server did and took, by its own statistics.

import type { Redis } from 'ioredis';

export interface ServerUsage {
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
    if (name === 'info') continue; // that is us
    commands += Number(calls);
    if (/^eval(sha)?$/.test(name!)) scripts += Number(calls);
  }
  const seconds = [...cpu.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].map(([, s]) => Number(s));
  return { commands, scripts, cpuMicros: seconds.reduce((sum, s) => sum + s, 0) * 1e6 };
}

/** What it did meanwhile; what others asked of it is in it, too. */
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
