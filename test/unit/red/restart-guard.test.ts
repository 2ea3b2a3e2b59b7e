// Every way in which a holder's masters, those that restarted and those that answer may overlap: no other client is elected while one may
// rely on the lock. And the cases in which the guard keeps a caller out without need.
import { describe, expect, it } from 'vitest';
import type { Master, VoteReply } from '../../../src/locks/redlock/master.js';
import {
  learningGuard,
  MAX_UNHEARD_LEASE_MS,
  type RestartGuard,
} from '../../../src/locks/redlock/restart-guard.js';
import { elect as electAmong, type ElectionResult } from '../../../src/locks/redlock/election.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

const DAY_MS = 86_400_000;

/** The longest lease of the caller that wants the lock. */
const OWN_MS = 1_000;

interface FakeMaster {
  /** If the master does not report it: the age of the connection. */
  upMs: number;
  isAgeTold?: boolean;
  /** undefined: it is unreachable. */
  says: VoteReply | undefined;
}

function elect(fakes: readonly FakeMaster[], guard: RestartGuard): Promise<ElectionResult> {
  const masters = fakes.map(({ upMs, isAgeTold = true, says }, index) => ({
    name: `master ${index}`,
    whyDown: says ? undefined : 'not connected',
    connection: { server: { ageMs: upMs, isAgeTold } },
    vote: () => Promise.resolve(says),
    withdraw: () => undefined,
    overdue: () => undefined,
  }));
  return electAmong({
    clock: PROCESS_CLOCK,
    random: Math.random,
    masters: masters as unknown as readonly Master[],
    quorum: Math.floor(masters.length / 2) + 1,
    ownerId: 'other:1',
    leaseMs: OWN_MS,
    nodeTimeoutMs: 50,
    guard,
  });
}

function acquired(longestLeaseMs = 0): VoteReply {
  return { reply: { outcome: 'acquired' }, longestLeaseMs };
}

/** Where a lock is held, and the state of its masters. Each field has a bit for each master. */
interface Situation {
  readonly count: number;
  /** Masters that remember the holder's lease, unless they restarted; its voters among them. */
  readonly asked: number;
  readonly votedFor: number;
  readonly restarted: number;
  /** Masters that restarted a little before the holder asked. */
  readonly youngAnyway: number;
  readonly answering: number;
}

/** Fewer than a majority restart: which ones matters only for who answers first. */
function* situations(count: number, restartedCount: number): Generator<Situation> {
  const quorum = Math.floor(count / 2) + 1;
  const first = 2 ** restartedCount - 1;
  const last = first << (count - restartedCount);
  for (const votedFor of sets(count, (size) => size >= quorum))
    for (const asked of sets(count, (_, set) => (set & votedFor) === votedFor))
      for (const restarted of [first, last])
        for (const youngAnyway of sets(
          count,
          (size, set) => (set & restarted) === 0 && size + restartedCount < quorum,
        ))
          for (const answering of sets(count, (size) => size >= quorum))
            yield { count, asked, votedFor, restarted, youngAnyway, answering };
}

function* sets(count: number, is: (size: number, set: number) => boolean): Generator<number> {
  for (let set = 0; set < 2 ** count; set++) {
    const size = set.toString(2).replaceAll('0', '').length;
    if (is(size, set)) yield set;
  }
}

/** The masters as another client sees them; some restarted `restartedMs` ago. */
function seen(situation: Situation, leaseMs: number, restartedMs: number): FakeMaster[] {
  const { count, asked, votedFor, restarted, youngAnyway, answering } = situation;
  return Array.from({ length: count }, (_, index) => {
    const isIn = (set: number): boolean => (set & (1 << index)) !== 0;
    const reply = { outcome: 'held', holder: 'holder:1', holderTtlMs: leaseMs / 20 } as const;
    let says: VoteReply = acquired(isIn(asked) && !isIn(restarted) ? leaseMs : 0);
    if (isIn(votedFor) && !isIn(restarted)) says = { reply, longestLeaseMs: leaseMs };
    return {
      upMs: isIn(restarted) ? restartedMs : isIn(youngAnyway) ? leaseMs + 1 : 30 * DAY_MS,
      says: isIn(answering) ? says : undefined,
    };
  });
}

/** In how many situations another client is elected while the lock is held. */
async function elections(
  all: Iterable<Situation>,
  leaseMs: number,
  guard: RestartGuard,
): Promise<{ tried: number; won: Situation[] }> {
  let tried = 0;
  const won: Situation[] = [];
  for (const situation of all) {
    tried++;
    const { outcome } = await elect(seen(situation, leaseMs, leaseMs * 0.9), guard);
    if (outcome === 'acquired') won.push(situation);
  }
  return { tried, won };
}

const CASES = [
  [3, 1],
  [5, 1],
  [5, 2],
] as const;

describe.each(CASES)('of %i masters, %i of which restarted within a lease,', (count, restarted) => {
  it.each([20_000, MAX_UNHEARD_LEASE_MS])(
    'whichever voted and whichever answer, no other client gets the lock before the lease of %i ms is over',
    async (leaseMs) => {
      const all = situations(count, restarted);
      const { tried, won } = await elections(all, leaseMs, learningGuard(OWN_MS));
      expect(won).toEqual([]);
      expect(tried).toBeGreaterThan(30);
    },
  );

  it('a lease of a day is safe if one answers that received it and did not restart', async () => {
    const told = function* (): Generator<Situation> {
      for (const situation of situations(count, restarted)) {
        const { asked, answering, restarted: forgetful } = situation;
        if ((asked & answering & ~forgetful) !== 0) yield situation;
      }
    };
    const { tried, won } = await elections(told(), DAY_MS, learningGuard(OWN_MS));
    expect(won).toEqual([]);
    expect(tried).toBeGreaterThan(30);
  });

  it('a guard that ignores what masters report lets others in', async () => {
    const deaf: RestartGuard = {
      ...learningGuard(OWN_MS),
      require: () => ({ upMs: OWN_MS, waitsForOthers: false }),
    };
    const { won } = await elections(situations(count, restarted), 20_000, deaf);
    expect(won.length).toBeGreaterThan(0);
  });

  it('a guard that takes silent masters for strangers lets others in', async () => {
    const learning = learningGuard(OWN_MS);
    const trusting: RestartGuard = {
      ...learning,
      require: (uptimes, quorum, isFinal) => {
        const answering = uptimes.filter(({ toldMs }) => toldMs !== undefined);
        return learning.require(answering, quorum, isFinal);
      },
    };
    const { won } = await elections(situations(count, restarted), 20_000, trusting);
    expect(won.length).toBeGreaterThan(0);
  });

  it("when all answer and none knows of a lock, those that restarted vote after the caller's guard", async () => {
    const long = Array.from({ length: count - restarted }, () => 30 * DAY_MS);
    const ages = [...Array.from({ length: restarted }, () => OWN_MS), ...long];
    const held = { outcome: 'held', holder: 'split:1', holderTtlMs: 10 } as const;
    const fakes = ages.map((upMs): FakeMaster => ({ upMs, says: acquired() }));
    // Another client has as many as possible: every other vote is needed.
    for (let index = restarted; index < (count - 1) / 2 + restarted; index++)
      fakes[index]!.says = { reply: held, longestLeaseMs: 500 };
    expect(await elect(fakes, learningGuard(OWN_MS))).toMatchObject({ outcome: 'acquired' });
  });
});

describe('a new set of masters', () => {
  it.each([3, 5])(
    'with %i of them, one of which is down, votes when they have been up for long enough',
    async (count) => {
      const masters = (upMs: number): FakeMaster[] =>
        Array.from({ length: count }, (_, index) => ({
          upMs: upMs + index * 100, // one after another
          says: index === 1 ? undefined : acquired(),
        }));
      const early = await elect(masters(500), learningGuard(OWN_MS));
      expect(early.outcome).toBe('no quorum');
      const late = await elect(masters(OWN_MS), learningGuard(OWN_MS));
      expect(late).toMatchObject({ outcome: 'acquired' });
    },
  );
});

it('a restarted master does not replace one that is down, and reports until when', async () => {
  const fakes: FakeMaster[] = [
    { upMs: 60_000, says: acquired() },
    { upMs: 30 * DAY_MS, says: acquired() },
    { upMs: 30 * DAY_MS, says: undefined },
  ];
  const guard = learningGuard(OWN_MS);
  expect(await elect(fakes, guard)).toMatchObject({
    outcome: 'no quorum',
    nodes: [
      { answer: 'guarded', votesInMs: MAX_UNHEARD_LEASE_MS - 60_000, waitsForOthers: true },
      { answer: 'acquired' },
      { answer: 'unreachable' },
    ],
  });
  fakes[2]!.says = acquired();
  expect(await elect(fakes, guard)).toMatchObject({ outcome: 'acquired' });
  fakes[2]!.says = undefined;
  fakes[0]!.upMs = MAX_UNHEARD_LEASE_MS;
  expect(await elect(fakes, guard)).toMatchObject({ outcome: 'acquired' });
});

describe('masters that do not report their age', () => {
  const untold = (upMs: number, says?: VoteReply): FakeMaster => ({ upMs, isAgeTold: false, says });
  const guard = learningGuard(30_000);

  it('do not count as a majority that restarted when their connections are young', async () => {
    const fakes = [untold(31_000, acquired()), untold(240_000, acquired()), untold(Infinity)];
    expect(await elect(fakes, guard)).toMatchObject({
      outcome: 'no quorum',
      nodes: [
        { answer: 'guarded', votesInMs: MAX_UNHEARD_LEASE_MS - 31_000, waitsForOthers: true },
        { answer: 'guarded', votesInMs: MAX_UNHEARD_LEASE_MS - 240_000, waitsForOthers: true },
        { answer: 'unreachable' },
      ],
    });
  });

  it('nor does one of them beside one that reports its restart', async () => {
    const told = { upMs: 31_000, says: acquired() };
    const fakes = [told, untold(240_000, acquired()), untold(Infinity)];
    expect((await elect(fakes, guard)).outcome).toBe('no quorum');
  });

  it('vote when all answer, or when their connections are old enough', async () => {
    const all = [31_000, 31_000, 31_000].map((upMs) => untold(upMs, acquired()));
    expect(await elect(all, guard)).toMatchObject({ outcome: 'acquired' });
    const old = [untold(MAX_UNHEARD_LEASE_MS, acquired()), untold(DAY_MS, acquired())];
    expect(await elect([...old, untold(Infinity)], guard)).toMatchObject({ outcome: 'acquired' });
  });
});

it('a master that forgot a lease longer than its uptime reports when it votes', async () => {
  const reply = { outcome: 'held', holder: 'holder:1', holderTtlMs: 5_000 } as const;
  const fakes: FakeMaster[] = [
    { upMs: 15_000, says: acquired() },
    { upMs: 30 * DAY_MS, says: { reply, longestLeaseMs: 20_000 } },
    { upMs: 30 * DAY_MS, says: acquired() },
  ];
  expect(await elect(fakes, learningGuard(OWN_MS))).toMatchObject({
    nodes: [{ answer: 'guarded', votesInMs: 5_000, waitsForOthers: false }, {}, {}],
  });
});

it('if nobody remembers the lease of a holder, its remaining time is the guard', async () => {
  const reply = { outcome: 'held', holder: 'holder:1', holderTtlMs: 20_000 } as const;
  const fakes: FakeMaster[] = [
    { upMs: 15_000, says: acquired() },
    { upMs: 30 * DAY_MS, says: { reply, longestLeaseMs: 0 } },
    { upMs: 30 * DAY_MS, says: acquired() },
  ];
  expect(await elect(fakes, learningGuard(OWN_MS))).toMatchObject({
    nodes: [{ answer: 'guarded', votesInMs: 5_000 }, {}, {}],
  });
});
