// A show from beginning to end: the server, a bank on it, worker processes, and the verdict.
import { randomBytes } from 'node:crypto';
import { givenRedis, withoutPassword } from '../../test/support/given-redis.js';
import { Bank } from './bank.js';
import { Crew } from './crew.js';
import { BANK_PREFIX, BANK_URL } from './messages.js';

export interface Stage {
  readonly url: string;
  /** The prefix of every key and lock name. */
  readonly prefix: string;
  readonly bank: Bank;
  readonly crew: Crew;
  /** Aborts when the viewer interrupts the demo. */
  readonly signal: AbortSignal;
}

interface StageOptions {
  readonly workers: number;
  readonly signal: AbortSignal;
  /** Further environment variables of the workers. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Sets up the stage, plays, and removes everything, whatever happens. */
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
    await bank.clear().catch(() => undefined); // the server is gone, and the accounts with it
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
  /** What the show is about, for the usage line. */
  readonly about: string;
  /** Plays the show to its end; resolves to whether it showed what it is meant to show. Rejects when the signal aborts. */
  play(signal: AbortSignal): Promise<boolean>;
}

/** Prints the report; `bug` is the unexpected observation. Returns whether there is none. */
export function conclude(report: string, bug: string | undefined, moral: string): boolean {
  console.log(`${report}\n${bug === undefined ? moral : `${bug}: a bug.`}`);
  return bug === undefined;
}
