// What a caller may do: each of the ways to lock, nested, in parallel, given up, extended, forced.
import type { AcquireOptions, Hold } from '../../../src/index.js';
import type { Caller } from './caller.js';
import type { PartyLock } from './party.js';
import type { Random } from '../random.js';
import { optionsOf, SectionError, type Section } from './section.js';

export interface Action {
  readonly weight: number;
  readonly act: (caller: Caller) => Promise<void>;
}

export const ACTIONS: readonly Action[] = [
  { weight: 6, act: (caller) => withLock(caller, caller.party.someLock(caller.random)) },
  { weight: 5, act: hold },
  { weight: 4, act: run },
  { weight: 3, act: (caller) => tryOnce(caller, caller.party.someLock(caller.random)) },
  { weight: 2, act: meet },
  { weight: 1, act: overstay },
  { weight: 1, act: climb },
  { weight: 0.6, act: overthrow },
  { weight: 0.3, act: force },
  { weight: 0.3, act: (caller) => caller.party.reopen() },
];

/** A function under the lock; inside it perhaps more of them, one after the other or in parallel. */
async function withLock(
  caller: Caller,
  lock: PartyLock,
  outer?: Section,
  depth = 0,
): Promise<void> {
  const { random, sections, party } = caller;
  const request = outer ? {} : caller.someRequest();
  const section = sections.call('withLock', party.clientId, lock, request, outer?.id);
  const isLookedAt = random.chance(0.8);
  const fails = random.chance(0.05);
  try {
    await lock.lock.withLock(optionsOf(request), async (hold) => {
      section.enter(hold, isLookedAt);
      try {
        await steps(caller, section);
        if (depth < 2 && random.chance(0.25)) {
          const branches = random.whole(1, 3);
          // Branches are each other's siblings: they take turns within this section, unless they only read.
          await Promise.all(
            Array.from({ length: branches }, () =>
              withLock(caller, inside(lock, random), section, depth + 1),
            ),
          );
        }
        if (random.chance(0.1)) await extend(caller, hold, section);
        if (fails) throw new SectionError('a section fails');
      } finally {
        section.leave();
      }
    });
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/** A hold, released by hand, perhaps from elsewhere, perhaps twice. */
async function hold(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const lock = party.someLock(random);
  const request = caller.someRequest();
  const section = sections.call('acquire', party.clientId, lock, request);
  try {
    const acquired = await lock.lock.acquire(optionsOf(request));
    section.enter(acquired, random.chance(0.8));
    await steps(caller, section);
    if (random.chance(0.3)) await extend(caller, acquired, section);
    if (random.chance(0.2))
      await acquired
        .run(() => withLock(caller, inside(lock, random), section, 2))
        .catch(() => undefined);
    section.leave();
    const isDoubled = random.chance(0.2);
    await Promise.all([acquired.release(), isDoubled && acquired.release()]);
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/** Redisson's way: a run that locks, and locks again inside. */
async function run(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const lock = party.someLock(random);
  await party.client
    .run(async () => {
      const request = caller.someRequest();
      const section = sections.call('tryLock', party.clientId, lock, request);
      try {
        const locked = await tryLock(lock, { wait: Infinity, ...given(optionsOf(request)) });
        if (!locked) {
          section.refuse();
          return;
        }
        section.enter(undefined, true, locked.token);
        await caller.steps(() => undefined);
        if (random.chance(0.4)) await lockAgain(caller, inside(lock, random), section);
        section.leave();
        await lock.lock.unlock();
        section.end();
      } catch (error) {
        section.end(error);
      }
    })
    .catch(() => undefined); // what it left held was lost
}

/** undefined: somebody else has it. */
async function tryLock(
  { lock, fenced }: PartyLock,
  options: AcquireOptions,
): Promise<{ token?: bigint } | undefined> {
  if (!fenced) return (await lock.tryLock(options)) ? {} : undefined;
  const token = await fenced.tryLockAndGetToken(options);
  return token === undefined ? undefined : { token };
}

async function lockAgain(caller: Caller, lock: PartyLock, outer: Section): Promise<void> {
  const section = caller.sections.call('lock', caller.party.clientId, lock, {}, outer.id);
  try {
    if (lock.fenced) section.enter(undefined, true, await lock.fenced.lockAndGetToken());
    else {
      await lock.lock.lock();
      section.enter();
    }
    await caller.steps(() => undefined);
    section.leave();
    await lock.lock.unlock();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/** One attempt. */
async function tryOnce(caller: Caller, lock: PartyLock): Promise<void> {
  const { random, sections, party } = caller;
  const lease = random.chance(0.5) ? random.whole(100, caller.watchdogMs) : undefined;
  const section = sections.call('tryAcquire', party.clientId, lock, { wait: 0, lease });
  try {
    const acquired = await lock.lock.tryAcquire({ lease });
    if (!acquired) {
      section.refuse();
      return;
    }
    section.enter(acquired);
    await steps(caller, section);
    section.leave();
    await acquired.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/**
 * Stays inside for longer than its lease, which is not renewed: the lock becomes free though nobody releases it. Then it tries to
 * be there before those who wait have noticed.
 */
async function overstay(caller: Caller): Promise<void> {
  const { party, random, sections, time } = caller;
  const lock = party.someLock(random);
  const lease = random.whole(40, 120);
  const section = sections.call('overstay', party.clientId, lock, { lease });
  try {
    const acquired = await lock.lock.acquire({ lease });
    section.enter(acquired);
    await time.sleep(lease - 3);
    await tryUntil(time.nowMs() + 11, caller.besides(), lock);
    section.leave();
    await acquired.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/** One attempt after the other, by another client where there is one: this one knows when its own lease ends. */
async function tryUntil(endMs: number, other: Caller, { names, isFair }: PartyLock): Promise<void> {
  while (other.time.nowMs() < endMs) {
    await tryOnce(other, other.party.lock(names, isFair, other.random));
    await other.time.sleep(0);
  }
}

/**
 * A name that nobody has used, held by one client and waited for by another, which has to subscribe to its channel: the
 * release comes before, while or shortly after it does.
 */
async function meet({ party, partner, random, sections, watchdogMs, time }: Caller): Promise<void> {
  if (!partner) return;
  const name = `meeting of ${sections.nextId}`;
  const ours = party.ownLock(name);
  const theirs = inside(partner.party.ownLock(name), random);
  const first = sections.call('meet', party.clientId, ours, {});
  try {
    const held = await ours.lock.acquire();
    first.enter(held);
    const request = { wait: 3 * watchdogMs };
    const second = partner.sections.call('meet', partner.party.clientId, theirs, request);
    const waiting = theirs.lock.acquire(request).then(async (hold) => {
      second.enter(hold);
      second.leave();
      await hold.release();
    });
    const settled = waiting.then(
      () => {
        second.end();
      },
      (error: unknown) => {
        second.end(error);
      },
    );
    await time.sleep(random.between(0, 4));
    first.leave();
    await held.release().then(
      () => {
        first.end();
      },
      (error: unknown) => {
        first.end(error);
      },
    );
    await settled;
  } catch (error) {
    first.end(error);
  }
}

/** Locks again and again, each time inside the last, and stays on top for a while: for others to count. */
async function climb(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const lock = party.someLock(random);
  const up = async (above: number, outer?: Section): Promise<void> => {
    const section = sections.call('withLock', party.clientId, lock, {}, outer?.id);
    try {
      await lock.lock.withLock(async (hold) => {
        section.enter(hold);
        try {
          if (above > 0) await up(above - 1, section);
          else await caller.time.sleep(60);
        } finally {
          section.leave();
        }
      });
      section.end();
    } catch (error) {
      section.end(error);
    }
  };
  await up(random.whole(3, 8));
}

/** Somebody else forces a lock away from its holder, who gives it up at once: before anything else could tell of the loss. */
async function overthrow({ party, partner, sections }: Caller): Promise<void> {
  if (!partner) return;
  const name = `throne of ${sections.nextId}`;
  const ours = party.ownLock(name);
  const theirs = partner.party.ownLock(name);
  const section = sections.call('acquire', party.clientId, ours, {});
  try {
    const held = await ours.lock.acquire();
    section.enter(held);
    await partner.sections.force(theirs, () => theirs.lock.forceUnlock());
    section.leave();
    await held.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

async function force(caller: Caller): Promise<void> {
  const { random, party, sections } = caller;
  const lock = party.someLock(random);
  await sections.force(lock, () => lock.lock.forceUnlock());
  await caller.time.sleep(caller.watchdogMs); // once it was forced, nobody forces it for a while
}

export async function extend(
  caller: Caller,
  held: Pick<Hold, 'extend'>,
  section: Section,
): Promise<void> {
  const leaseMs = caller.random.whole(100, 2 * caller.watchdogMs);
  section.extending(leaseMs);
  await held.extend(leaseMs).catch(() => undefined); // a loss is told by the release, too
}

export async function steps(caller: Caller, section: Section): Promise<void> {
  await caller.steps(() => {
    section.look();
  });
  if (caller.party.isFenced && caller.random.chance(0.5)) await section.write();
}

/** The same lock, or the half of it that only reads. */
function inside(lock: PartyLock, random: Random): PartyLock {
  return lock.reads && random.chance(0.5) ? lock.reads : lock;
}

/** Without what is undefined. */
function given<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}
