// Unwanted state is removed: owners that no call of their client wants, and the effects of abandoned calls.
import { DESERTION } from '../worker/journal.js';
import {
  isDisturbed,
  stoodStillMs,
  type Evidence,
  type Violation,
  violation,
  startedAt,
} from './evidence.js';
import { grouped, type Section } from './history.js';
import { slowestAnswerMs } from './wake-ups.js';

/** How long the removal may take. */
const AT_ONCE_MS = 500;
/** The same when close() has waited for it. */
const CLOSED_MS = 200;

export function orphans(evidence: Evidence): Violation[] {
  const { history, looks } = evidence;
  const ofClient = grouped(history.sections.values(), ({ client }) => client);
  const owned = looks.flatMap((look) => look.holders.map(({ owner }) => ({ ...look, owner })));
  // Nobody may ever adopt a hold: it ends with its lease.
  const exported = new Set(
    history.entered.filter(({ exportedAt }) => exportedAt !== undefined).map(({ owner }) => owner),
  );
  const standing = grouped(
    owned.filter(({ owner }) => !exported.has(owner)),
    ({ owner, lock, server }) => `${owner} ${lock} ${server}`,
  );
  return [...standing.values()].flatMap((seen): Violation[] => {
    const [first] = seen;
    const last = seen.at(-1)!;
    const client = clientOf(first!.owner);
    const sections = ofClient.get(client) ?? [];
    const callers = sections.filter(({ locks }) => locks.includes(first!.lock));
    const [any] = callers;
    if (!any) return [];
    const found = [
      unwanted(evidence, callers, last.from),
      ...closed(evidence, any.client, first!.from),
    ].find(({ since, graceMs, from }) => {
      const begins = Math.max(since, first!.from);
      if (last.from - begins < graceMs) return false;
      return !isDisturbed(evidence, any, from ?? begins, last.from);
    });
    if (!found) return [];
    const ms = Math.round(last.from - Math.max(found.since, first!.from));
    const message = `${last.owner} stood in "${last.lock}" for ${ms} ms, and ${found.why}`;
    return [violation('left behind', last.from, message, [], last.lock)];
  });
}

/** From when on an owner may no longer exist. */
interface End {
  readonly why: string;
  readonly since: number;
  readonly graceMs: number;
  /** Since when nothing may have been in the way; undefined: since then. */
  readonly from?: number;
}

/** Since when no call of that client could want it any more. */
function unwanted({ plan }: Evidence, callers: readonly Section[], at: number): End {
  const since = Math.max(...callers.map((section) => wantedUntil(section, at)));
  const why = 'nobody of that client held it or called for it';
  return { why, since, graceMs: AT_ONCE_MS + plan.commandTimeoutMs };
}

/** A section that is still inside when its client is closed has nothing any more. */
function closed({ plan, history }: Evidence, client: string, seenAt: number): End[] {
  // Each master of a Redlock has a client of its own, which is closed on its own.
  const closing = plan.kind === 'red' ? undefined : history.closings.get(client);
  // A close() that took all of its time may have given up.
  if (!closing || closing.until - closing.from >= plan.commandTimeoutMs) return [];
  const from = Math.min(closing.from, seenAt);
  return [{ why: 'its client was closed', since: closing.until, graceMs: CLOSED_MS, from }];
}

/** Only calls that began before count; a call that has not ended still wants it. */
function wantedUntil({ calledAt, endedAt = Infinity }: Section, at: number): number {
  return calledAt > at ? -Infinity : endedAt;
}

/** The client of an owner: worker, incarnation, client, how often it was reopened. The client's own id goes on behind a hyphen. */
function clientOf(owner: string): string {
  return owner.slice(0, owner.lastIndexOf(':')).replace(/(m\d+)?-.*/, '');
}

// The effects of a call that was abandoned on its way are removed at once: the next caller need not wait for its lease to end.

/** Of a lease: an abandoned lock lasts longer. */
const LATE = 0.5;
/** Once may be due to the machine. */
const LEAST = 2;
const SHARE = 0.3;

/** Names that one call has abandoned and of which the next one was blocked, although all was well. */
export function desertions(evidence: Evidence): Violation[] {
  const { history, plan } = evidence;
  const calls = [...history.sections.values()].filter(({ how }) => how === DESERTION);
  const waits = [...grouped(calls, ({ locks }) => locks[0]!).values()].flatMap(([gone, next]) => {
    if (gone && gone.calledAt < startedAt(evidence)) return [];
    if (gone?.failure?.code !== 'LOCK_ABORTED' || next?.enteredAt === undefined) return [];
    if (isDisturbed(evidence, next, gone.calledAt, next.enteredAt)) return [];
    return [{ gone, next, ms: waitedMs(evidence, next, next.enteredAt) }];
  });
  const late = waits.filter(({ ms }) => ms > LATE * plan.watchdogMs);
  const [first] = late;
  if (!first || late.length < LEAST || late.length < SHARE * waits.length) return [];
  const { gone, next, ms } = first;
  const message = `${gone.id} was given up while it was on its way, and ${next.id} was kept out for ${Math.round(ms)} ms; so it was ${late.length} of ${waits.length} times`;
  return [violation('left behind', next.enteredAt!, message, [gone, next])];
}

/** Without the time that the machine took of it. */
function waitedMs(evidence: Evidence, next: Section, enteredAt: number): number {
  const lagMs = stoodStillMs(evidence, next, next.calledAt, enteredAt);
  return (
    enteredAt - next.calledAt - lagMs - 3 * slowestAnswerMs(evidence, next.calledAt, enteredAt)
  );
}
