#!/usr/bin/env node
// npx holdfast: the command line for operators. Reads the arguments, and calls a verb.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { acl } from './acl.js';
import { type Call, commonOptions, type Verb } from './command.js';
import { bench, doctor } from './doctor.js';
import { CommandError, EXIT, told } from './failure.js';
import { force, ls, page, show } from './look.js';
import { run } from './run.js';
import { print, warn } from './terminal.js';
import { watch } from './watch.js';

const VERBS: Readonly<Record<string, Verb>> = {
  ls,
  show,
  watch,
  force,
  run,
  doctor,
  acl,
  bench,
  ui: page,
};

/** Those of a verb that needs a Redis; each verb adds its own. */
const EXIT_CODES: Readonly<Record<string, string>> = {
  '0': 'done',
  '64': 'wrong usage',
  '69': 'Redis is not available, or denies a command',
  '70': 'a defect of holdfast',
};

function helpOfAll(): string {
  const verbs = Object.values(VERBS).map(({ usage, summary }) => `  ${usage}\n      ${summary}`);
  return [
    'usage: npx holdfast VERB [options]',
    '',
    ...verbs,
    '',
    'options of all verbs but acl:',
    ...optionLines(commonOptions()),
    '      --version                the version of holdfast',
    '',
    'npx holdfast VERB --help says more of a verb: its options and its exit codes.',
  ].join('\n');
}

function helpOf({ usage, summary, details, options = {}, exits = {}, isOffline }: Verb): string {
  const codes = Object.entries({ ...EXIT_CODES, ...exits });
  const all = { ...options, ...commonOptions(isOffline) };
  const more = details === undefined ? [] : ['', details];
  return [
    `usage: npx holdfast ${usage}`,
    '',
    summary,
    ...more,
    '',
    ...optionLines(all),
    '',
    'exit codes:',
    ...codes
      .filter(([code]) => !(isOffline && code === String(EXIT.unavailable)))
      .map(([code, meaning]) => `  ${code.padEnd(9)} ${meaning}`),
  ].join('\n');
}

function optionLines(options: NonNullable<Verb['options']>): string[] {
  return Object.entries(options).map(([name, { type, short, help }]) => {
    const value = type === 'string' ? ` ${name.toUpperCase()}` : '';
    return (
      `  ${short === undefined ? '    ' : `-${short}, `}--${name}${value}`.padEnd(30) + ` ${help}`
    );
  });
}

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined) throw new CommandError('no verb: npx holdfast --help lists them');
  if (name === '--help' || name === '-h' || name === 'help') {
    for (const line of helpOfAll().split('\n')) print(line);
    return EXIT.ok;
  }
  if (name === '--version') {
    print(version());
    return EXIT.ok;
  }
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (!verb)
    throw new CommandError(
      `no verb "${name}": there are ${Object.keys(VERBS).join(', ')} (npx holdfast --help)`,
    );
  const [own, command] = verb.takesCommand ? partedAtCommand(rest) : [rest, []];
  const options = { ...commonOptions(verb.isOffline), ...verb.options };
  const { values, positionals } = parseArgs({ args: own, options, allowPositionals: true });
  if (values['help']) {
    for (const line of helpOf(verb).split('\n')) print(line);
    return EXIT.ok;
  }
  const { least, most } = verb.positionals ?? { least: 0, most: 0 };
  if (positionals.length < least)
    throw new CommandError(`a name is missing: npx holdfast ${verb.usage}`);
  if (positionals.length > most)
    throw new CommandError(
      `what is "${positionals[most] ?? ''}"? usage: npx holdfast ${verb.usage}`,
    );
  if (verb.takesCommand && command.length === 0)
    throw new CommandError(`no command: npx holdfast ${verb.usage}`);
  const call: Call = { values, positionals, command };
  return await verb.run(call);
}

/** `run NAME -- COMMAND`; and `run -- NAME -- COMMAND`, for a name that begins with `-`. */
function partedAtCommand(args: readonly string[]): [own: string[], command: string[]] {
  const ends = args.flatMap((arg, index) => (arg === '--' ? [index] : []));
  const [first = args.length, second] = ends;
  const isNameBehind = second === first + 2 && args[first + 1]?.startsWith('-');
  const end = isNameBehind ? second : first;
  return [args.slice(0, end), args.slice(end + 1)];
}

function version(): string {
  const { version } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as { version: string };
  return version;
}

function failed(error: unknown): number {
  const { line, exitCode } = told(error);
  warn(line);
  return exitCode;
}

// Node.js would exit with 1, which is the answer "no".
process.on('uncaughtException', (error) => process.exit(failed(error)));

// A warning that nobody can read must not end a `run`, whose command would work on without the lock.
process.stderr.on('error', () => undefined);

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(EXIT.ok); // whoever reads has seen enough: ls | head
});

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = failed(error);
}
