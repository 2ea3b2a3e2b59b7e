// What a caller may do with a semaphore: acquire some of its permits in each of the ways, give up, extend, set how many there are.
import type { PermitOptions } from '../../../src/index.js';
import type { Action, Caller } from './caller.js';
import type { PartySemaphore } from './party.js';
import { optionsOf, SectionError, type Request } from './section.js';

/** How long a holder stays when a lease that is shorter than its own would have been over: a few looks at the server. */
export const STAYS_MS = 60;

export const PERMIT_ACTIONS: readonly Action[] = [
  { weight: 6, act: withPermits },
  { weight: 5, act: hold },
  { weight: 3, act: (caller) => tryOnce(caller, caller.party.someSemaphore(caller.random)) },
  { weight: 2, act: tryForAWhile },
  { weight: 2, act: meet },
  { weight: 1.5, act: overstay },
  { weight: 1, act: undercut },
  { weight: 0.4, act: setPermits },
  { weight: 0.3, act: (caller) => caller.party.reopen() },
];

/** Mostly one, now and then several, or all. */
function someRequest(caller: Caller, { declared }: PartySemaphore): Request {
  const { random } = caller;
  const permits = random.chance(0.6) ? 1 : random.whole(1, declared);
  return { ...caller.someRequest(), permits };
}

function permitOptionsOf(request: Request): PermitOptions {
  return { ...optionsOf(request), permits: request.permits };
}

async function withPermits(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const asked = party.someSemaphore(random);
  const request = someRequest(caller, asked);
  const section = sections.call('withPermits', party.clientId, asked, request);
  const isLookedAt = random.chance(0.8);
  const fails = random.chance(0.05);
  try {
    await asked.semaphore.withPermits(permitOptionsOf(request), async (held) => {
      section.enter(held, isLookedAt);
      try {
        await caller.stepsIn(section);
        // Somebody else's, as far as the semaphore knows: it may not wait for them here.
        if (random.chance(0.15)) await tryOnce(caller, asked);
        if (random.chance(0.1)) await caller.extend(held, section);
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

/** A hold, released by hand, perhaps twice. */
async function hold(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const asked = party.someSemaphore(random);
  const request = someRequest(caller, asked);
  const section = sections.call('acquire', party.clientId, asked, request);
  const releases = random.chance(0.2) ? 2 : 1;
  await section.hold(
    () => asked.semaphore.acquire(permitOptionsOf(request)),
    async (held) => {
      await caller.stepsIn(section);
      if (random.chance(0.3)) await caller.extend(held, section);
    },
    releases,
  );
}

/** One attempt. */
async function tryOnce(caller: Caller, asked: PartySemaphore): Promise<void> {
  const { random } = caller;
  const lease = random.chance(0.5) ? random.whole(100, caller.watchdogMs) : undefined;
  await tryAcquire(caller, asked, { ...someRequest(caller, asked), lease, wait: 0 });
}

/** Gives up after a short while: its place in line goes, also where it had just come first. */
async function tryForAWhile(caller: Caller): Promise<void> {
  const { random, party } = caller;
  const asked = party.someSemaphore(random);
  await tryAcquire(caller, asked, { ...someRequest(caller, asked), wait: random.whole(1, 60) });
}

async function tryAcquire(caller: Caller, asked: PartySemaphore, request: Request): Promise<void> {
  const { sections, party } = caller;
  const section = sections.call('tryAcquire', party.clientId, asked, request);
  await section.hold(
    () => asked.semaphore.tryAcquire(permitOptionsOf(request)),
    () => caller.stepsIn(section),
  );
}

/** Stays inside for longer than its lease, which is not renewed: permits come back though nobody releases them. */
async function overstay(caller: Caller): Promise<void> {
  const { random, sections, party } = caller;
  const asked = party.someSemaphore(random);
  const lease = random.whole(40, 120);
  const request = { ...someRequest(caller, asked), wait: undefined, signal: undefined, lease };
  const section = sections.call('overstay', party.clientId, asked, request);
  await section.hold(
    () => asked.semaphore.acquire(permitOptionsOf(request)),
    () => caller.time.sleep(lease + random.between(0, 60)),
  );
}

/** Extends a long lease by a short one, which changes nothing, and stays for longer than that. */
async function undercut(caller: Caller): Promise<void> {
  const { random, sections, party, watchdogMs } = caller;
  const asked = party.someSemaphore(random);
  const lease = random.chance(0.5) ? random.whole(watchdogMs, 2 * watchdogMs) : undefined;
  const request = { ...someRequest(caller, asked), wait: undefined, signal: undefined, lease };
  const section = sections.call('undercut', party.clientId, asked, request);
  await section.hold(
    () => asked.semaphore.acquire(permitOptionsOf(request)),
    async (held) => {
      const shortMs = random.whole(20, 80);
      await section.extend(held, shortMs);
      await caller.time.sleep(shortMs + STAYS_MS);
    },
  );
}

/**
 * A name that nobody has used: one client has all of its permits, another one waits for one, and has to subscribe to its channel; the
 * release comes before, while or shortly after it does.
 */
async function meet({ party, partner, random, sections, watchdogMs, time }: Caller): Promise<void> {
  if (!partner) return;
  const name = `meeting of ${sections.nextId}`;
  const ours = party.semaphore(name);
  const { declared: permits } = ours;
  const first = sections.call('meet', party.clientId, ours, { permits });
  let met: Promise<void> | undefined;
  await first.hold(
    () => ours.semaphore.acquire({ permits }),
    async () => {
      const theirs = partner.party.semaphore(name);
      const request = { permits: 1, wait: 3 * watchdogMs };
      const second = partner.sections.call('meet', partner.party.clientId, theirs, request);
      met = second.hold(() => theirs.semaphore.acquire(permitOptionsOf(request)));
      await time.sleep(random.between(0, 4));
    },
  );
  await met;
}

async function setPermits(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  if (!party.changesPermits) return;
  const asked = party.someSemaphore(random);
  const permits = random.whole(1, 2 * asked.declared);
  await sections.setPermits(asked, permits, () => asked.semaphore.setPermits(permits));
  await caller.time.sleep(caller.watchdogMs); // once it was set, nobody sets it for a while
}
