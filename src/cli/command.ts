// What all verbs of the command line share: the options that say which Redis, output for people or for programs, and errors of one line.

import { styleText } from 'node:util';
import { HoldfastError, OptionError } from '../api/errors.js';
import { Holdfast } from '../holdfast.js';

/** The exit codes, those of `sysexits.h` where it has one. */
export const EXIT = {
  ok: 0,
  /** A check of `doctor` failed; or the answer to a question was no. */
  failed: 1,
  usage: 64,
  /** The name is that of other data. */
  data: 65,
  unavailable: 69,
  /** An error that nobody expected. */
  internal: 70,
  busy: 75,
  lost: 76,
} as const;

/** An error that is told in one line. */
export class CommandError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.usage) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type Values = Readonly<Record<string, string | boolean | undefined>>;

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
  /** Whether a command to run follows behind `--`. */
  readonly takesCommand?: boolean;
  /** Whether it needs no Redis. */
  readonly isOffline?: boolean;
  /** Returns the exit code. */
  run(call: Call): Promise<number>;
}

export const COMMON_OPTIONS = {
  url: { type: 'string', help: 'where Redis is; else $HOLDFAST_REDIS_URL, else redis://localhost' },
  'key-prefix': { type: 'string', help: 'the keyPrefix of the clients whose locks these are' },
  json: { type: 'boolean', help: 'for programs: JSON, one document a line' },
  help: { type: 'boolean', short: 'h', help: 'this text' },
} as const;

export function urlOf(values: Values): string {
  const { url } = values;
  if (typeof url === 'string') return url;
  const { HOLDFAST_REDIS_URL: given } = process.env;
  return given !== undefined && given !== '' ? given : 'redis://localhost:6379';
}

/** How long one command waits for Redis, in milliseconds. */
const COMMAND_TIMEOUT_MS = 5_000;

/** A client for one call of a verb. `options`: besides where Redis is. */
export function connect(values: Values, options: { lockWatchdogTimeout?: number } = {}): Holdfast {
  const keyPrefix = values['key-prefix'];
  const holdfast = new Holdfast({
    redis: urlOf(values),
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
): Promise<T> {
  const holdfast = connect(values);
  try {
    return await use(holdfast);
  } finally {
    await holdfast.close();
  }
}

/** What went wrong, in one line, and the exit code. */
export function told(error: unknown): { line: string; exitCode: number } {
  if (error instanceof CommandError) return { line: error.message, exitCode: error.exitCode };
  if (error instanceof OptionError) return { line: oneLine(error), exitCode: EXIT.usage };
  if (error instanceof HoldfastError) {
    const exitCode = error.code === 'KEY_CONFLICT' ? EXIT.data : EXIT.unavailable;
    return { line: oneLine(error), exitCode };
  }
  // `parseArgs` explains what is wrong with the arguments.
  const isOfParser =
    error instanceof TypeError &&
    String((error as NodeJS.ErrnoException).code).startsWith('ERR_PARSE_ARGS');
  if (isOfParser) return { line: oneLine(error), exitCode: EXIT.usage };
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { line: `unexpected: ${why}`, exitCode: EXIT.internal };
}

function oneLine({ message }: Error): string {
  return message.replaceAll(/\s*\n\s*/g, ' ');
}

/** A number option; undefined: it was not given. */
export function numberOf(values: Values, name: string, least: number): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  const number = Number(text);
  if (typeof text === 'string' && text.trim() !== '' && Number.isFinite(number) && number >= least)
    return number;
  throw new CommandError(
    `--${name} is "${String(text)}": it must be a number of at least ${String(least)}`,
  );
}

export function wholeNumberOf(values: Values, name: string, least: number): number | undefined {
  const number = numberOf(values, name, least);
  if (number !== undefined && !Number.isInteger(number))
    throw new CommandError(`--${name} is "${String(number)}": it must be a whole number`);
  return number;
}

// Output.

export function print(line: string): void {
  process.stdout.write(`${visible(line)}\n`);
}

export function warn(line: string): void {
  process.stderr.write(`holdfast: ${line.split('\n').map(visible).join('\n')}\n`);
}

/** Text without control characters, but for colours: the name of a lock may be anything, and must not forge lines or move the cursor. */
export function visible(text: string): string {
  // eslint-disable-next-line no-control-regex -- the beginning of a colour
  return text.replaceAll(/(?!\x1b\[[\d;]*m)[\p{Cc}\p{Cf}]/gu, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

type Style = Parameters<typeof styleText>[0];

/** In colour on a terminal, unless the user wants none. */
export function styled(style: Style, text: string): string {
  const { NO_COLOR: none } = process.env;
  const isWanted = process.stdout.isTTY && (none === undefined || none === '');
  return isWanted ? styleText(style, text) : text;
}

/** Columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [index, cell] of row.entries())
      widths[index] = Math.max(widths[index] ?? 0, cell.length);
  return rows.map((row) =>
    row
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join('  ')
      .trimEnd(),
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
