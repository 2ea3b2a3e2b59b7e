// What the figures were measured on.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { Redis } from 'ioredis';

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

/** Of the one that is used: ioredis5 stands for it under HOLDFAST_LIBRARY=ioredis@5. */
function versionOf(library: 'ioredis' | 'redis'): string {
  const name = process.env['HOLDFAST_LIBRARY'] === `${library}@5` ? `${library}5` : library;
  const file = createRequire(import.meta.url).resolve(`${name}/package.json`);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
