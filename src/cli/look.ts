// The verbs that look at locks: ls, show, watch, ui; and force, which frees one.

import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { UnavailableError } from '../api/errors.js';
import type {
  InspectedHolder,
  InspectedKind,
  InspectedOwner,
  Inspection,
  ListOptions,
} from '../api/inspection.js';
import type { Holdfast } from '../holdfast.js';
import { forceUnlock } from '../ui/force.js';
import { serve } from '../ui/serve.js';
import {
  CommandError,
  EXIT,
  inWords,
  numberOf,
  print,
  styled,
  table,
  told,
  type Values,
  type Verb,
  visible,
  warn,
  wholeNumberOf,
  withClient,
} from './command.js';

const LIST_OPTIONS = {
  kind: { type: 'string', help: 'only lock, semaphore or read-write; several with commas' },
  limit: { type: 'string', help: 'at most so many' },
} as const;

const PREFIX = { least: 0, most: 1 };
const NAME = { least: 1, most: 1 };

export const ls: Verb = {
  usage: 'ls [PREFIX]',
  summary: 'the locks that are held or waited for, of all clients',
  details: 'It goes through all keys in small steps (SCAN).',
  options: LIST_OPTIONS,
  positionals: PREFIX,
  run: ({ values, positionals }) =>
    withClient(values, async (holdfast) => {
      const locks: Inspection[] = [];
      for await (const lock of holdfast.list(listOptions(values, positionals[0]))) {
        if (values['json']) print(JSON.stringify(lock));
        else locks.push(lock);
      }
      if (!values['json']) for (const line of listing(locks)) print(line);
      if (locks.length === 0 && positionals[0]?.includes('*'))
        warn('PREFIX is how names begin, not a pattern: leave out the *');
      return EXIT.ok;
    }),
};

export const show: Verb = {
  usage: 'show NAME',
  summary: 'who holds a lock, since when, and who waits for it',
  positionals: NAME,
  run: ({ values, positionals: [name = ''] }) =>
    withClient(values, async (holdfast) => {
      const lock = await holdfast.inspect(name);
      if (values['json']) print(JSON.stringify(lock ?? null));
      else for (const line of lock ? portrait(lock, new Date()) : [nobody(name)]) print(line);
      return EXIT.ok;
    }),
};

export const watch: Verb = {
  usage: 'watch [PREFIX]',
  summary: 'a live screen: who holds, who waits, what has changed; q ends it',
  details:
    'It looks every --interval milliseconds; what changes in between and changes back is not seen. Without a terminal it prints each\nchange as a line.',
  options: { ...LIST_OPTIONS, interval: { type: 'string', help: 'milliseconds (1000)' } },
  positionals: PREFIX,
  run: ({ values, positionals }) =>
    withClient(values, async (holdfast) => {
      const options = listOptions(values, positionals[0]);
      const { limit = Infinity } = options;
      const intervalMs = numberOf(values, 'interval', 100) ?? 1_000;
      const end = whenEnded(true);
      const isScreen = process.stdout.isTTY && !values['json'];
      const changes: string[] = [];
      let before: ReadonlyMap<string, Inspection> | undefined;
      let trouble = '';
      const tell = (text: string, change?: object): void => {
        const at = new Date();
        const line = `${at.toISOString().slice(11, 19)}  ${text}`;
        changes.unshift(line);
        changes.splice(10);
        if (values['json'] && change) print(JSON.stringify({ at, ...change }));
        else if (!isScreen) (change ? print : warn)(line);
      };
      try {
        while (!end.signal.aborted) {
          try {
            const now = new Map<string, Inspection>();
            for await (const lock of holdfast.list(options)) now.set(lock.name, lock);
            // What was cut off is not known, so a lock that is not listed may be held all the same.
            if (before && Math.max(before.size, now.size) < limit)
              for (const { lockName, text } of changesBetween(before, now))
                tell(text, { lockName, change: text });
            before = now;
            trouble = '';
          } catch (error) {
            // During a failover an operator needs the screen most.
            if (!before || !(error instanceof UnavailableError)) throw error;
            const { line } = told(error);
            if (line !== trouble) tell(line);
            trouble = line;
          }
          if (isScreen) redraw(holdfast, [...before.values()], changes);
          await end.sleep(intervalMs);
        }
      } finally {
        end.done();
      }
      return EXIT.ok;
    }),
};

export const force: Verb = {
  usage: 'force NAME',
  summary: 'frees a lock, whoever holds it; shows the holder first, and asks',
  details:
    'The holder learns of it by a message or at its next renewal. Until then it works on: first make sure that its process is gone.',
  options: { yes: { type: 'boolean', short: 'y', help: 'do not ask' } },
  positionals: NAME,
  run: ({ values, positionals: [name = ''] }) =>
    withClient(values, (holdfast) => forceAfterAsking(holdfast, name, values)),
};

export const page: Verb = {
  usage: 'ui',
  summary: 'a live page in the browser, on this machine only',
  options: {
    port: { type: 'string', help: 'of 127.0.0.1 (a free one)' },
    prefix: { type: 'string', help: 'only locks whose names begin with this' },
    'allow-force': { type: 'boolean', help: 'the page may free locks' },
  },
  async run({ values }) {
    const port = wholeNumberOf(values, 'port', 0) ?? 0;
    if (port > 65_535)
      throw new CommandError(`--port is ${String(port)}: it must be at most 65535`);
    const { prefix } = values;
    return await withClient(values, async (holdfast) => {
      await holdfast.ping();
      const server = await serve(holdfast, {
        port,
        prefix: typeof prefix === 'string' ? prefix : '',
        mayForce: values['allow-force'] === true,
      }).catch((error: unknown) => {
        const { code = String(error) } = error as NodeJS.ErrnoException;
        throw new CommandError(`port ${String(port)} of 127.0.0.1 cannot be used: ${code}`);
      });
      const end = whenEnded();
      print(server.url);
      await once(end.signal, 'abort');
      end.done();
      await server.close();
      return EXIT.ok;
    });
  },
};

function listOptions(values: Values, prefix: string | undefined): ListOptions {
  const { kind } = values;
  const kinds = typeof kind === 'string' ? (kind.split(',') as InspectedKind[]) : undefined;
  return { prefix, kinds, limit: wholeNumberOf(values, 'limit', 1) };
}

async function forceAfterAsking(holdfast: Holdfast, name: string, values: Values): Promise<number> {
  if (values['json'] && !values['yes'])
    throw new CommandError('--json asks nothing: give --yes, too');
  const lock = await holdfast.inspect(name);
  if (!lock || lock.holders.length === 0) {
    const hint = name.includes('*') ? ' (force takes one name, never a pattern)' : '';
    throw new CommandError(`${nobody(name)}${hint}`, EXIT.failed);
  }
  const isRefused = lock.kind === 'semaphore'; // by `forceUnlock`, which says why
  if (!values['json'] && !isRefused) for (const line of portrait(lock, new Date())) print(line);
  if (!values['yes'] && !isRefused && !(await asked(`Free "${name}"?`))) {
    print('Nothing was changed.');
    return EXIT.failed;
  }
  const shown = lock.holders.map(({ ownerId }) => ownerId);
  const forced = await forceUnlock(holdfast, name, shown);
  const isForced = forced.outcome === 'forced';
  if (values['json']) print(JSON.stringify({ name, forced: isForced }));
  else if (isForced) print(`"${name}" was freed. Whoever waits for it may have it now.`);
  else if (forced.outcome === 'free') print(`"${name}" had been released by then.`);
  else print(`${forced.ownerId} holds "${name}" by now. Nothing was changed.`);
  return isForced ? EXIT.ok : EXIT.failed;
}

async function asked(question: string): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new CommandError('nobody can be asked here, since there is no terminal: give --yes');
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  // Ctrl-C and Ctrl-D are a no.
  const closed = new Promise<string>((resolve) => {
    lines.on('close', () => {
      resolve('');
    });
  });
  const answered = lines.question(`${visible(question)} [y/N] `).catch(() => '');
  const answer = await Promise.race([answered, closed]);
  lines.close();
  return /^y(es)?$/i.test(answer.trim());
}

// In words.

function nobody(name: string): string {
  return `Nobody holds "${name}" or stands in its line.`;
}

/** A table of locks, one line each. */
function listing(locks: readonly Inspection[], now: Date = new Date()): string[] {
  if (locks.length === 0) return ['No locks.'];
  const rows = [...locks]
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map((lock) => {
      const [first, ...others] = lock.holders;
      const more = others.length > 0 ? ` +${String(others.length)}` : '';
      const holder = first ? first.ownerId + (first.isKept ? ' (kept)' : more) : '-';
      const ago = first?.since ? `${inWords(Number(now) - Number(first.since))} ago` : '-';
      return [lock.name, lock.kind, holder, ago, first ? leaseOf(first) : '-', waitersOf(lock)];
    });
  const [head = '', ...lines] = table([
    ['NAME', 'KIND', 'HOLDER', 'CALL BEGAN', 'LEASE LEFT', 'WAITING'],
    ...rows,
  ]);
  return [styled('bold', head), ...lines];
}

/** Of a lock that has lost its expiry. */
const NO_EXPIRY = 'without expiry';

function leaseOf({ leaseLeftMs }: InspectedOwner): string {
  return leaseLeftMs === -1 ? NO_EXPIRY : inWords(leaseLeftMs);
}

function waitersOf({ waiters, waitingClients, isCut }: Inspection): string {
  if (waiters.length > 0) return `${String(waiters.length)}${isCut ? '+' : ''} in line`;
  return waitingClients > 0 ? clients(waitingClients) : '-';
}

function clients(count: number): string {
  return `${String(count)} ${count === 1 ? 'client' : 'clients'}`;
}

/** All that is known of one lock. */
function portrait(lock: Inspection, now: Date): string[] {
  const { name, kind, holders, waiters, waitingClients, token, permits, isCut } = lock;
  const lines = [styled('bold', `${name} (${kind})`)];
  if (permits)
    lines.push(`  permits: ${String(permits.available)} of ${String(permits.capacity)} free`);
  if (holders.length === 0) lines.push('  held by nobody');
  for (const holder of holders) {
    lines.push(
      `  ${hasIt(holder)} ${styled('green', holder.ownerId)}${as(holder)}${timesOf(holder.holdCount)}`,
    );
    if (holder.isKept)
      lines.push(
        '    perhaps nobody is inside: its client keeps it for its next caller, until another client wants it',
      );
    lines.push(`    client ${holder.clientId}`);
    const lease = holder.leaseLeftMs === -1 ? NO_EXPIRY : `lease left ${leaseOf(holder)}`;
    lines.push(`    ${sinceOf(holder, now)}, ${lease}`);
  }
  for (const [index, waiter] of waiters.entries()) {
    const place = `${String(index + 1)}.`.padEnd(4);
    lines.push(
      `  ${place}${styled('yellow', waiter.ownerId)}${as(waiter)}, ${sinceOf(waiter, now)}`,
    );
  }
  if (waiters.length === 0 && waitingClients > 0)
    lines.push(
      `  ${clients(waitingClients)} ${waitingClients === 1 ? 'listens' : 'listen'} for its release`,
    );
  if (token !== undefined) lines.push(`  last fencing token ${token}`);
  if (isCut) lines.push('  (there are more than are listed)');
  if (holders.length > 0 && kind !== 'semaphore')
    lines.push(`  to free it: npx holdfast force ${/^[\w:.-]+$/.test(name) ? name : quoted(name)}`);
  return lines;
}

/** For a shell. */
function quoted(name: string): string {
  return `'${name.replaceAll("'", "'\\''")}'`;
}

function hasIt({ isKept }: InspectedHolder): string {
  return isKept ? 'kept by' : 'held by';
}

function as({ mode, permits }: InspectedOwner): string {
  if (mode) return mode === 'read' ? ' to read' : ' to write';
  return permits === undefined
    ? ''
    : `, ${String(permits)} ${permits === 1 ? 'permit' : 'permits'}`;
}

function timesOf(holdCount: number | undefined): string {
  return holdCount === undefined || holdCount === 1 ? '' : `, ${String(holdCount)} times`;
}

function sinceOf({ since }: InspectedOwner, now: Date): string {
  if (!since) return `since when is not known (not an owner of this holdfast)`;
  const ago = inWords(Number(now) - Number(since));
  return `call began ${ago} ago, at ${since.toISOString()} by its client's clock`;
}

// What has changed between two looks.

interface Change {
  readonly lockName: string;
  readonly text: string;
}

function changesBetween(
  before: ReadonlyMap<string, Inspection>,
  now: ReadonlyMap<string, Inspection>,
): Change[] {
  const names = new Set([...before.keys(), ...now.keys()]);
  return [...names].flatMap((lockName): Change[] => {
    const [had, has] = [before.get(lockName), now.get(lockName)].map(holdersOf);
    const gone = [...(had?.keys() ?? [])]
      .filter((owner) => !has?.has(owner))
      .map((owner) => `${lockName}: released by ${owner}`);
    // (A lock that is no longer kept may still be held, by the same owner.)
    const fresh = [...(has ?? [])]
      .filter(([owner, how]) => had?.get(owner) !== how)
      .map(([owner, how]) => `${lockName}: ${how} ${owner}`);
    return [...gone, ...fresh].map((text) => ({ lockName, text }));
  });
}

/** Owner -> how it has the lock. */
function holdersOf(lock: Inspection | undefined): Map<string, string> {
  return new Map(lock?.holders.map((holder) => [holder.ownerId, hasIt(holder)]));
}

function redraw(
  { status }: Holdfast,
  locks: readonly Inspection[],
  changes: readonly string[],
): void {
  const rows = Math.max(process.stdout.rows - changes.length - 5, 5);
  const lines = listing(locks);
  const shown = lines.slice(0, rows);
  if (lines.length > rows) shown.push(`… and ${String(lines.length - rows)} more`);
  const head = `${new Date().toISOString().slice(11, 19)}  ${status}  ${String(locks.length)} locks  (q ends)`;
  process.stdout.write(
    `\u001b[H\u001b[2J${[head, '', ...shown, '', ...changes].map(visible).join('\n')}\n`,
  );
}

/** Ends with Ctrl-C, SIGTERM, or, if it `readsKeys`, on a terminal with q. */
function whenEnded(readsKeys = false): {
  readonly signal: AbortSignal;
  /** Until then, at most so long. */
  sleep(ms: number): Promise<void>;
  /** Nobody listens for the end any more. */
  done(): void;
} {
  const ending = new AbortController();
  const end = (): void => {
    ending.abort();
  };
  const pressed = (key: Buffer): void => {
    if (['q', '\u0003'].includes(key.toString())) end();
  };
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  const { stdin } = process;
  const isRaw = readsKeys && stdin.isTTY;
  if (isRaw) {
    stdin.setRawMode(true);
    stdin.on('data', pressed);
  }
  return {
    signal: ending.signal,
    sleep: (ms) => sleep(ms, undefined, { signal: ending.signal }).catch(() => undefined),
    done: () => {
      process.off('SIGINT', end);
      process.off('SIGTERM', end);
      if (!isRaw) return;
      stdin.setRawMode(false);
      stdin.off('data', pressed);
      stdin.pause();
    },
  };
}
