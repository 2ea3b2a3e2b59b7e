// A show, from its beginning to its end: the server, a bank on it, worker processes, and what to make of what was seen.
import { randomBytes } from 'node:crypto';
import { givenRedis, withoutPassword } from '../../test/support/given-redis.js';
import { Bank } from './bank.js';
import { Crew } from './crew.js';
import { BANK_PREFIX, BANK_URL } from './messages.js';

export interface Stage {
  readonly url: string;
  /** In front of every key and lock name. */
  readonly prefix: string;
  readonly bank: Bank;
  readonly crew: Crew;
  /** Aborts when somebody has seen enough. */
  readonly signal: AbortSignal;
}

interface StageOptions {
  readonly workers: number;
  readonly signal: AbortSignal;
  /** What workers get to know besides. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Sets it up, plays, and clears it, whatever happens. */
export async function onStage<T>(
  { workers, signal, env }: StageOptions,
  play: (stage: Stage) => Promise<T>,
): Promise<T> {
  await using redis = await givenRedis();
  const { url } = redis;
  const prefix = `demo:${randomBytes(4).toString('hex')}:`;
  const bank = new Bank(url, prefix);
  try {
    console.log(`holdfast demo on ${withoutPassword(url)}: starting ${workers} processes`);
    await using crew = new Crew(workers, { ...env, [BANK_URL]: url, [BANK_PREFIX]: prefix });
    await untilAborted(crew.all('ready'), signal);
    return await play({ url, prefix, bank, crew, signal });
  } finally {
    await bank.clear().catch(() => undefined); // the server is gone: so are the accounts
    bank.disconnect();
  }
}

async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
    promise.then(resolve, reject);
  });
}

export interface Show {
  /** What is seen, for the usage line. */
  readonly about: string;
  /** Plays it to its end; whether it showed what it is there to show. Rejects when the signal aborts. */
  play(signal: AbortSignal): Promise<boolean>;
}

/** Prints it; `bug` is what was seen instead of what the show is there to show. Whether there is none. */
export function conclude(report: string, bug: string | undefined, moral: string): boolean {
  console.log(`${report}\n${bug === undefined ? moral : `${bug}: a bug.`}`);
  return bug === undefined;
}
