// Takes out of an error what nobody must read: a client library may put the arguments of the failed command into it, those of AUTH and HELLO, too, and
// a server repeats the arguments of a command that it does not know.

/** As in: ERR unknown command 'AUTH', with args beginning with: 'secret' */
const REPEATED_ARGUMENTS = /,? with args beginning with:.*/s;

/** Redacts the error in place, and all errors that it carries: they are those of our own clients. Returns the error. */
export function redacted<T>(error: T, seen: Set<unknown> = new Set<unknown>()): T {
  if (!(error instanceof Error) || seen.has(error)) return error;
  seen.add(error);
  const { message } = error;
  if (REPEATED_ARGUMENTS.test(message)) {
    error.message = message.replace(REPEATED_ARGUMENTS, '');
    if (error.stack !== undefined) error.stack = error.stack.replace(message, () => error.message);
  }
  for (const name of Object.getOwnPropertyNames(error)) {
    const value = (error as unknown as Record<string, unknown>)[name];
    if (name === 'command') withoutArguments(value);
    for (const inner of Array.isArray(value) ? (value as unknown[]) : [value])
      redacted(inner, seen);
  }
  return error;
}

function withoutArguments(command: unknown): void {
  if (typeof command === 'object' && command !== null && 'args' in command) delete command.args;
}
