// How a call of the command line fails: an error of one line, and an exit code.

import { HoldfastError, OptionError } from '../api/errors.js';

/** The exit codes, those of `sysexits.h` where it has one. */
export const EXIT = {
  ok: 0,
  /** A check of `doctor` failed; or the answer is no: nobody holds it, nothing was freed. No other failure exits with it. */
  failed: 1,
  usage: 64,
  /** The key exists but is not a lock. */
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
