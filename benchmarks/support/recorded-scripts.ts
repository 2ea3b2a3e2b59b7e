// What holdfast sends to Redis for one acquire and release, to be sent again without holdfast.

import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { Holdfast } from './built-holdfast.js';

/** The arguments of one EVALSHA. */
export type ScriptCall = readonly string[];

/** Records the script calls of one acquire and release, and returns them as they are for any key. */
export async function recordScripts(url: string): Promise<(key: string) => ScriptCall[]> {
  const recordedKey = `bench:recorded:${randomUUID()}`;
  const calls = await record(url, recordedKey);
  return (key) => calls.map((args) => args.map((arg) => arg.replaceAll(recordedKey, key)));
}

async function record(url: string, key: string): Promise<ScriptCall[]> {
  const holdfast = new Holdfast({ redis: url });
  const redis = new Redis(url);
  const acquireAndRelease = async (): Promise<void> => {
    const hold = await holdfast.getLock(key).acquire();
    await hold.release();
  };
  await acquireAndRelease(); // now the server knows the scripts: from here on each is one EVALSHA
  const monitor = await redis.monitor();
  try {
    const calls: ScriptCall[] = [];
    const done = new Promise<void>((resolve) => {
      monitor.on('monitor', (_time: string, [command = '', ...args]: string[], source: string) => {
        if (source === 'lua') return;
        if (/^evalsha$/i.test(command) && args.some((arg) => arg.includes(key))) calls.push(args);
        if (args[0] === key && /^exists$/i.test(command)) resolve();
      });
    });
    await acquireAndRelease();
    await redis.exists(key); // comes after all of it
    await done;
    return calls;
  } finally {
    monitor.disconnect();
    redis.disconnect();
    await holdfast.close();
  }
}
