// Two holders never believe at the same time that they hold a lock; and none believes so while the server says otherwise.
import { isWeighted } from '../plan.js';
import {
  grantedAfter,
  isTouched,
  lossesOf,
  type Evidence,
  type Loss,
  type Violation,
  violation,
} from './evidence.js';
import { belief, grouped, type Section } from './history.js';
import { heldBy, looksByOwner, type Look } from './looks.js';

/** The fault that delivers a command once more, or late. */
const COPIES = 'lose, double and delay commands';

/** Two holders that both still believed at one instant, of which neither is nested in the other. */
export function twoHolders(evidence: Evidence): Violation[] {
  return overlaps(evidence)
    .filter(({ losers }) => losers.length === 0)
    .map(({ lock, holders, from, until }) => {
      const [one, other] = holders;
      const ms = until - from;
      const message = `both ${one.id} and ${other.id} believed for ${ms.toFixed(1)} ms that they hold "${lock}"`;
      return violation('two holders', from, message, holders, lock);
    });
}

/** Two that believed at the same time that they hold a lock. */
interface Overlap {
  readonly lock: string;
  /** In the order in which they entered. */
  readonly holders: readonly [Section, Section];
  /** When the second one entered. */
  readonly from: number;
  readonly until: number;
  /** Which of them had lost the lock when the other one came, and by what. */
  readonly losers: readonly { readonly section: Section; readonly loss: Loss }[];
}

/** All of them, unless they may hold it at the same time. */
export function overlaps(evidence: Evidence): Overlap[] {
  const { history, plan } = evidence;
  if (plan.permits) return []; // allowed, as long as there are permits
  const losses = lossesOf(evidence);
  const found: Overlap[] = [];
  for (const lock of plan.locks) {
    const believing: { section: Section; from: number; until: number }[] = [];
    for (const section of history.entered) {
      const interval = section.locks.includes(lock) ? belief(section) : undefined;
      if (!interval) continue;
      const [from, until] = interval;
      for (const other of believing) {
        if (other.until <= from || other.from >= until) continue;
        if (section.half === 'read' && other.section.half === 'read') continue;
        if (history.around(section).includes(other.section)) continue;
        if (history.around(other.section).includes(section)) continue;
        const holders = [other.section, section] as const;
        const losers = losersAmong(evidence, losses, holders);
        found.push({ lock, holders, from, until: Math.min(until, other.until), losers });
      }
      believing.push({ section, from, until });
    }
  }
  return found;
}

/** A lock was to stay taken though it is released, and somebody else had it within that time. */
export function freedTooEarly(evidence: Evidence): Violation[] {
  const losses = lossesOf(evidence);
  const timed = evidence.history.entered.filter(({ atLeastMs }) => atLeastMs !== undefined);
  const byLock = grouped(timed, ({ locks }) => locks[0]!);
  return [...byLock].flatMap(([lock, [first, next]]): Violation[] => {
    if (!first || !next) return [];
    const earlyMs = first.calledAt + first.atLeastMs! - next.enteredAt!;
    const isLost = losses.some(
      ({ from, until, locks }) =>
        from <= next.enteredAt! &&
        until >= first.calledAt &&
        (locks === 'all' || locks.includes(lock)),
    );
    if (earlyMs <= 0 || isLost) return [];
    const message = `"${lock}" was taken by ${first.id} for ${first.atLeastMs!} ms, and ${next.id} had it ${Math.round(earlyMs)} ms earlier`;
    return [violation('freed too early', next.enteredAt!, message, [first, next], lock)];
  });
}

/** Those that had lost the lock, by a noted event, when the other one came. */
function losersAmong(
  evidence: Evidence,
  losses: readonly Loss[],
  [one, other]: Overlap['holders'],
): Overlap['losers'] {
  const { history } = evidence;
  if (history.root(one) === history.root(other)) return []; // branches of one holder: no server decides about them
  const lostBy = (section: Section, { enteredAt }: Section): Overlap['losers'] =>
    losses
      .filter((loss) => isTouched(evidence, section, loss) && loss.from <= enteredAt!)
      .map((loss) => ({ section, loss }));
  return [...lostBy(one, other), ...lostBy(other, one)];
}

/** A holder that believes while the key is another owner's, or nobody's. */
export function notOnTheServer(evidence: Evidence): Violation[] {
  const { plan, history } = evidence;
  // A minority of several masters may answer anything.
  if (plan.topology === 'masters') return [];
  const losses = lossesOf(evidence);
  const byLock = grouped(evidence.looks, ({ lock }) => lock);
  const byOwner = grouped(history.entered, ({ owner }) => owner);
  const ofOwner = looksByOwner(evidence.looks);
  return history.entered.flatMap((section): Violation[] => {
    const interval = section.owner === undefined ? undefined : belief(section);
    if (!interval) return [];
    const touching = losses.filter((loss) => isTouched(evidence, section, loss));
    return section.locks.flatMap((lock) => {
      const looks = byLock.get(lock) ?? [];
      // Of two servers that both claim to be master, the one that granted the lock decides. The other one may have granted it before
      // without the first hearing of it.
      const since = grantedAfter(section, plan.watchdogMs);
      const letIn = new Set(
        (ofOwner.get(section.owner!) ?? [])
          .filter(({ look }) => look.lock === lock && look.until >= since)
          .map(({ look }) => look.server),
      );
      const within = looksWithin(looks, interval).filter(
        ({ until }) => !touching.some(({ from }) => from <= until),
      );
      // No query saw a short stay: then any server that claims to be master may have granted it.
      const masters = letIn.size > 0 ? letIn : mastersAround(evidence, looks, interval);
      const others = within.filter(
        (look) =>
          !heldBy(look, section.owner) &&
          (masters?.has(look.server) ?? true) &&
          !look.holders.some(({ owner }) =>
            isHandingOver(history, owner, byOwner.get(owner), section, look),
          ),
      );
      const [look] = others;
      if (!look) return [];
      const denying = new Set(others.map(({ server }) => server));
      if (letIn.size === 0 && masters && denying.size < masters.size) return [];
      const owners = look.holders.map(({ owner }) => owner).join(' and ');
      const whose = owners === '' ? "nobody's" : `that of ${owners}`;
      const message = `${section.id} (${section.owner!}) believed that it holds "${lock}" while the key on server ${look.server} was ${whose}`;
      return [violation('not on the server', look.from, message, [section], lock)];
    });
  });
}

/**
 * Whether the key may still be that of an owner whose release named this one: that was under way, or its answer is unknown. `formers`: the
 * previous owners; empty when the lock was released at once, by a MultiLock or by a caller that had given up.
 */
function isHandingOver(
  history: Evidence['history'],
  formerOwner: string,
  formers: readonly Section[] | undefined,
  section: Section,
  look: Look,
): boolean {
  if (clientOf(formerOwner) !== clientOf(section.owner!)) return false;
  return (
    formers?.some(
      (former) =>
        (former.leavingAt ?? Infinity) <= section.enteredAt! &&
        (former.failure !== undefined ||
          look.from <= (former.endedAt ?? Infinity) ||
          isReleaseUnknown(history, former)),
    ) ?? true
  );
}

/** Whether a `withLock` ended, though its release was not answered: only an event tells. */
function isReleaseUnknown(
  { warnings }: Evidence['history'],
  { process, locks, leavingAt = Infinity, endedAt = Infinity }: Section,
): boolean {
  return warnings.some(
    ({ at, message, ...warned }) =>
      warned.process === process &&
      at >= leavingAt &&
      at <= endedAt &&
      locks.some((lock) => message.includes(`lock "${lock}" not known to be released`)),
  );
}

function clientOf(owner: string): string {
  return owner.replace(/:\d+$/, '');
}

/** The servers that claimed to be master about then; undefined: only with Sentinel there may be two at a time. */
export function mastersAround(
  { plan: { topology, watchdogMs: marginMs } }: Evidence,
  looks: readonly Look[],
  [from, until]: readonly [number, number],
): Set<number> | undefined {
  if (topology !== 'sentinel') return undefined;
  const around = looksWithin(looks, [from - marginMs, until + marginMs]);
  return new Set(around.map(({ server }) => server));
}

/** Those that began and ended within this time. */
function looksWithin(looks: readonly Look[], [from, until]: readonly [number, number]): Look[] {
  let low = 0;
  for (let high = looks.length; low < high;) {
    const middle = (low + high) >> 1;
    if (looks[middle]!.from < from) low = middle + 1;
    else high = middle;
  }
  const within: Look[] = [];
  for (let i = low; i < looks.length && looks[i]!.from <= until; i++) {
    if (looks[i]!.until <= until) within.push(looks[i]!);
  }
  return within;
}

/** A holder whose count on the server differs from that of its holds, although no command is under way. */
export function wrongCounts(evidence: Evidence): Violation[] {
  const { plan, history, looks } = evidence;
  if (plan.topology === 'masters' || isWeighted(plan)) return [];
  const byOwner = looksByOwner(looks);
  const byLock = grouped(looks, ({ lock }) => lock);
  const families = grouped(history.sections.values(), (section) => history.root(section));
  return [...families].flatMap(([root, family]): Violation[] => {
    const ours = root.owner === undefined ? [] : (byOwner.get(root.owner) ?? []);
    // A failed command may or may not have run.
    if (ours.length === 0 || family.some(({ failure }) => failure)) return [];
    const wrong = ours.find(({ look, count }) => {
      // The server does not count the holds of a client that may keep the lock.
      if (count === -1 && root.mayBeKept) return false;
      if (mayNotBeReleased(evidence, root, look.until)) return false;
      if (isChanging(family, look)) return false;
      if (isGivenUp(evidence, root, look.until)) return false;
      const holds = family.filter(
        ({ enteredAt = Infinity, leavingAt = Infinity }) =>
          enteredAt < look.from && leavingAt > look.until,
      ).length;
      // A late copy of a command sets a count that was right before, and a replica that has taken over may have missed a later one, even the
      // first: then the count is still that of the hand-over.
      const mayBeOlder =
        (count > 0 && mayHaveCopies(evidence, root, look.until)) ||
        wasTakenOver(evidence, root, look.until);
      if (mayBeOlder && count <= mostHolds(family, look.until)) return false;
      const isUnconfirmed = count === 0 && holds === 1; // a hand-over that is being confirmed
      if (count === holds || holds === 0 || isUnconfirmed) return false;
      // A replica that has just taken over may have missed the former master's last commands.
      const sameLock = byLock.get(look.lock) ?? [];
      return (mastersAround(evidence, sameLock, [look.from, look.until])?.size ?? 1) === 1;
    });
    if (!wrong) return [];
    const { lock, from } = wrong.look;
    const message = `"${lock}" was held by ${root.owner!} with a count of ${wrong.count}, which is not that of its holds`;
    return [violation('wrong count', from, message, family, lock)];
  });
}

/** withLock() reports a failed release by an event, and its section ends as if nothing had happened. */
export function mayNotBeReleased({ history }: Evidence, root: Section, until: number): boolean {
  const unknown = `lock "${root.locks[0]!}" not known to be released`;
  return history.warnings.some(
    ({ process, at, message }) =>
      process === root.process && at > root.calledAt && at < until && message.includes(unknown),
  );
}

/** A MultiLock that has lost one of its locks gives up the others, whose counts go down before their holders notice. */
function isGivenUp({ history }: Evidence, { locks, owner }: Section, until: number): boolean {
  return locks.length > 1 && history.lost.some((lost) => lost.owner === owner && lost.at <= until);
}

/** One of them may have come or gone during the query. */
export function isChanging(family: readonly Section[], look: Look): boolean {
  return family.some(
    ({ calledAt, enteredAt = Infinity, leavingAt = Infinity, endedAt = Infinity }) =>
      (calledAt <= look.until && enteredAt >= look.from) ||
      (leavingAt <= look.until && endedAt >= look.from),
  );
}

/** Commands of its client were delivered twice or late while it was held, according to the plan. */
function mayHaveCopies({ faults, plan }: Evidence, root: Section, until: number): boolean {
  return faults.some(
    ({ nemesis, clients, from, until: end }) =>
      nemesis === COPIES &&
      clients?.includes(root.clientIndex) &&
      from <= until &&
      end + 2 * plan.watchdogMs >= root.calledAt,
  );
}

/** A replica has taken over while it was held, in place of the only server; with several servers the queries show the master. */
function wasTakenOver({ faults, plan }: Evidence, root: Section, until: number): boolean {
  return faults.some(
    ({ nemesis, from }) =>
      plan.topology === 'single' &&
      nemesis === 'a replica takes over in order' &&
      from <= until &&
      from >= root.calledAt,
  );
}

/** The largest number of them that were held at the same time, until then. */
function mostHolds(family: readonly Section[], until: number): number {
  const counts = family.map(({ enteredAt: at }) =>
    at === undefined || at > until
      ? 0
      : family.filter(
          ({ enteredAt = Infinity, leavingAt = Infinity }) => enteredAt <= at && leavingAt > at,
        ).length,
  );
  return Math.max(...counts);
}

/** A lock that would never end if its holder died. */
export function withoutExpiry({ looks }: Evidence): Violation[] {
  const look = looks.find(({ holders, ttlMs }) => holders.length > 0 && ttlMs === -1);
  if (!look) return [];
  const message = `"${look.lock}" was held by ${look.holders[0]!.owner} without an expiry`;
  return [violation('no expiry', look.from, message, [], look.lock)];
}
