// Which commands a Redis server executed while something ran. Use a server of the test's own: all clients count.
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { Monitor } from './monitor.js';

export interface RecordedCommand {
  /** In upper case. */
  readonly name: string;
  readonly args: readonly string[];
  /** Whether a script ran it. */
  readonly byScript: boolean;
}

/** How often each command ran during `fn`, those inside scripts included, by name in lower case. */
export async function countCommands(
  url: string,
  fn: () => Promise<unknown>,
): Promise<Record<string, number>> {
  const redis = new Redis(url);
  try {
    const before = await commandCounts(redis);
    await fn();
    const counts: Record<string, number> = {};
    for (const [name, count] of await commandCounts(redis)) {
      const more = count - (before.get(name) ?? 0) - (name === 'info' ? 1 : 0);
      if (more > 0) counts[name] = more;
    }
    return counts;
  } finally {
    redis.disconnect();
  }
}

/** The commands that ran during `fn`, in order, by MONITOR. */
export async function recordCommands(
  url: string,
  fn: () => Promise<unknown>,
): Promise<RecordedCommand[]> {
  const redis = new Redis(url);
  await redis.ping(); // connected, so that its handshake is not recorded
  const recorded: RecordedCommand[] = [];
  const marker = randomUUID();
  let reached!: () => void;
  const reachedMarker = new Promise<void>((resolve) => (reached = resolve));
  const monitor = await Monitor.start(url, ({ words: [name = '', ...args], byScript }) => {
    if (args[0] === marker) reached();
    else recorded.push({ name: name.toUpperCase(), args, byScript });
  });
  try {
    await fn();
    await redis.echo(marker);
    await reachedMarker;
    return recorded;
  } finally {
    monitor[Symbol.dispose]();
    redis.disconnect();
  }
}

async function commandCounts(redis: Redis): Promise<Map<string, number>> {
  const info = await redis.info('commandstats');
  const lines = info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...lines].map(([, name, calls]) => [name!, Number(calls)]));
}
