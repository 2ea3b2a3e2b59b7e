// Counts what a Redis server executes, by its own statistics.

import type { Redis } from 'ioredis';

/** What was executed between two looks, by command name. */
export interface CommandCounts {
  /** Commands that clients sent. */
  readonly sent: number;
  /** Scripts that clients called. */
  readonly scripts: number;
  /** All commands: those sent, and those that scripts called. */
  readonly all: number;
  /** Microseconds that the server spent on them. */
  readonly micros: number;
}

interface Statistic {
  readonly calls: number;
  readonly micros: number;
}

/** Sent by clients and never by the scripts here. */
const SENT =
  /^(evalsha|eval|set|subscribe|unsubscribe|ssubscribe|sunsubscribe|blpop|script\|load)$/;

const SCRIPT = /^eval(sha)?$/;

/** Executes `work` and returns what the server did meanwhile; commands of other clients are counted, too. */
export async function countCommands(
  redis: Redis,
  work: () => Promise<void>,
): Promise<CommandCounts> {
  const before = await statistics(redis);
  await work();
  const after = await statistics(redis);
  let sent = 0;
  let scripts = 0;
  let all = 0;
  let micros = 0;
  for (const [name, { calls, micros: total }] of after) {
    const done = calls - (before.get(name)?.calls ?? 0);
    if (done === 0 || name === 'info') continue;
    all += done;
    if (!SENT.test(name)) continue;
    sent += done;
    if (SCRIPT.test(name)) scripts += done;
    micros += total - (before.get(name)?.micros ?? 0); // a script's time includes that of its commands
  }
  return { sent, scripts, all, micros };
}

async function statistics(redis: Redis): Promise<Map<string, Statistic>> {
  const info = await redis.info('commandstats');
  const lines = info.matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm);
  return new Map(
    [...lines].map(([, name, calls, micros]) => [
      name!,
      { calls: Number(calls), micros: Number(micros) },
    ]),
  );
}
