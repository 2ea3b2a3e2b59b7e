// What a caller may do: each of the ways to lock, nested, in parallel, given up, extended, forced; and the same with permits.
import type { AcquireOptions } from '../../../src/index.js';
import type { Action, Caller } from './caller.js';
import { DESERTION } from './journal.js';
import type { Held, Party, PartyLock, Request, Target } from './party.js';
import type { Parcel } from './post.js';
import { READ_WRITE_ACTIONS } from './read-write.js';
import { SectionError, type Section, type Sections } from './section.js';

/** How long a holder stays when a lease that is shorter than its own would have been over: a few looks at the server. */
const STAYS_MS = 60;

/** For how long the keys of a lock may stay when its last holder did not release it: the longest extension, as a multiple of the watchdog's lease. */
const KEYS_STAY = 2;

const OF_ALL: readonly Action[] = [
  { weight: 6, act: (caller) => withIt(caller, caller.party.someTarget(caller.random)) },
  { weight: 5, act: hold },
  { weight: 3, act: (caller) => tryOnce(caller, caller.party.someTarget(caller.random)) },
  { weight: 2, act: meet },
  { weight: 1, act: (caller) => crowd(caller, caller.party.someTarget(caller.random)) },
  { weight: 1, act: overstay },
  { weight: 1, act: undercut },
  { weight: 0.3, act: (caller) => caller.party.reopen() },
  { weight: 1, act: tick },
];

const OF_LOCKS: readonly Action[] = [
  { weight: 4, act: run },
  { weight: 1, act: climb },
  { weight: 0.6, act: overthrow },
  { weight: 0.3, act: force },
  { weight: 2, act: desert },
];

const OF_KEPT_LOCKS: readonly Action[] = [
  { weight: 40, act: useAgain },
  { weight: 40, act: stayAway },
  { weight: 10, act: crowdWhereNotKept },
];

const OF_EXPORTED: readonly Action[] = [
  { weight: 12, act: passOn },
  { weight: 12, act: takePosted },
];
const OF_SINGLE_SERVERS: readonly Action[] = [
  { weight: 0.6, act: passOn },
  { weight: 0.6, act: takePosted },
];

const OF_PERMITS: readonly Action[] = [
  { weight: 2, act: tryForAWhile },
  { weight: 0.5, act: overstay },
  { weight: 0.4, act: setPermits },
];

/** Of rounds in which locks are taken away: long stays beside short ones, and nothing that leaves a lease behind. */
const OF_LONG: readonly Action[] = [
  { weight: 14, act: stay },
  { weight: 2, act: (caller) => withIt(caller, caller.party.someTarget(caller.random)) },
  { weight: 2, act: hold },
  { weight: 4, act: (caller) => tryOnce(caller, caller.party.someTarget(caller.random)) },
  { weight: 1, act: (caller) => crowd(caller, caller.party.someTarget(caller.random)) },
  { weight: 1, act: undercut },
  { weight: 0.3, act: (caller) => caller.party.reopen() },
];

function actionsWhenLong({ kind }: Party): readonly Action[] {
  if (kind === 'semaphore') return OF_LONG;
  const all = [...OF_LONG, ...OF_LONG_LOCKS];
  if (kind === 'kept') all.push(...OF_KEPT_LOCKS.map((each) => ({ ...each, weight: 20 })));
  if (kind !== 'multi' && kind !== 'red') all.push({ weight: 2, act: handOn });
  return all;
}

const OF_LONG_LOCKS: readonly Action[] = [
  { weight: 1, act: run },
  { weight: 1, act: overthrow },
  { weight: 0.5, act: force },
];

/** What a caller of this party may do. */
export function actionsOf(party: Party): readonly Action[] {
  const { kind, isFenced, isLong } = party;
  if (isLong) return actionsWhenLong(party);
  if (kind === 'semaphore') return [...OF_ALL, ...OF_PERMITS, ...OF_SINGLE_SERVERS];
  const all = [...OF_ALL, ...OF_LOCKS];
  if (kind === 'read-write') all.push(...READ_WRITE_ACTIONS);
  if (kind === 'kept') all.push(...OF_KEPT_LOCKS);
  if (kind === 'exported') all.push(...OF_EXPORTED);
  else if (kind !== 'multi' && kind !== 'red') all.push(...OF_SINGLE_SERVERS);
  if (isFenced) all.push({ weight: 1, act: writeLate });
  if (isFenced && kind === 'red') all.push({ weight: 3, act: race });
  return all;
}

/** A function under the lock; inside it perhaps more of them, one after the other or in parallel. */
async function withIt(caller: Caller, target: Target, outer?: Section, depth = 0): Promise<void> {
  const { random, sections } = caller;
  const request = outer ? {} : caller.someRequest(target);
  const section = sections.call('with', target, request, outer);
  const isLookedAt = random.chance(0.8);
  const fails = random.chance(0.05);
  await section.during(() =>
    target.with(request, (held) =>
      section.within(held, isLookedAt, async () => {
        await caller.stepsIn(section);
        if (depth < 2 && random.chance(0.25)) {
          // Somebody else's, as far as a semaphore knows: nobody may wait for them here.
          if (!target.lock) await tryOnce(caller, target);
          // Branches are each other's siblings: they take turns within this section, unless they only read.
          else
            await Promise.all(
              Array.from({ length: random.whole(1, 3) }, () =>
                withIt(caller, inside(caller, target), section, depth + 1),
              ),
            );
        }
        if (random.chance(0.1)) await caller.extend(held, section);
        if (fails) throw new SectionError('a section fails');
      }),
    ),
  );
}

/** A hold, released by hand, perhaps twice; perhaps others are nested in it. */
async function hold(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const target = party.someTarget(random);
  const request = caller.someRequest(target);
  const section = sections.call('acquire', target, request);
  await section.hold(
    () => target.acquire(request),
    async (held) => {
      await caller.stepsIn(section);
      if (random.chance(0.3)) await caller.extend(held, section);
      if (random.chance(0.2))
        await held.run?.(() => withIt(caller, inside(caller, target), section, 2)).catch(ignore);
    },
    { isLookedAt: random.chance(0.8), releases: random.chance(0.2) ? 2 : 1 },
  );
}

/**
 * Stays for so long that it is told when the lock is taken away, and leaves when it is. Mostly it asks the server nothing, which would tell
 * it, too; else others are nested in it, or it asks for a longer lease.
 */
async function stay(caller: Caller): Promise<void> {
  const { random, sections, party, time, watchdogMs } = caller;
  const target = party.someTarget(random);
  const request = { permits: caller.somePermits(target), wait: 3 * watchdogMs };
  const isQuiet = random.chance(0.7);
  const section = sections.call('stay', target, request);
  await section.hold(
    () => target.acquire(request),
    async (held) => {
      const endsAtMs = time.nowMs() + random.between(1_500, 5_000);
      while (time.nowMs() < endsAtMs && !held.signal.aborted && !caller.isStopping) {
        await time.sleep(random.between(20, 600));
        section.look();
        if (isQuiet) continue;
        if (random.chance(0.2)) await section.extend(held, random.whole(100, 10 * watchdogMs));
        if (random.chance(0.2))
          await held.run?.(() => withIt(caller, inside(caller, target), section, 2)).catch(ignore);
      }
    },
  );
}

/** Several calls of one client at almost the same moment: the first one may be on its way to the server when the others come. */
async function crowd(caller: Caller, target: Target): Promise<void> {
  const { random, sections } = caller;
  const ticks = random.whole(0, 4);
  await Promise.all(
    Array.from({ length: random.whole(2, 4) }, async (_, index) => {
      for (let tick = 0; index > 0 && tick < ticks; tick++) await Promise.resolve();
      const request = caller.someRequest(target);
      const section = sections.call('with', target, request);
      const steps = index > 0 ? () => caller.stepsIn(section) : () => Promise.resolve();
      await section.during(() => target.with(request, (held) => section.within(held, true, steps)));
    }),
  );
}

/** The same with a lock that the client may keep. Mostly it is made to let go first, so that the first call has to ask the server. */
async function crowdWhereNotKept(caller: Caller): Promise<void> {
  const { random, party } = caller;
  const target = party.someKeptLock(random);
  if (random.chance(0.8)) await tryOnce(caller, party.lock(target.names, false, random));
  await crowd(caller, target);
}

/** One attempt. */
async function tryOnce(caller: Caller, target: Target): Promise<void> {
  const { random, watchdogMs } = caller;
  const lease = random.chance(0.5) ? random.whole(100, watchdogMs) : undefined;
  await tryAcquire(caller, target, { ...caller.someRequest(target), lease, wait: 0 });
}

/** Gives up after a short while: its place in line goes, also where it had just come first. */
async function tryForAWhile(caller: Caller): Promise<void> {
  const { random, party } = caller;
  const target = party.someTarget(random);
  await tryAcquire(caller, target, { ...caller.someRequest(target), wait: random.whole(1, 60) });
}

async function tryAcquire(caller: Caller, target: Target, request: Request): Promise<void> {
  const section = caller.sections.call('tryAcquire', target, request);
  await section.hold(
    () => target.tryAcquire(request),
    () => caller.stepsIn(section),
  );
}

/** Stays inside for longer than its lease, which is not renewed: the lock becomes free, or permits come back, though nobody releases them. */
async function overstay(caller: Caller): Promise<void> {
  const { party, random, sections, time } = caller;
  const target = party.someTarget(random);
  const request = { lease: random.whole(40, 120), permits: caller.somePermits(target) };
  const section = sections.call('overstay', target, request);
  await section.hold(
    () => target.acquire(request),
    async () => {
      await time.sleep(request.lease - 3);
      // Tries to be there before those who wait have noticed.
      if (target.lock) await tryUntil(time.nowMs() + 11, caller.besides(), target);
      else await time.sleep(random.between(3, 63));
    },
  );
}

/** One attempt after the other, by another client where there is one: this one knows when its own lease ends. */
async function tryUntil(endMs: number, other: Caller, { names, isFair }: Target): Promise<void> {
  while (other.time.nowMs() < endMs) {
    await tryOnce(other, other.party.lock(names, isFair, other.random));
    await other.time.sleep(0);
  }
}

/**
 * A name that nobody has used, held by one client and waited for by another, which has to subscribe to its channel: the
 * release comes before, while or shortly after it does. Of a semaphore the first one has all permits.
 */
async function meet(caller: Caller): Promise<void> {
  const { party, partner, random, sections, watchdogMs, time } = caller;
  if (!partner) return;
  const name = `meeting of ${sections.nextId}`;
  const ours = party.ownTarget(name);
  const theirs = inside(caller, partner.party.ownTarget(name));
  const first = { permits: ours.declared };
  let met: Promise<void> | undefined;
  await sections.call('meet', ours, first).hold(
    () => ours.acquire(first),
    async () => {
      const second = { wait: 3 * watchdogMs, permits: ours.declared && 1 };
      met = partner.call('meet', theirs, second).hold(() => theirs.acquire(second));
      await time.sleep(random.between(0, 4));
    },
  );
  await met;
}

/**
 * Asks for a lease that is shorter than what is left, or lets somebody inside ask for it: the longer one goes on, and the holder stays for
 * longer than the shorter one.
 */
async function undercut(caller: Caller): Promise<void> {
  const { party, random, sections, watchdogMs, time } = caller;
  const target = party.someTarget(random);
  const lease = random.chance(0.5) ? random.whole(watchdogMs, 2 * watchdogMs) : undefined;
  const request = { lease, permits: caller.somePermits(target) };
  const section = sections.call('undercut', target, request);
  await section.hold(
    () => target.acquire(request),
    async (held) => {
      const shortMs = random.whole(20, 80);
      if (!held.run || random.chance(0.5)) await section.extend(held, shortMs);
      else await held.run(() => lockWithin(sections, target, shortMs, section)).catch(ignore);
      await time.sleep(shortMs + STAYS_MS);
    },
  );
}

async function lockWithin(
  sections: Sections,
  target: Target,
  lease: number,
  outer: Section,
): Promise<void> {
  const section = sections.call('with', target, { lease }, outer);
  await section.during(() =>
    target.with({ lease }, (held) => section.within(held, true, () => Promise.resolve())),
  );
}

/** Redisson's way: a run that locks, and locks again inside. */
async function run(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const target = party.someLock(random);
  const request = caller.someRequest(target);
  const section = sections.call('tryLock', target, request);
  const work = (): Promise<void> =>
    section.during(async () => {
      const { wait = Infinity, lease, signal } = request;
      const locked = await tryLock(target, { wait, lease, signal });
      if (!locked) {
        section.refuse();
        return;
      }
      section.enter(undefined, true, locked.token);
      await caller.steps(() => undefined);
      if (random.chance(0.4)) await lockAgain(caller, inside(caller, target), section);
      section.leave();
      await target.lock.unlock();
    });
  await party.client.run(work).catch(ignore); // what it left held was lost
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

async function lockAgain(caller: Caller, target: PartyLock, outer: Section): Promise<void> {
  const { lock, fenced } = target;
  const section = caller.sections.call('lock', target, {}, outer);
  await section.during(async () => {
    const token = await fenced?.lockAndGetToken();
    if (!fenced) await lock.lock();
    section.enter(undefined, true, token);
    await caller.steps(() => undefined);
    section.leave();
    await lock.unlock();
  });
}

/** Locks again and again, each time inside the last, and stays on top for a while: for others to count. */
async function climb({ random, sections, party, time }: Caller): Promise<void> {
  const target = party.someLock(random);
  const up = async (above: number, outer?: Section): Promise<void> => {
    const section = sections.call('with', target, {}, outer);
    await section.during(() =>
      target.with({}, (held) =>
        section.within(held, true, () => (above > 0 ? up(above - 1, section) : time.sleep(60))),
      ),
    );
  };
  await up(random.whole(3, 8));
}

/** Somebody else forces a lock away from its holder, who gives it up at once: before anything else could tell of the loss. */
async function overthrow({ party, partner, sections }: Caller): Promise<void> {
  if (!partner) return;
  const name = `throne of ${sections.nextId}`;
  const ours = party.ownLock(name);
  const section = sections.call('acquire', ours, {});
  await section.hold(
    () => ours.acquire({}),
    () => partner.force(partner.party.ownLock(name)),
  );
}

async function force({ random, party, sections, time, watchdogMs }: Caller): Promise<void> {
  await sections.force(party.someLock(random));
  await time.sleep(watchdogMs); // once it was forced, nobody forces it for a while
}

/** One short hold after the other, as in a loop over small jobs: with pauses shorter than the lock is kept, or about as long, or none. */
async function useAgain({ random, party, sections, time }: Caller): Promise<void> {
  const target = party.someKeptLock(random);
  const longestPauseMs = party.keepMs * random.pick([0, 0.3, 1.2]);
  const insideMs = random.pick([0, 3, 3, party.keepMs]);
  for (let times = random.whole(5, 40); times > 0; times--) {
    const section = sections.call('acquire', target, {});
    await section.hold(
      () => target.acquire({}),
      () => time.sleep(random.between(0, insideMs)),
    );
    if (longestPauseMs > 0) await time.sleep(random.between(0, longestPauseMs));
  }
}

/** Leaves the locks to others for a while: where all want one all the time, nobody keeps it. */
async function stayAway(caller: Caller): Promise<void> {
  const { random, party, time } = caller;
  for (let times = random.between(0, 40); times > 0 && !caller.isStopping; times--)
    await time.sleep(Math.min(times, 1) * party.keepMs);
}

/** Passes a hold to another client of this process or of any; or two clients want it, or none does. */
async function passOn(caller: Caller): Promise<void> {
  const { random, sections, partner } = caller;
  const other = partner ?? sections;
  const recipients = random.weighted([
    { weight: 3, adopters: [other], posts: 0 },
    { weight: 2, adopters: [other, sections], posts: 0 },
    { weight: 1, adopters: [other], posts: 1 },
    { weight: 3, adopters: [], posts: 1 },
    { weight: 1, adopters: [], posts: 2 },
    { weight: 0.5, adopters: [], posts: 0 },
  ]);
  await passOnTo(caller, recipients);
}

/** Passes a hold to another client of this process. */
async function handOn(caller: Caller): Promise<void> {
  await passOnTo(caller, { adopters: [caller.partner ?? caller.sections], posts: 0 });
}

/** `posts`: to how many clients of other processes. */
async function passOnTo(
  caller: Caller,
  { adopters, posts }: { readonly adopters: readonly Sections[]; readonly posts: number },
): Promise<void> {
  const { random, sections, party, post } = caller;
  const target = party.someTarget(random);
  const request = caller.someRequest(target);
  const section = sections.call('acquire', target, request);
  let passed: { readonly held: Held; readonly text: string } | undefined;
  await section.during(async () => {
    const held = await target.acquire(request);
    section.enter(held);
    await caller.stepsIn(section);
    passed = { held, text: await section.passOn(held) };
  });
  if (!passed) return;
  const { held, text } = passed;
  const { names, half } = target;
  const locked = half ? { names, half } : { names };
  const parcel: Parcel = { text, locked, permits: request.permits };
  for (let count = posts; count > 0; count--) post.put(parcel);
  const adopted = await Promise.all(adopters.map((who) => adopt(caller, who, parcel)));
  section.stop(held);
  // What nobody adopts stays until its lease ends, and must not outlast the round.
  if (!adopted.includes(true)) await caller.time.sleep(KEYS_STAY * caller.watchdogMs);
}

/** Adopts a hold that a caller of any process has posted; perhaps too late, or another process was faster. */
async function takePosted(caller: Caller): Promise<void> {
  const parcel = caller.post.take();
  if (parcel) await adopt(caller, caller.sections, parcel);
}

async function adopt(
  caller: Caller,
  sections: Sections,
  { text, locked, permits }: Parcel,
): Promise<boolean> {
  // It does not stand in line, and overtakes those who do.
  const section = sections.call(
    'adopt',
    { ...locked, isFair: false, mayBeKept: false },
    { permits },
  );
  let isAdopted = false;
  await section.hold(
    () => sections.party.client.adopt(text),
    async () => {
      isAdopted = true;
      await caller.stepsIn(section);
    },
  );
  return isAdopted;
}

/**
 * Comes for the work of this time, as a schedule does: all processes come for the same, and one does it. Its lock stays taken until nobody comes
 * for it any more, whatever becomes of that process.
 */
async function tick(caller: Caller): Promise<void> {
  const { party, random, sections, time, watchdogMs } = caller;
  // Of a Redlock a few masters may forget it.
  if (party.kind === 'red') return;
  const periodMs = 2 * watchdogMs;
  const target = party.ownTarget(`tick ${Math.floor(time.nowMs() / periodMs)}`);
  const lease = random.pick([undefined, 50, watchdogMs]);
  const request = { wait: random.pick([0, 50]), lease, lockAtLeastFor: periodMs };
  const section = sections.call('tick', target, { ...request, permits: target.declared });
  let isOurs = false as boolean; // set in a callback
  await section.hold(
    () => target.tryAcquire({ ...request, permits: target.declared }),
    async () => {
      isOurs = true;
      await caller.stepsIn(section);
    },
  );
  // Its key must not outlast the round.
  if (isOurs) await time.sleep(periodMs);
}

async function setPermits({ party, random, sections, time, watchdogMs }: Caller): Promise<void> {
  if (!party.changesPermits) return;
  const target = party.someSemaphore(random);
  await sections.setPermits(target, random.whole(1, 2 * target.declared));
  await time.sleep(watchdogMs); // once it was set, nobody sets it for a while
}

/**
 * Gives up a name that nobody has used while the command is on its way: the server grants what nobody wants any more. Then the next one asks
 * for it, who is kept out for as long as that grant stands.
 */
async function desert({ party, sections, watchdogMs, time }: Caller): Promise<void> {
  // Of a Redlock another rule is asked: what its masters gave in vain is in the way of whoever comes next.
  if (party.kind === 'red') return;
  const target = party.ownLock(`given up by ${sections.nextId}`);
  const call = (request: Request): Promise<void> =>
    sections.call(DESERTION, target, request).hold(() => target.acquire(request));
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
async function writeLate({ party, random, sections, time, watchdogMs }: Caller): Promise<void> {
  const target = party.someLock(random);
  const lease = random.whole(40, 120);
  const section = sections.call('acquire', target, { lease });
  await section.hold(
    () => target.acquire({ lease }),
    async () => {
      await time.sleep(lease);
      // Where nobody else wants the lock, the same caller is the next to have it.
      const request = { wait: 2 * watchdogMs };
      const next = sections.call('acquire', target, request);
      await next.hold(
        () => target.acquire(request),
        () => next.write(),
      );
      await section.write();
    },
  );
}

/** Two clients ask for a lock of their own at the same time: of a Redlock's masters each may get some, and one after the other most. */
async function race({ rival, random, sections, watchdogMs }: Caller): Promise<void> {
  if (!rival) return;
  const names = [`race of ${sections.nextId}`];
  const request = { wait: watchdogMs };
  await Promise.all(
    [sections, rival].map((runner) => {
      const target = runner.party.lock(names, false, random);
      return runner.call('acquire', target, request).hold(() => target.acquire(request));
    }),
  );
}

/** The same lock, or the half of it that only reads. */
function inside<T extends Target>({ random }: Caller, target: T): T | PartyLock {
  return target.reads && random.chance(0.5) ? target.reads : target;
}

function ignore(): void {
  return;
}
