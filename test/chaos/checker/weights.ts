// Locks with several holders: never more inside than there is room for, each with the permits it asked for, and no permit is lost.
import {
  isDisturbed,
  isTouched,
  LATE_COMMAND_MS,
  lossesOf,
  type Evidence,
  type Loss,
  type Violation,
  violation,
} from './evidence.js';
import { isChanging, mastersAround, mayNotBeReleased } from './exclusion.js';
import { belief, grouped, type Section, type Setting } from './history.js';
import { looksByOwner, type Look } from './looks.js';

/** The weight of a writer on the server. */
const ALL = 2 ** 31;

/** More holders believed at one instant than the semaphore may have had permits when the last of them was let in. */
export function tooManyHolders(evidence: Evidence): Violation[] {
  const room = new Room(evidence);
  return crowds(evidence).flatMap(({ lock, at, inside }): Violation[] => {
    // A holder that had lost its permits when another one came takes no room.
    const certain = inside.filter(({ losses }) => losses.length === 0);
    const sections = certain.map(({ section }) => section);
    const excess = room.excess(lock, at, sections);
    if (!excess) return [];
    const message = `${excess.ids} believed at one instant that they hold ${excess.held} permits of "${lock}", of which there were ${excess.most}`;
    return [violation('too many holders', at, message, sections, lock)];
  });
}

/** Those who believed that they have permits when one more came, who is the last of them. */
interface Crowd {
  readonly lock: string;
  readonly at: number;
  readonly inside: readonly {
    readonly section: Section;
    readonly until: number;
    /** By which it may have lost its permits by then. */
    readonly losses: readonly Loss[];
  }[];
}

/** One for each time that somebody entered a semaphore. */
export function crowds(evidence: Evidence): Crowd[] {
  const { plan, history } = evidence;
  if (!plan.permits) return [];
  const all = lossesOf(evidence);
  return plan.locks.flatMap((lock) => {
    let inside: { section: Section; until: number }[] = [];
    return history.entered.flatMap((section): Crowd[] => {
      const interval = section.locks.includes(lock) ? belief(section) : undefined;
      if (!interval) return [];
      const [at, until] = interval;
      inside = [...inside.filter((each) => each.until > at), { section, until }];
      const withLosses = inside.map((each) => {
        const losses = all.filter(
          (loss) => loss.from <= at && isTouched(evidence, each.section, loss),
        );
        return { ...each, losses };
      });
      return [{ lock, at, inside: withLosses }];
    });
  });
}

/** How much room semaphores had. */
export class Room {
  readonly #capacities: Capacities;

  constructor(evidence: Evidence) {
    this.#capacities = new Capacities(evidence);
  }

  /** How many permits these believed to hold, if there cannot have been as many when the last of them was let in. */
  excess(
    lock: string,
    at: number,
    sections: readonly Section[],
  ): { readonly held: number; readonly most: number; readonly ids: string } | undefined {
    const held = sections.reduce((sum, { permits = 1 }) => sum + permits, 0);
    // Who adopts permits has them from somebody who was let in earlier.
    const letIn = sections.filter(({ how }) => how !== 'adopt');
    const lastCalledAt = Math.max(...letIn.map(({ calledAt }) => calledAt));
    const most = Math.max(...this.#capacities.possible(lock, lastCalledAt, at));
    if (held <= most) return undefined;
    return {
      held,
      most,
      ids: sections.map(({ id, permits = 1 }) => `${id} (${permits})`).join(', '),
    };
  }
}

/** A holder whose weight on the server differs from its request; or is still that of a writer when it only reads. */
export function wrongWeights(evidence: Evidence): Violation[] {
  const byOwner = looksByOwner(evidence.looks);
  const families = grouped(evidence.history.sections.values(), (section) =>
    evidence.history.root(section),
  );
  return [...families].flatMap(([root, family]): Violation[] => {
    if (root.permits === undefined && root.half === undefined) return [];
    const ours = root.owner === undefined ? [] : (byOwner.get(root.owner) ?? []);
    const wrong = ours.find(({ look, count }) => !isRight(evidence, root, family, look, count));
    if (!wrong) return [];
    const { lock, from } = wrong.look;
    const message = `${root.id} had ${wrong.count} permits of "${lock}" as ${root.owner!}, which is not what it held`;
    return [violation('wrong weight', from, message, family, lock)];
  });
}

function isRight(
  evidence: Evidence,
  root: Section,
  family: readonly Section[],
  look: Look,
  count: number,
): boolean {
  if (root.permits !== undefined) return count === root.permits;
  if (root.half === 'read') return count === 1;
  const isInside = ({ enteredAt = Infinity, leavingAt = Infinity }: Section): boolean =>
    enteredAt < look.from && leavingAt > look.until;
  const writers = family.filter(({ half }) => half === 'write');
  if (count === 1)
    return !writers.some((writer) => isInside(writer) && writer.doubtedAt === undefined);
  if (count !== ALL) return false;
  // It is a reader now, and must let others read, unless something was in the way of that.
  const wroteUntil = Math.max(...writers.map(({ endedAt = Infinity }) => endedAt));
  return (
    wroteUntil >= look.from ||
    !family.some(isInside) ||
    family.some(({ failure }) => failure) ||
    isChanging(family, look) ||
    mayNotBeReleased(evidence, root, look.until) ||
    isDisturbed(evidence, root, root.calledAt, look.until) ||
    // A replica that has just taken over may have missed the former master's last commands.
    (mastersAround(evidence, evidence.looks, [look.from, look.until])?.size ?? 1) > 1
  );
}

/** A server with contradictory contents: permits are lost for ever, or there are too many. */
export function brokenBooks({ plan, looks }: Evidence): Violation[] {
  const most = plan.permits?.isChanged ? Infinity : (plan.permits?.declared ?? ALL);
  const byLock = grouped(looks, ({ lock }) => lock);
  return [...byLock].flatMap(([lock, seen]): Violation[] => {
    const broken = seen.find(({ books }) => books && (books.mistake ?? books.used > most));
    if (!broken?.books) return [];
    const { mistake, used, capacity } = broken.books;
    const what = mistake ?? `${used} permits were in use, and there were ${capacity}`;
    const message = `"${lock}" on server ${broken.server}: ${what}`;
    return [violation('broken books', broken.from, message, [], lock)];
  });
}

/** A holder that began to write while it was reading. */
export function upgrades({ history }: Evidence): Violation[] {
  return history.entered.flatMap((section): Violation[] => {
    const reading = history.around(section).find(({ half }) => half === 'read');
    if (section.half !== 'write' || !reading) return [];
    const message = `${section.id} was let in to write inside ${reading.id}, which reads`;
    return [violation('an upgrade', section.enteredAt!, message, [section, reading])];
  });
}

/** All callers have stopped, and yet not all permits are there. */
export function leakedPermits({ plan, history }: Evidence): Violation[] {
  return history.available
    .filter(({ permits }) => permits !== plan.permits?.declared)
    .map(({ at, client, lock, permits }) => {
      const message = `nobody held permits of "${lock}" any more, and ${client} was told that ${permits} of ${plan.permits?.declared ?? 0} were available`;
      return violation('leaked permits', at, message, [], lock);
    });
}

/** Another server process, with another run_id, has the locks from then on. */
const CHANGES_SERVER = /^(restart a server|a replica takes over)/;

/** The error that a caller got about its request is true. */
export function isRightlyRefused(evidence: Evidence, section: Section): boolean {
  const { failure, how, half, permits, calledAt, endedAt = Infinity, locks } = section;
  const [lock] = locks;
  if (failure?.code === 'LOCK_UPGRADE') {
    const around = evidence.history.around(section);
    return half === 'write' && around.some((each) => each.half === 'read');
  }
  if (failure?.code !== 'INVALID_OPTION') return false;
  // Two clients know a server by different addresses. When it has restarted, they cannot tell that it is the same one.
  if (
    how === 'adopt' &&
    evidence.faults.some(({ from, nemesis }) => from <= endedAt && CHANGES_SERVER.test(nemesis))
  )
    return true;
  if (permits === undefined) return false;
  const capacities = new Capacities(evidence);
  if (capacities.possible(lock!, calledAt, endedAt).some((most) => most < permits)) return true;
  // While the semaphore is in use, the server may have forgotten that another number than the declared one was set.
  const wasSet = [...evidence.history.settings.values()].some((each) => each.lock === lock);
  return wasSet && capacities.isForgotten(lock!, -Infinity, endedAt);
}

// The possible numbers of permits of a semaphore at a time: the declared one, or the set one, which a server may forget.

interface InForce {
  readonly permits: number;
  /** It took effect at some time within these. */
  readonly from: number;
  readonly until: number;
  readonly isKnown: boolean;
}

class Capacities {
  readonly #evidence: Evidence;
  readonly #declared: number;

  constructor(evidence: Evidence) {
    this.#evidence = evidence;
    this.#declared = evidence.plan.permits?.declared ?? 1;
  }

  /** Each number of permits that may have been in force at any time between the two. */
  possible(lock: string, from: number, until: number): number[] {
    const declared = { permits: this.#declared, from: -Infinity, until: -Infinity, isKnown: true };
    const set = [...this.#evidence.history.settings.values()]
      .filter((setting) => setting.lock === lock && setting.from <= until)
      .map((setting) => ({ ...setting, until: this.#latest(setting) }));
    const all: InForce[] = [declared, ...set];
    const isOver = (one: InForce): boolean =>
      all.some(
        (other) =>
          other.isKnown &&
          other.from > one.until &&
          other.until < from &&
          !this.isForgotten(lock, other.from, until),
      );
    return all.filter((one) => !isOver(one)).map(({ permits }) => permits);
  }

  /** Whether the set number may have been lost meanwhile. */
  isForgotten(lock: string, from: number, until: number): boolean {
    return this.#evidence.faults.some((fault) => {
      const touched = [fault.loses ?? [], fault.disorders ?? []].flat();
      const isTouched = touched.includes('all') || touched.includes(lock);
      return isTouched && fault.from <= until && fault.until >= from;
    });
  }

  /** A copy of the command may arrive late, and sets the number once more. */
  #latest({ from, until, isKnown }: Setting): number {
    const { faults, plan } = this.#evidence;
    const hasCopies = faults.some(
      (fault) =>
        fault.nemesis === 'lose, double and delay commands' &&
        fault.from <= until &&
        fault.until >= from,
    );
    if (!isKnown) return until + LATE_COMMAND_MS;
    return hasCopies ? until + 2 * plan.watchdogMs + LATE_COMMAND_MS : until;
  }
}
