// What all verbs of the command line share: their options, how these are read, and the client.

import { Holdfast } from '../holdfast.js';
import { CommandError } from './failure.js';
import { sourceOf, type Values, WHERE_OPTIONS } from './where.js';

/** One call of a verb. */
export interface Call {
  readonly values: Values;
  readonly positionals: readonly string[];
  /** Behind `--`. */
  readonly command: readonly string[];
}

export interface Verb {
  /** As it is called, for the help. */
  readonly usage: string;
  /** In a few words, for the list of verbs. */
  readonly summary: string;
  /** What else there is to say. */
  readonly details?: string;
  readonly options?: Readonly<
    Record<string, { type: 'string' | 'boolean'; short?: string; help: string }>
  >;
  readonly positionals?: { readonly least: number; readonly most: number };
  /** What its exit codes mean, besides those of all verbs. */
  readonly exits?: Readonly<Record<string, string>>;
  /** Whether a command to run follows behind `--`. */
  readonly takesCommand?: boolean;
  /** Whether it needs no Redis. */
  readonly isOffline?: boolean;
  /** Returns the exit code. */
  run(call: Call): Promise<number>;
}

type Options = NonNullable<Verb['options']>;

const HELP: Options = { help: { type: 'boolean', short: 'h', help: 'this text' } };

const COMMON: Options = {
  ...WHERE_OPTIONS,
  'key-prefix': { type: 'string', help: 'the keyPrefix of the clients whose locks these are' },
  json: { type: 'boolean', help: 'for programs: JSON, one document a line' },
  ...HELP,
};

/** The options of all verbs, or of those that need no Redis. */
export function commonOptions(isOffline = false): Options {
  return isOffline ? HELP : COMMON;
}

/** How long one command waits for Redis, in milliseconds. */
const COMMAND_TIMEOUT_MS = 5_000;

/** A client for one call of a verb. `options`: besides where Redis is. */
export function connect(
  values: Values,
  options: { lockWatchdogTimeout?: number; commandTimeout?: number } = {},
): Holdfast {
  const keyPrefix = values['key-prefix'];
  const holdfast = new Holdfast({
    redis: sourceOf(values),
    commandTimeout: COMMAND_TIMEOUT_MS,
    ...(typeof keyPrefix === 'string' ? { keyPrefix } : {}),
    ...options,
  });
  holdfast.on('error', () => undefined); // each call throws its own error
  return holdfast;
}

/** Uses a client, and closes it. */
export async function withClient<T>(
  values: Values,
  use: (holdfast: Holdfast) => Promise<T>,
  options: Parameters<typeof connect>[1] = {},
): Promise<T> {
  const holdfast = connect(values, options);
  try {
    return await use(holdfast);
  } finally {
    await holdfast.close();
  }
}

/** A whole number option; undefined: it was not given. */
export function wholeNumberOf(values: Values, name: string, least: number): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  if (/^\d+$/.test(String(text)) && Number(text) >= least) return Number(text);
  throw new CommandError(
    `--${name} is "${String(text)}": it must be a whole number of at least ${String(least)}`,
  );
}

const MS_OF = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** A bare number as large as this was probably meant as milliseconds. */
const MOST_BARE = 1_000;

/** A time option, in milliseconds: `500ms`, `5s`, `2m`, `1h`, and a bare number is seconds; undefined: it was not given. */
export function durationOf(values: Values, name: string, leastMs: number): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  const [, digits, unit] = /^(\d+\.?\d*|\.\d+)(ms|s|m|h)?$/.exec(String(text).trim()) ?? [];
  if (digits === undefined)
    throw new CommandError(
      `--${name} is "${String(text)}": it must be a time such as 500ms, 5s, 2m or 1h; without a unit it is seconds`,
    );
  const number = Number(digits);
  if (unit === undefined && number >= MOST_BARE)
    throw new CommandError(
      `--${name} is "${String(text)}", without a unit: say ${String(number / 1_000)}s or ${digits}s`,
    );
  const ms = Math.round(number * MS_OF[(unit ?? 's') as keyof typeof MS_OF]);
  if (ms >= leastMs) return ms;
  throw new CommandError(
    `--${name} is "${String(text)}": it must be at least ${String(leastMs)}ms`,
  );
}

/** Milliseconds in words: `350 ms`, `12 s`, `3 min`, `2 h 5 min`, `4 d`. */
export function inWords(ms: number): string {
  if (ms < 1_000) return `${String(Math.max(Math.round(ms), 0))} ms`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 120) return `${String(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${String(minutes)} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${String(hours)} h ${String(minutes % 60)} min`;
  return `${String(Math.floor(hours / 24))} d`;
}
