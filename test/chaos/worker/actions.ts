// What a caller may do: each of the ways to lock, nested, in parallel, given up, extended, forced.
import type { AcquireOptions } from '../../../src/index.js';
import type { Random } from '../random.js';
import type { Action, Caller } from './caller.js';
import { DESERTION } from './journal.js';
import type { Party, PartyLock } from './party.js';
import { PERMIT_ACTIONS, STAYS_MS } from './permits.js';
import { READ_WRITE_ACTIONS } from './read-write.js';
import { optionsOf, SectionError, type Section } from './section.js';

const EVERYWHERE: readonly Action[] = [
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
  { weight: 1, act: undercut },
  { weight: 2, act: desert },
];

/** What a caller of this party may do. */
export function actionsOf({ kind, isFenced }: Party): readonly Action[] {
  if (kind === 'semaphore') return PERMIT_ACTIONS;
  if (kind === 'read-write') return [...EVERYWHERE, ...READ_WRITE_ACTIONS];
  if (!isFenced) return EVERYWHERE;
  const races = kind === 'red' ? [{ weight: 3, act: race }] : [];
  return [...EVERYWHERE, { weight: 1, act: writeLate }, ...races];
}

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
        await caller.stepsIn(section);
        if (depth < 2 && random.chance(0.25)) {
          const branches = random.whole(1, 3);
          // Branches are each other's siblings: they take turns within this section, unless they only read.
          await Promise.all(
            Array.from({ length: branches }, () =>
              withLock(caller, inside(lock, random), section, depth + 1),
            ),
          );
        }
        if (random.chance(0.1)) await caller.extend(hold, section);
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
    await caller.stepsIn(section);
    if (random.chance(0.3)) await caller.extend(acquired, section);
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
async function tryOnce(caller: Caller, { lock, ...locked }: PartyLock): Promise<void> {
  const { random, sections, party } = caller;
  const lease = random.chance(0.5) ? random.whole(100, caller.watchdogMs) : undefined;
  const section = sections.call('tryAcquire', party.clientId, locked, { wait: 0, lease });
  await section.hold(
    () => lock.tryAcquire({ lease }),
    () => caller.stepsIn(section),
  );
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
  await section.hold(
    () => lock.lock.acquire({ lease }),
    async () => {
      await time.sleep(lease - 3);
      await tryUntil(time.nowMs() + 11, caller.besides(), lock);
    },
  );
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
  let met: Promise<void> | undefined;
  await first.hold(
    () => ours.lock.acquire(),
    async () => {
      const request = { wait: 3 * watchdogMs };
      const second = partner.sections.call('meet', partner.party.clientId, theirs, request);
      met = second.hold(() => theirs.lock.acquire(request));
      await time.sleep(random.between(0, 4));
    },
  );
  await met;
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
  await section.hold(
    () => ours.lock.acquire(),
    () => partner.sections.force(theirs, () => theirs.lock.forceUnlock()),
  );
}

async function force(caller: Caller): Promise<void> {
  const { random, party, sections } = caller;
  const lock = party.someLock(random);
  await sections.force(lock, () => lock.lock.forceUnlock());
  await caller.time.sleep(caller.watchdogMs); // once it was forced, nobody forces it for a while
}

/**
 * Asks for a lease that is shorter than what is left, or lets somebody inside ask for it: the longer one goes on, and the holder stays for
 * longer than the shorter one.
 */
async function undercut(caller: Caller): Promise<void> {
  const { party, random, sections, watchdogMs, time } = caller;
  const lock = party.someLock(random);
  const lease = random.chance(0.5) ? random.whole(watchdogMs, 2 * watchdogMs) : undefined;
  const section = sections.call('undercut', party.clientId, lock, { lease });
  await section.hold(
    () => lock.lock.acquire({ lease }),
    async (held) => {
      const shortMs = random.whole(20, 80);
      if (random.chance(0.5)) await section.extend(held, shortMs);
      else await held.run(() => lockWithin(caller, lock, shortMs, section)).catch(() => undefined);
      await time.sleep(shortMs + STAYS_MS);
    },
  );
}

async function lockWithin(
  { party, sections }: Caller,
  lock: PartyLock,
  lease: number,
  outer: Section,
): Promise<void> {
  const section = sections.call('withLock', party.clientId, lock, { lease }, outer.id);
  try {
    await lock.lock.withLock({ lease }, (hold) => {
      section.enter(hold);
      section.leave();
    });
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/**
 * Gives up a name that nobody has used while the command is on its way: the server grants what nobody wants any more. Then the next one asks
 * for it, who is kept out for as long as that grant stands.
 */
async function desert({ party, sections, watchdogMs, time }: Caller): Promise<void> {
  // Of a Redlock another rule is asked: what its masters gave in vain is in the way of whoever comes next.
  if (party.kind === 'red') return;
  const lock = party.ownLock(`given up by ${sections.nextId}`);
  const call = (request: { wait: number } | { signal: AbortSignal }): Promise<void> =>
    sections.call(DESERTION, party.clientId, lock, request).hold(() => lock.lock.acquire(request));
  const aborter = new AbortController();
  const given = call({ signal: aborter.signal });
  // By then the command is sent, and no answer can have come.
  await time.nextTurn();
  aborter.abort();
  await given;
  await call({ wait: 3 * watchdogMs });
}

/**
 * Writes under a fenced lock when its lease is over, as a process does that was paused just before. Somebody has had the lock meanwhile, and
 * has written: then this write must be refused.
 */
async function writeLate(caller: Caller): Promise<void> {
  const { party, random, sections, time } = caller;
  const lock = party.someLock(random);
  const lease = random.whole(40, 120);
  const section = sections.call('acquire', party.clientId, lock, { lease });
  await section.hold(
    () => lock.lock.acquire({ lease }),
    async () => {
      await time.sleep(lease);
      await writeNext(caller, lock);
      await section.write();
    },
  );
}

/** Where nobody else wants the lock, the same caller is the next to have it. */
async function writeNext({ party, sections, watchdogMs }: Caller, lock: PartyLock): Promise<void> {
  const request = { wait: 2 * watchdogMs };
  const section = sections.call('acquire', party.clientId, lock, request);
  await section.hold(
    () => lock.lock.acquire(request),
    () => section.write(),
  );
}

/** Two clients ask for a lock of their own at the same time: of a Redlock's masters each may get some, and one after the other most. */
async function race({ party, rival, random, sections, watchdogMs }: Caller): Promise<void> {
  if (!rival) return;
  const names = [`race of ${sections.nextId}`];
  await Promise.all(
    [{ party, sections }, rival].map((runner) => {
      const { lock, ...locked } = runner.party.lock(names, false, random);
      const section = runner.sections.call('acquire', runner.party.clientId, locked, {
        wait: watchdogMs,
      });
      return section.hold(() => lock.acquire({ wait: watchdogMs }));
    }),
  );
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
