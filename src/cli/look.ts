// The verbs that look at locks: ls, show, ui; and force, which frees one.

import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { HolderState } from '../api/errors.js';
import {
  howHeld,
  type InspectedHolder,
  type InspectedKind,
  type InspectedOwner,
  type Inspection,
} from '../api/inspection.js';
import type { Holdfast } from '../holdfast.js';
import { type Forced, forceUnlock } from '../ui/force.js';
import { serve } from '../ui/serve.js';
import { durationOf, inWords, type Verb, wholeNumberOf, withClient } from './command.js';
import { CommandError, EXIT } from './failure.js';
import { whenEnded } from './ending.js';
import { type Line, print, printJson, styled, table, visible, warn } from './terminal.js';
import type { Values } from './where.js';

export const LIST_OPTIONS = {
  all: {
    type: 'boolean',
    help: 'also locks that were released, and stay taken until their lease ends',
  },
  kind: { type: 'string', help: 'only lock, semaphore or read-write; several with commas' },
  limit: { type: 'string', help: 'at most so many' },
  sort: {
    type: 'string',
    help: 'name (the default), age: held longest first, or waiting: most waiters first',
  },
} as const;

export const PREFIX = { least: 0, most: 1 };
const NAME = { least: 1, most: 1 };
const EXITS_OF_NAME = { '65': 'the key exists but is not a lock' };

export const ls: Verb = {
  usage: 'ls [PREFIX]',
  summary: 'the locks that are held or waited for, of all clients',
  details: 'It goes through all keys in small steps (SCAN).',
  options: {
    ...LIST_OPTIONS,
    older: {
      type: 'string',
      help: 'only those that somebody has held for longer, such as 5m',
    },
  },
  positionals: PREFIX,
  run: ({ values, positionals }) =>
    withClient(values, async (holdfast) => {
      const limit = limitOf(values);
      const olderMs = durationOf(values, 'older', 0);
      const order = orderOf(values);
      const isStreamed = values['json'] === true && values['sort'] === undefined;
      const found: Inspection[] = [];
      for await (const lock of listed(holdfast, values, positionals[0])) {
        if (olderMs !== undefined && ageOf(lock) <= olderMs) continue;
        found.push(lock);
        if (isStreamed) printJson(lock);
        // Any of them will do, unless the first of an order are asked for.
        if (values['sort'] === undefined && found.length === limit) break;
      }
      const locks = found.sort(order).slice(0, limit);
      if (!values['json']) for (const line of listing(locks)) print(line);
      else if (!isStreamed) for (const lock of locks) printJson(lock);
      if (locks.length === 0 && positionals[0]?.includes('*'))
        warn('PREFIX is how names begin, not a pattern: leave out the *');
      return EXIT.ok;
    }),
};

export const show: Verb = {
  usage: 'show NAME',
  summary: 'who holds a lock, since when, and who waits for it',
  positionals: NAME,
  exits: { ...EXITS_OF_NAME, '0': 'somebody holds it', '1': 'nobody holds it' },
  run: ({ values, positionals: [name = ''] }) =>
    withClient(values, async (holdfast) => {
      const lock = await holdfast.inspect(name);
      if (values['json']) printJson(lock ?? null);
      else for (const line of lock ? portrait(lock, new Date()) : [nobody(name)]) print(line);
      return lock && lock.holders.length > 0 ? EXIT.ok : EXIT.failed;
    }),
};

export const force: Verb = {
  usage: 'force NAME',
  summary: 'frees a lock, whoever holds it; shows the holder first, and asks',
  details:
    'The holder learns of it by a message or at its next renewal. Until then it works on: first make sure that its process is gone.\nFor a semaphore, and for one of several readers, --owner says whose permits are freed: show has the ids.',
  options: {
    owner: { type: 'string', help: 'frees only what this owner has' },
    yes: { type: 'boolean', short: 'y', help: 'do not ask' },
  },
  positionals: NAME,
  exits: { ...EXITS_OF_NAME, '0': 'it was freed', '1': 'nothing was changed' },
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

/** The locks that the user asks for; unless for all, without those whose holders have released them, if nobody waits. */
export async function* listed(
  holdfast: Holdfast,
  values: Values,
  prefix: string | undefined,
): AsyncGenerator<Inspection, void, undefined> {
  const { kind } = values;
  const kinds = typeof kind === 'string' ? (kind.split(',') as InspectedKind[]) : undefined;
  for await (const lock of holdfast.list({ prefix, kinds }))
    if (values['all'] || !isFinished(lock)) yield lock;
}

export function limitOf(values: Values): number {
  return wholeNumberOf(values, 'limit', 1) ?? Infinity;
}

function isFinished({ holders, waiters, waitingClients }: Inspection): boolean {
  const isOver = holders.length > 0 && holders.every(({ state }) => state === 'released');
  return isOver && waiters.length === 0 && waitingClients === 0;
}

type Order = (one: Inspection, other: Inspection) => number;

/** `lock2` stands before `lock10`. */
const NAMES = new Intl.Collator('en', { numeric: true });

const ORDERS: Readonly<Record<string, Order>> = {
  name: (one, other) => NAMES.compare(one.name, other.name),
  age: (one, other) => ageOf(other) - ageOf(one),
  waiting: (one, other) => waitingIn(other) - waitingIn(one),
};

export function orderOf({ sort = 'name' }: Values): Order {
  const order = Object.hasOwn(ORDERS, String(sort)) ? ORDERS[String(sort)] : undefined;
  if (!order)
    throw new CommandError(`--sort is "${String(sort)}": it must be name, age or waiting`);
  return (one, other) => order(one, other) || NAMES.compare(one.name, other.name);
}

/** For how long its oldest holder has it, in milliseconds, as far as is known; -1: not known. */
function ageOf({ holders }: Inspection): number {
  const nowMs = Date.now();
  return Math.max(-1, ...holders.map(({ since }) => (since ? nowMs - Number(since) : -1)));
}

function waitingIn({ waiters, waitingClients }: Inspection): number {
  return Math.max(waiters.length, waitingClients);
}

async function forceAfterAsking(holdfast: Holdfast, name: string, values: Values): Promise<number> {
  if (values['json'] && !values['yes'])
    throw new CommandError('--json asks nothing: give --yes, too');
  const owner = typeof values['owner'] === 'string' ? values['owner'] : undefined;
  if (owner === '') throw new CommandError('--owner is empty: it must be the id of an owner');
  const lock = await holdfast.inspect(name);
  if (!lock || lock.holders.length === 0) {
    const hint = name.includes('*') ? ' (force takes one name, never a pattern)' : '';
    throw new CommandError(`${nobody(name)}${hint}`, EXIT.failed);
  }
  if (owner === undefined && lock.kind === 'semaphore')
    throw new CommandError(
      `"${name}" is a semaphore: --owner says whose permits are freed, such as --owner ${lock.holders[0]?.ownerId ?? 'ID'} (npx holdfast show has all owners)`,
    );
  const holders = lock.holders.filter(({ ownerId }) => (owner ?? ownerId) === ownerId);
  if (holders.length === 0)
    throw new CommandError(`${owner ?? ''} does not hold "${name}".`, EXIT.failed);
  if (!values['json']) for (const line of portrait(lock, new Date())) print(line);
  const what = owner === undefined ? `"${name}"` : `what ${owner} has of "${name}"`;
  if (!values['yes'] && !(await asked(`Free ${what}?`))) {
    print('Nothing was changed.');
    return EXIT.failed;
  }
  const forced = await freed(holdfast, lock, owner);
  const isForced = forced.outcome === 'forced';
  if (values['json']) printJson({ name, forced: isForced });
  else if (isForced)
    print(
      owner === undefined
        ? `"${name}" was freed. Whoever waits for it may have it now.`
        : `What ${owner} had of "${name}" was freed.`,
    );
  else if (forced.outcome === 'free') print(`"${name}" had been released by then.`);
  else print(`${forced.ownerId} holds "${name}" by now. Nothing was changed.`);
  return isForced ? EXIT.ok : EXIT.failed;
}

async function freed(
  holdfast: Holdfast,
  { name, kind, holders }: Inspection,
  owner: string | undefined,
): Promise<Forced> {
  // The one holder of a plain lock is left word, and a lock that is kept is fetched from its client.
  if (owner === undefined || kind === 'lock')
    return await forceUnlock(
      holdfast,
      name,
      holders.map(({ ownerId }) => ownerId),
    );
  const isFreed = await holdfast.releaseOwner(name, kind, owner);
  return { outcome: isFreed ? 'forced' : 'free' };
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

/** A table of locks, one line each. `columns`: of a terminal whose lines must not wrap. */
export function listing(locks: readonly Inspection[], columns?: number): Line[] {
  if (locks.length === 0) return ['No locks.'];
  const now = new Date();
  const rows = locks.map((lock) => {
    const [first, ...others] = lock.holders;
    const more = others.length > 0 ? ` +${String(others.length)}` : '';
    const owner = columns === undefined ? first?.ownerId : shortOwner(first?.ownerId ?? '');
    const state = first && first.state !== 'held' ? ` (${first.state})` : '';
    const holder = first ? `${owner ?? ''}${state}${more}` : '-';
    const ago = first?.since ? sinceInWords(first, now) : '-';
    return [lock.name, lock.kind, holder, ago, first ? leaseOf(first) : '-', waitersOf(lock)];
  });
  const [head = '', ...lines] = table(
    [['NAME', 'KIND', 'HOLDER', 'HELD FOR', 'LEASE LEFT', 'WAITING'], ...rows],
    columns === undefined ? undefined : { columns, cuts: [0, 2] },
  );
  return [[styled('bold', head)], ...lines];
}

/** Where an owner runs: `<host>-<pid>`, or what its client was given as `clientId`; of Redisson, the whole. */
export function shortOwner(ownerId: string): string {
  return ownerId.replace(/-[0-9a-f]{12}:-?\d+$/, '');
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
function portrait(lock: Inspection, now: Date): Line[] {
  const { name, kind, holders, waiters, waitingClients, token, permits, isCut } = lock;
  const lines: Line[] = [[styled('bold', `${name} (${kind})`)]];
  if (permits)
    lines.push(`  permits: ${String(permits.available)} of ${String(permits.capacity)} free`);
  if (holders.length === 0) lines.push('  held by nobody');
  for (const holder of holders) {
    lines.push([
      `  ${hasIt(holder, now)} `,
      styled('green', holder.ownerId),
      `${as(holder)}${timesOf(holder.holdCount)}`,
    ]);
    const remark = REMARKS[holder.state];
    if (remark) lines.push(`    ${remark}`);
    lines.push(`    client ${holder.clientId}`);
    const lease = holder.leaseLeftMs === -1 ? NO_EXPIRY : `lease left ${leaseOf(holder)}`;
    lines.push(`    ${sinceOf(holder, now)}, ${lease}`);
  }
  for (const [index, waiter] of waiters.entries()) {
    const place = `${String(index + 1)}.`.padEnd(4);
    lines.push([
      `  ${place}`,
      styled('yellow', waiter.ownerId),
      `${as(waiter)}, ${sinceOf(waiter, now)}`,
    ]);
  }
  if (waiters.length === 0 && waitingClients > 0)
    lines.push(
      `  ${clients(waitingClients)} ${waitingClients === 1 ? 'listens' : 'listen'} for its release`,
    );
  if (token !== undefined) lines.push(`  last fencing token ${token}`);
  if (isCut) lines.push('  (there are more than are listed)');
  if (holders.length > 0) lines.push(`  to free ${freeing(lock)}`);
  return lines;
}

function freeing({ name, kind, holders }: Inspection): string {
  const ofOne = kind === 'semaphore' || holders.length > 1;
  const owner = ofOne ? `--owner ${forShell(holders[0]?.ownerId ?? '')} ` : '';
  const what = ofOne ? (kind === 'semaphore' ? 'these permits' : 'one of them') : 'it';
  const isLikeOption = name.startsWith('-') ? '-- ' : '';
  return `${what}: npx holdfast force ${owner}${isLikeOption}${forShell(name)}`;
}

function forShell(text: string): string {
  return /^[\w:.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** What an operator has to know of a holder that is perhaps not inside. */
const REMARKS: Partial<Record<HolderState, string>> = {
  released: 'nobody is inside: lockAtLeastFor keeps others out until then',
  kept: 'perhaps nobody is inside: its client keeps it for its next caller, until another client wants it',
  exported: 'nobody is known to be inside: a process may adopt it until its lease ends',
};

/** `now`: to tell until when it is taken, if it was released. */
function hasIt({ state, leaseLeftMs }: InspectedHolder, now?: Date): string {
  const isTimed = now && leaseLeftMs >= 0;
  return howHeld(state, isTimed ? new Date(Number(now) + leaseLeftMs).toISOString() : undefined);
}

function as({ mode, permits }: InspectedOwner): string {
  if (mode) return mode === 'read' ? ' to read' : ' to write';
  return permits === undefined
    ? ''
    : `, ${String(permits)} ${permits === 1 ? 'permit' : 'permits'}`;
}

function timesOf(holdCount: number | undefined): string {
  return holdCount !== undefined && holdCount > 1 ? `, ${String(holdCount)} times` : '';
}

function sinceOf(owner: InspectedOwner & Partial<InspectedHolder>, now: Date): string {
  const { since, heldSince } = owner;
  if (!since) return `since when is not known (not an owner of this holdfast)`;
  const [words, at] = [sinceInWords(owner, now), since.toISOString()];
  return `${heldSince ? `held for ${words}, since` : `${words}, at`} ${at} by its client's clock`;
}

function sinceInWords(owner: InspectedOwner & Partial<InspectedHolder>, now: Date): string {
  const { since, heldSince } = owner;
  const words = inWords(Number(now) - Number(since));
  return heldSince ? words : `asked ${words} ago`;
}

// What has changed between two looks.

interface Change {
  readonly lockName: string;
  /** What the owner has by now: `held by`, `released by`. */
  readonly how: string;
  readonly ownerId: string;
}

export function changesBetween(
  before: ReadonlyMap<string, Inspection>,
  now: ReadonlyMap<string, Inspection>,
): Change[] {
  const names = new Set([...before.keys(), ...now.keys()]);
  return [...names].flatMap((lockName): Change[] => {
    const [had, has] = [before.get(lockName), now.get(lockName)].map(holdersOf);
    const gone = [...(had?.keys() ?? [])]
      .filter((owner) => !has?.has(owner))
      .map((ownerId) => ({ lockName, how: 'released by', ownerId }));
    // (A lock that is no longer kept may still be held, by the same owner.)
    const fresh = [...(has ?? [])]
      .filter(([owner, how]) => had?.get(owner) !== how)
      .map(([ownerId, how]) => ({ lockName, how, ownerId }));
    return [...gone, ...fresh];
  });
}

/** Owner -> how it has the lock. */
function holdersOf(lock: Inspection | undefined): Map<string, string> {
  return new Map(lock?.holders.map((holder) => [holder.ownerId, hasIt(holder)]));
}
