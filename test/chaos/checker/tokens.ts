// Fencing tokens: each holder has a larger one than all before it, whatever the servers forgot; whoever is within another shares
// its token; and what a server remembers is never below a token that it gave.
import { lossesOf, type Evidence, type Loss, type Violation } from './evidence.js';
import { mastersAround } from './exclusion.js';
import { grouped } from './grouped.js';
import { belief, type Section } from './history.js';

/** A section that took the lock on the server, and was given a token with it. */
export type Grant = Section & { readonly enteredAt: number; readonly token: bigint };

/** What a server may take between looking at its clock and setting an expiry. */
const EXPIRY_SLACK_MS = 5;

/** A holder whose token is not larger than that of one before it. */
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
      return [
        { rule: 'tokens do not grow', at: late.enteredAt, lock, sections: [early, late], message },
      ];
    });
  });
}

/** A holder without a token, or one within another that has not the other's. */
export function wrongTokens({ plan, history }: Evidence): Violation[] {
  if (!plan.fencing) return [];
  return history.entered.flatMap((section): Violation[] => {
    const { id, token, enteredAt, locks } = section;
    const root = history.root(section);
    if (token !== undefined && token === root.token) return [];
    const message = `${id} has the token ${String(token)}, within ${root.id}, which has ${String(root.token)}`;
    return [
      { rule: 'a wrong token', at: enteredAt!, lock: locks[0], sections: [section], message },
    ];
  });
}

/** A server that does not remember a token that it gave, or a smaller one, though nothing took that from it. */
export function forgottenTokens(evidence: Evidence): Violation[] {
  const { plan, faults, looks } = evidence;
  // Of several masters a minority may know none.
  if (!plan.fencing || plan.topology === 'masters') return [];
  const { tokenTtlMs = Infinity } = plan.fencing;
  const byLock = grouped(looks, ({ lock }) => lock);
  const forgetting = faults.filter((fault) => fault.loses && fault.aheadMs === undefined);
  return [...grantsByLock(evidence)].flatMap(([lock, grants]): Violation[] => {
    const ofLock = byLock.get(lock) ?? [];
    for (const { from, until, counter, server } of ofLock) {
      // Of two servers that both take themselves for the master, only one gave the tokens.
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
      return [{ rule: 'a forgotten token', at: from, lock, sections: [grant], message }];
    }
    return [];
  });
}

/** Which of two grants of one lock was the later one, as far as that is certain. */
export class GrantOrder {
  readonly #evidence: Evidence;
  readonly #losses: readonly Loss[];

  constructor(evidence: Evidence) {
    this.#evidence = evidence;
    this.#losses = lossesOf(evidence);
  }

  /**
   * Whether a server gave `early` its token before it gave `late` one: somewhere between its call and its entry. Who still believed
   * when it entered was there all the time since its grant: so nobody who entered before it can have been given the lock after it,
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
   * What the promise excepts: the last token was lost between them, and the clock, below which no token is, had been set back. By no
   * more than that may the later one be smaller.
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
export function grantsByLock({ history }: Evidence): Map<string, Grant[]> {
  const grants = history.entered.filter(
    (section): section is Grant => section.inside === undefined && section.token !== undefined,
  );
  return grouped(grants, ({ locks }) => locks[0]!);
}
