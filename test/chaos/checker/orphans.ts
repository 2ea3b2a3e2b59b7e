// What nobody wants is taken back: owners that nobody of their client wants, and what was given up while it was on its way.
import { DESERTION } from '../worker/journal.js';
import { isDisturbed, stoodStillMs, type Evidence, type Violation, violation } from './evidence.js';
import { grouped, type Section } from './history.js';
import { slowestAnswerMs } from './wake-ups.js';

/** How long removing them may take. */
const AT_ONCE_MS = 500;
/** The same when close() has waited for that. */
const CLOSED_MS = 200;

export function orphans(evidence: Evidence): Violation[] {
  const { history, looks } = evidence;
  const ofClient = grouped(history.sections.values(), ({ client }) => client);
  const owned = looks.flatMap((look) => look.holders.map(({ owner }) => ({ ...look, owner })));
  const standing = grouped(owned, ({ owner, lock, server }) => `${owner} ${lock} ${server}`);
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

/** From when on an owner may not stand any more. */
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

/** Who is still inside when its client is closed has nothing any more. */
function closed({ plan, history }: Evidence, client: string, seenAt: number): End[] {
  // Of a Redlock the client of each master is closed for itself.
  const closing = plan.kind === 'red' ? undefined : history.closings.get(client);
  // One that took all of its time may have given up.
  if (!closing || closing.until - closing.from >= plan.commandTimeoutMs) return [];
  const from = Math.min(closing.from, seenAt);
  return [{ why: 'its client was closed', since: closing.until, graceMs: CLOSED_MS, from }];
}

/** Only calls that began before count; one that has not ended wants it still. */
function wantedUntil({ calledAt, endedAt = Infinity }: Section, at: number): number {
  return calledAt > at ? -Infinity : endedAt;
}

/** Whose an owner is, as its client is called: worker, incarnation, client, how often it was opened anew. The id of a client says more than that. */
function clientOf(owner: string): string {
  return owner.slice(0, owner.lastIndexOf(':')).replace(/(m\d+)?-[0-9a-f]{12}$/, '');
}

// What was given up while it was on its way is taken back at once: who comes next need not wait for its lease to end.

/** Of a lease: one that was left behind goes on for longer. */
const LATE = 0.5;
/** Once may be the machine's doing. */
const LEAST = 2;
const SHARE = 0.3;

/** Names that one call has given up, and of which the next one was kept out, though all was well. */
export function desertions(evidence: Evidence): Violation[] {
  const { history, plan } = evidence;
  const calls = [...history.sections.values()].filter(({ how }) => how === DESERTION);
  const waits = [...grouped(calls, ({ locks }) => locks[0]!).values()].flatMap(([gone, next]) => {
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

/** Without what the machine took of it. */
function waitedMs(evidence: Evidence, next: Section, enteredAt: number): number {
  const lagMs = stoodStillMs(evidence, next, next.calledAt, enteredAt);
  return (
    enteredAt - next.calledAt - lagMs - 3 * slowestAnswerMs(evidence, next.calledAt, enteredAt)
  );
}
