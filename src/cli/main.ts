#!/usr/bin/env node
// npx holdfast: the command line for operators. Reads the arguments, and calls a verb.

import { parseArgs } from 'node:util';
import { acl } from './acl.js';
import {
  type Call,
  CommandError,
  COMMON_OPTIONS,
  EXIT,
  print,
  told,
  type Verb,
  warn,
} from './command.js';
import { bench, doctor } from './doctor.js';
import { force, ls, page, show, watch } from './look.js';
import { run } from './run.js';

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

const EXIT_CODES = `exit codes: 0 done, 1 a check failed or the answer was no, 64 wrong usage, 65 the name is that of other data, 69 Redis is
not available, 70 a defect of holdfast; of run: the command's own, 75 busy, 76 the lock was lost, 126 and 127 the command cannot be
run, 128 + n it ended by signal n`;

function helpOfAll(): string {
  const verbs = Object.values(VERBS).map(({ usage, summary }) => `  ${usage}\n      ${summary}`);
  return [
    'usage: npx holdfast VERB [options]',
    '',
    ...verbs,
    '',
    'options of all verbs but acl:',
    ...optionLines(COMMON_OPTIONS),
    '',
    EXIT_CODES,
    '',
    'npx holdfast VERB --help says more of a verb.',
  ].join('\n');
}

function helpOf({ usage, summary, details, options = {}, isOffline }: Verb): string {
  const all = { ...options, ...(isOffline ? { help: COMMON_OPTIONS.help } : COMMON_OPTIONS) };
  const more = details === undefined ? [] : ['', details];
  return [
    `usage: npx holdfast ${usage}`,
    '',
    summary,
    ...more,
    '',
    ...optionLines(all),
    '',
    EXIT_CODES,
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
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (!verb)
    throw new CommandError(
      `no verb "${name}": there are ${Object.keys(VERBS).join(', ')} (npx holdfast --help)`,
    );
  const end = rest.indexOf('--');
  const [own, command] = end < 0 ? [rest, []] : [rest.slice(0, end), rest.slice(end + 1)];
  const common = verb.isOffline ? { help: COMMON_OPTIONS.help } : COMMON_OPTIONS;
  const options: NonNullable<Verb['options']> = { ...common, ...verb.options };
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
  if (!verb.takesCommand && end >= 0)
    throw new CommandError(`${name} runs no command: npx holdfast ${verb.usage}`);
  const call: Call = { values, positionals, command };
  return await verb.run(call);
}

// A warning that nobody can read must not end a `run`, whose command would work on without the lock.
process.stderr.on('error', () => undefined);

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(EXIT.ok); // whoever reads has seen enough: ls | head
});

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const { line, exitCode } = told(error);
  warn(line);
  process.exitCode = exitCode;
}
