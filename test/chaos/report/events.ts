// The events of a round in order: what callers did and believed, what the server said, what went wrong.
import type { Evidence, Violation } from '../checker/evidence.js';
import type { Section } from '../checker/history.js';
import type { Look } from '../checker/looks.js';

/** An answer that takes longer is slow. */
const SLOW_ANSWER_MS = 25;

export interface TimedEvent {
  readonly at: number;
  readonly who: string;
  readonly what: string;
  readonly kind: 'done' | 'seen' | 'fault' | 'here';
}

/** The last events up to the violation and a little after it, about its lock. */
export function eventsAround(
  evidence: Evidence,
  { lock, at, message }: Violation,
  count: number,
): TimedEvent[] {
  const here: TimedEvent = { at, who: '', what: message, kind: 'here' };
  const events = [...allEvents(evidence, lock), here].sort((one, other) => one.at - other.at);
  const index = events.indexOf(here);
  return events.slice(Math.max(0, index - count), index + Math.ceil(count / 4));
}

/** In order; of one lock, if it is given. */
export function allEvents(evidence: Evidence, lock?: string): TimedEvent[] {
  const { history, faults, looks, ownLags } = evidence;
  const isHere = (locks: readonly string[]): boolean => lock === undefined || locks.includes(lock);
  const here = looks.filter(({ lock: each }) => isHere([each]));
  const lags = [...history.lags, ...ownLags.map((lag) => ({ ...lag, process: 'the campaign' }))];
  const events: TimedEvent[] = [
    ...[...history.sections.values()].filter(({ locks }) => isHere(locks)).flatMap(ofSection),
    ...faults.flatMap(({ nemesis, from, until, detail, workers, clients, servers }) => {
      const who = [
        workers?.map((worker) => `worker ${worker}`),
        clients?.map((client) => `client ${client}`),
        servers?.map((server) => `server ${server}`),
      ]
        .flat()
        .filter((each) => each !== undefined)
        .join(' ');
      const what = `${nemesis} ${detail}`;
      const begins: TimedEvent = { at: from, who, what, kind: 'fault' };
      const ends: TimedEvent = { at: until, who, what: `healed: ${what}`, kind: 'fault' };
      return [begins, ends];
    }),
    ...[...history.forcings].flatMap(([id, { locks, from, until, isKnown }]): TimedEvent[] => [
      { at: from, who: id, what: `forceUnlock ${locks.join(' ')}`, kind: 'fault' },
      { at: until, who: id, what: isKnown ? 'forced' : 'perhaps forced', kind: 'fault' },
    ]),
    ...[...history.settings].flatMap(
      ([id, { lock, permits, from, until, isKnown }]): TimedEvent[] =>
        isHere([lock])
          ? [
              { at: from, who: id, what: `setPermits(${permits}) of ${lock}`, kind: 'fault' },
              { at: until, who: id, what: isKnown ? 'set' : 'perhaps set', kind: 'fault' },
            ]
          : [],
    ),
    ...history.lost.map(({ at, process, lock, owner, reason }): TimedEvent => {
      return {
        at,
        who: process,
        what: `event: lost "${lock}" of ${owner}: ${reason}`,
        kind: 'done',
      };
    }),
    ...history.warnings.map(({ at, process, message }): TimedEvent => {
      return { at, who: process, what: message, kind: 'seen' };
    }),
    ...history.waiting.flatMap(({ at, process, lock, owner }): TimedEvent[] =>
      isHere([lock]) ? [{ at, who: process, what: `${owner} waits`, kind: 'done' }] : [],
    ),
    ...lags.map(({ at, process, ms }): TimedEvent => {
      return {
        at,
        who: process,
        what: `its event loop stood still for ${ms.toFixed(0)} ms`,
        kind: 'fault',
      };
    }),
    ...here.flatMap(({ from, until, server }): TimedEvent[] => {
      const what = `takes ${(until - from).toFixed(0)} ms to answer`;
      const isSlow = until - from > SLOW_ANSWER_MS;
      return isSlow ? [{ at: until, who: `server ${server}`, what, kind: 'fault' }] : [];
    }),
    ...changes(here),
  ];
  return events.sort((one, other) => one.at - other.at);
}

function ofSection(section: Section): TimedEvent[] {
  const { id, how, locks, owner, beliefs, failure, inside, half, permits } = section;
  const events: { at: number | undefined; what: string }[] = [
    {
      at: section.calledAt,
      what: `${how}(${[...locks, half, permits].filter((each) => each !== undefined).join(' + ')})${section.isWatched ? '' : ` for ${section.leaseMs} ms`}${inside ? ` inside ${inside}` : ''}`,
    },
    {
      at: section.enteredAt,
      what: `enters as ${owner ?? '?'}, for ${section.leftAtEntryMs?.toFixed(0) ?? '?'} ms${section.token === undefined ? '' : `, token ${section.token}`}`,
    },
    {
      at: beliefs.at(-1)?.at,
      what: `still believes, for ${beliefs.at(-1)?.leftMs.toFixed(0) ?? ''} ms`,
    },
    ...section.writes.map(({ from, refusedBy }) => ({
      at: from,
      what: refusedBy === undefined ? 'writes' : `writes, and is refused by ${refusedBy}`,
    })),
    { at: section.doubtedAt, what: 'believes no longer' },
    { at: section.leavingAt, what: 'releases' },
    { at: section.endedAt, what: failure ? `${failure.code}: ${failure.message}` : 'has released' },
  ];
  return events.flatMap(({ at, what }) =>
    at === undefined ? [] : [{ at, who: id, what, kind: 'done' }],
  );
}

/** Only where the server said something new. */
function changes(looks: readonly Look[]): TimedEvent[] {
  const last = new Map<string, string>();
  return looks.flatMap(({ from, server, lock, holders, ttlMs, books }): TimedEvent[] => {
    const said = holders.map(({ owner, count }) => `${owner} (${count})`).join(' and ') || 'nobody';
    if (last.get(`${server} ${lock}`) === said) return [];
    last.set(`${server} ${lock}`, said);
    const what = `"${lock}": ${said}${holders.length === 0 ? '' : `, ${ttlMs} ms`}${books?.first ? `; first in line ${books.first.owner} (${books.first.count})` : ''}`;
    return [{ at: from, who: `server ${server}`, what, kind: 'seen' }];
  });
}
