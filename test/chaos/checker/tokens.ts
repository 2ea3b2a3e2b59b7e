// Fencing tokens: each holder has a larger one than all before it, whatever the servers forgot; a nested holder shares the outer token; a
// server never remembers less than a token that it issued; and a document accepts no stale write.
import {
  grantedAfter,
  isTouched,
  lossesOf,
  RESTART_EMPTY,
  type Evidence,
  type Loss,
  type Violation,
  violation,
} from './evidence.js';
import { mastersAround } from './exclusion.js';
import { belief, grouped, type Section, type Write } from './history.js';

/** A section that acquired the lock on the server and got a token with it. */
type Grant = Section & { readonly enteredAt: number; readonly token: bigint };

/** The time a server may take between reading its clock and setting an expiry. */
const EXPIRY_SLACK_MS = 5;

/** A holder whose token is not larger than that of an earlier one. */
export function smallerTokens(evidence: Evidence): Violation[] {
  const order = new GrantOrder(evidence);
  return [...grantsByLock(evidence)].flatMap(([lock, grants]) => {
    let largest = 0n;
    return grants.flatMap((late, index): Violation[] => {
      const mayBeWrong = late.token <= largest;
      if (late.token > largest) largest = late.token;
      if (!mayBeWrong) return [];
      const before = grants.slice(0, index);
      const early = before.find(
        (each) =>
          (each.token === late.token || (each.token > late.token && order.isBefore(each, late))) &&
          !order.isExcused(each, late),
      );
      if (!early) return [];
      const message = `${late.id} was given "${lock}" after ${early.id}, and its token ${late.token} is not larger than ${early.token}`;
      return [violation('tokens do not grow', late.enteredAt, message, [early, late], lock)];
    });
  });
}

/** A holder without a token, or a nested one whose token differs from the outer one. */
export function wrongTokens({ plan, history }: Evidence): Violation[] {
  if (!plan.fencing) return [];
  return history.entered.flatMap((section): Violation[] => {
    const { id, token, enteredAt, locks } = section;
    const root = history.root(section);
    if (token !== undefined && token === root.token) return [];
    const message = `${id} has the token ${String(token)}, within ${root.id}, which has ${String(root.token)}`;
    return [violation('a wrong token', enteredAt!, message, [section], locks[0])];
  });
}

/** A server that remembers no token, or a smaller one than it issued, although nothing took that from it. */
export function forgottenTokens(evidence: Evidence): Violation[] {
  const { plan, faults, looks } = evidence;
  // A minority of several masters may know none.
  if (!plan.fencing || plan.topology === 'masters') return [];
  const { tokenTtlMs = Infinity } = plan.fencing;
  const byLock = grouped(looks, ({ lock }) => lock);
  const forgetting = faults.filter((fault) => fault.loses && fault.aheadMs === undefined);
  return [...grantsByLock(evidence)].flatMap(([lock, grants]): Violation[] => {
    const ofLock = byLock.get(lock) ?? [];
    for (const { from, until, counter, server } of ofLock) {
      // Of two servers that both claim to be master, only one issued the tokens.
      if ((mastersAround(evidence, ofLock, [from, until])?.size ?? 1) > 1) continue;
      const forgotAt = forgetting
        .filter((fault) => fault.from <= until)
        .map((fault) => fault.until);
      const since = Math.max(...forgotAt, until + EXPIRY_SLACK_MS - tokenTtlMs);
      const grant = grants.find(
        ({ calledAt, enteredAt, token }) =>
          calledAt > since && enteredAt < from && token > (counter ?? 0n),
      );
      if (!grant) continue;
      const message = `server ${server} gave ${grant.id} the token ${grant.token} of "${lock}", and its last one was ${String(counter)} then`;
      return [violation('a forgotten token', from, message, [grant], lock)];
    }
    return [];
  });
}

/** Which of two grants of one lock was the later one, as far as that is certain. */
class GrantOrder {
  readonly #evidence: Evidence;
  readonly #losses: readonly Loss[];

  constructor(evidence: Evidence) {
    this.#evidence = evidence;
    this.#losses = lossesOf(evidence);
  }

  /**
   * Whether a server issued the token of `early` before that of `late`: each at some time between its call and its entry. A section that
   * still believed when it entered held the lock since its grant: so no section that entered before it can have got the lock after it,
   * unless something was lost in between.
   */
  isBefore(early: Grant, late: Grant): boolean {
    if (early.enteredAt < late.calledAt) return true;
    if (early.enteredAt >= late.enteredAt) return false;
    if (belief(late)?.[0] !== late.enteredAt) return false;
    const [lock] = late.locks;
    return !this.#losses.some(
      ({ locks, from, until }) =>
        (locks === 'all' || locks.includes(lock!)) &&
        from <= early.enteredAt &&
        until >= late.calledAt,
    );
  }

  /**
   * The exception to the promise: the last token was lost between them, and the clock, below which no token is, had been set back. The
   * later token may be smaller by no more than that.
   */
  isExcused(early: Grant, late: Grant): boolean {
    const { faults } = this.#evidence;
    const isLost = faults.some(
      ({ loses, aheadMs, from, until }) =>
        loses &&
        aheadMs === undefined &&
        from <= late.enteredAt &&
        until >= early.calledAt &&
        (loses === 'all' || loses.includes(late.locks[0]!)),
    );
    const begun = faults.filter(({ from }) => from <= late.enteredAt);
    const aheadMs = [0, ...begun.map((fault) => fault.aheadMs ?? 0)];
    const setBackMs = Math.max(...aheadMs) - Math.min(...aheadMs);
    return isLost && early.token - late.token < BigInt(Math.round(1_000 * setBackMs));
  }
}

/** In the order in which they entered. */
function grantsByLock({ history }: Evidence): Map<string, Grant[]> {
  const grants = history.entered.filter(
    (section): section is Grant => section.inside === undefined && section.token !== undefined,
  );
  return grouped(grants, ({ locks }) => locks[0]!);
}

// Most masters know the token of a Redlock's holder when it has the lock; guarded masters do not count.

/** A holder whose token certainly too few masters knew while it had the lock. */
export function unknownTokens(evidence: Evidence): Violation[] {
  const { plan } = evidence;
  if (!plan.fencing || plan.topology !== 'masters') return [];
  const tolerated = plan.masters - (Math.floor(plan.masters / 2) + 1);
  return [...grantsByLock(evidence)].flatMap(([lock, grants]): Violation[] => {
    return grants.flatMap((grant): Violation[] => {
      const [heard] = grant.heard;
      if (!heard) return [];
      const wrong = heard.counters.flatMap((counter, server) => {
        if (isGuarded(evidence, server, grant)) return [`${server} was guarded`];
        if (counter === undefined || counter >= grant.token) return [];
        if (mayHaveForgotten(evidence, server, grant, heard.at)) return [];
        return [`${server} knew ${counter}`];
      });
      if (wrong.length <= tolerated) return [];
      const message = `${grant.id} had "${lock}" with the token ${grant.token}, which too few masters knew: master ${wrong.join(', master ')}`;
      return [violation('a token too few know', grant.enteredAt, message, [grant], lock)];
    });
  });
}

/** Whether its uptime was certainly shorter than any guard when the holder's election ended, and before that began. */
function isGuarded({ faults, plan }: Evidence, server: number, grant: Grant): boolean {
  return faults.some(
    ({ nemesis, servers, from, until }) =>
      nemesis === RESTART_EMPTY &&
      servers?.includes(server) &&
      until <= grantedAfter(grant, plan.watchdogMs) &&
      grant.enteredAt < from + plan.watchdogMs,
  );
}

/** Any fault of the server may have restarted it since. */
function mayHaveForgotten(
  { faults }: Evidence,
  server: number,
  grant: Grant,
  until: number,
): boolean {
  return faults.some(
    (fault) =>
      (fault.servers?.includes(server) ?? false) &&
      fault.from <= until &&
      fault.until >= grant.calledAt,
  );
}

// The purpose of fenced locks: a document that refuses older tokens accepts no write from a caller that has lost the lock, and every write
// from its holder.

interface Written extends Write {
  readonly section: Section;
  /** The section whose token it shows. */
  readonly grant: Grant;
}

/** A write that was accepted although a later holder had written before. */
export function staleWrites(evidence: Evidence): Violation[] {
  const order = new GrantOrder(evidence);
  const byLock = grouped(writesOf(evidence).filter(isAccepted), ({ grant }) => grant.locks[0]!);
  return [...byLock].flatMap(([lock, writes]) =>
    writes.flatMap((stale): Violation[] => {
      const newer = writes.find(
        ({ until, grant }) =>
          until < stale.from &&
          (grant.token > stale.grant.token ||
            (order.isBefore(stale.grant, grant) && !order.isExcused(stale.grant, grant))),
      );
      if (!newer) return [];
      const message = `${stale.section.id} wrote to the document of "${lock}" after ${newer.section.id}, which was given the lock later, and was not refused`;
      const sections = [stale.section, newer.section];
      return [violation('a stale write', stale.from, message, sections, lock)];
    }),
  );
}

/** A write that was refused although its writer believed before and after it, without an excuse. */
export function refusedHolders(evidence: Evidence): Violation[] {
  const order = new GrantOrder(evidence);
  const losses = lossesOf(evidence);
  const writes = writesOf(evidence);
  return writes.flatMap(({ section, grant, from, until, refusedBy }): Violation[] => {
    const believed = belief(section);
    if (refusedBy === undefined || !believed) return [];
    if (believed[0] > from || believed[1] < until) return [];
    const isLost = losses.some((loss) => isTouched(evidence, grant, loss) && loss.from <= until);
    const early = writes.find((each) => each.grant.token === refusedBy);
    if (isLost || (early && order.isExcused(early.grant, grant))) return [];
    const [lock] = section.locks;
    const message = `${section.id} held "${lock!}", and was refused with ${grant.token}, since the document had seen ${refusedBy}`;
    return [violation('a refused holder', from, message, [section], lock)];
  });
}

function writesOf({ history }: Evidence): Written[] {
  return history.entered.flatMap((section) => {
    const grant = history.root(section);
    if (grant.token === undefined || grant.enteredAt === undefined) return [];
    return section.writes.map((write) => ({ ...write, section, grant: grant as Grant }));
  });
}

/** The outcome is known. */
function isAccepted({ until, refusedBy }: Write): boolean {
  return until !== Infinity && refusedBy === undefined;
}
