// How long a Redis server of our own takes for each call of a script, by its slow log.

import type { Redis } from 'ioredis';
import { scripts } from '../../src/redis/scripts.generated.js';

export type ScriptName = keyof typeof scripts;

/** What the server must be started with: it logs every command. */
export const LOG_EVERYTHING = ['--slowlog-log-slower-than', '0', '--slowlog-max-len', '100000'];

/** Executes `work` and returns the microseconds of each call of this script meanwhile. */
export async function scriptMicros(
  redis: Redis,
  script: ScriptName,
  work: () => Promise<void>,
): Promise<number[]> {
  await redis.slowlog('RESET');
  await work();
  const log = (await redis.slowlog('GET', -1)) as [number, number, number, string[]][];
  return log
    .filter(([, , , [command, sha1]]) => isCallOf(script, command!, sha1))
    .map(([, , micros]) => micros);
}

function isCallOf(script: ScriptName, command: string, sha1: string | undefined): boolean {
  return command.toUpperCase() === 'EVALSHA' && sha1 === scripts[script].sha1;
}
