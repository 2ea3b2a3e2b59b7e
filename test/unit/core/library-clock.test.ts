// A client whose library brings a clock and random numbers lives on these alone, so that time can jump ahead and a run can be repeated.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Lock } from '../../../src/api/lock.js';
import { Holdfast } from '../../../src/holdfast.js';
import type { Library } from '../../../src/redis/port.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { JumpingClock, seeded, TinyRedis } from '../../support/tiny-redis.js';

vi.mock('../../../src/redis/installed.js', () => ({ libraryFor: (source: Library) => source }));

expectWarnings(/has been waited for for 30 s|goes on refusing/);

/** Which of the process' clocks, timers and random numbers src/ asked for. */
let asked: string[];

beforeEach(() => {
  asked = [];
  spyOn(performance, 'now');
  spyOn(Date, 'now');
  spyOn(Math, 'random');
  spyOn(globalThis, 'setTimeout');
  spyOn(globalThis, 'setInterval');
});

function spyOn(owner: object, name: string): void {
  const object = owner as Record<string, (...args: unknown[]) => unknown>;
  const original = object[name]!.bind(object);
  vi.spyOn(object, name).mockImplementation((...args) => {
    const { stack = '' } = new Error();
    if (stack.includes('/src/')) asked.push(`${name} ${stack}`); // and not vitest
    return original(...args);
  });
}

/** What happens in one run: a few clients of three servers, and all commands that they send. */
async function run(seed: number): Promise<string[][]> {
  const clock = new JumpingClock();
  const random = seeded(seed);
  const servers = ['one', 'two', 'three'].map((id) => new TinyRedis(id, clock));
  const clients = [...servers, ...servers].map(
    (server) => new Holdfast({ redis: server.library({ clock, random }), commandTimeout: 1_000 }),
  );
  const [here, second, third, there, ...others] = clients as [Holdfast, Holdfast, ...Holdfast[]];
  await clock.until(Promise.all(clients.map((client) => client.ping())));

  await isWaitedFor(clock, here, there!);
  await isLost(clock, here);
  await isTakenTogether(clock, here, second, there!);
  const leaders = [
    [here, second, third!],
    [there!, ...others],
  ].map((masters) => redLockOn(masters));
  await isElected(clock, leaders);
  await isRefused(clock, servers, here, leaders);

  await clock.until(here.getLock('left').acquire());
  await clock.until(Promise.all(clients.map((client) => client.close())));
  expect(clock.timerCount).toBe(0);
  return servers.map(({ log }) => log);
}

/** A lock is held for long, waited for in vain, waited for, and given up to the next. */
async function isWaitedFor(clock: JumpingClock, here: Holdfast, there: Holdfast): Promise<void> {
  const renewals = eventsOf(here, 'renewed');
  const warnings = eventsOf(here, 'warning');
  const hold = await clock.until(here.getLock('orders').acquire());
  const beside = here.getLock('orders').acquire();
  const waiting = there.getLock('orders').acquire({ wait: 3_600_000 });
  const inVain = rejectionOf(there.getLock('orders').acquire({ wait: 60_000 }));
  expect(await clock.until(inVain)).toMatchObject({ code: 'LOCK_TIMEOUT' });
  expect(clock.nowMs()).toBeCloseTo(60_000, -3);
  expect(renewals.length).toBeGreaterThanOrEqual(5);
  expect(hold.remaining()).toBeGreaterThan(15_000);
  expect(warnings).toHaveLength(1); // that it may wait for itself, after 30 s
  const others = [beside, waiting].map(async (next) => (await next).release());
  await clock.until(Promise.all([hold.release(), ...others]));
}

/** A lease that nobody renews ends, and its holder is told. */
async function isLost(clock: JumpingClock, here: Holdfast): Promise<void> {
  const hold = await clock.until(here.getLock('short').acquire({ lease: 40_000 }));
  await clock.pass(40_000);
  expect(hold.signal.aborted).toBe(true);
}

/** Several locks are had together as soon as the one is free that was in the way. */
async function isTakenTogether(
  clock: JumpingClock,
  here: Holdfast,
  beside: Holdfast,
  there: Holdfast,
): Promise<void> {
  const inTheWay = await clock.until(there.getLock('second').acquire());
  const all = here.getMultiLock(
    here.getLock('first'),
    here.getLock('second'),
    beside.getLock('first'),
  );
  const inVain = rejectionOf(all.acquire({ wait: 1_000 }));
  expect(await clock.until(inVain)).toMatchObject({ code: 'LOCK_TIMEOUT' });
  const acquiring = all.acquire({ lease: 30_000 });
  await clock.pass(1_000);
  await clock.until(inTheWay.release());
  await clock.until((await clock.until(acquiring)).release());
}

/** A Redlock is renewed, and goes from one client to the other. */
async function isElected(clock: JumpingClock, [one, other]: readonly Lock[]): Promise<void> {
  const hold = await clock.until(one!.acquire());
  const waiting = other!.acquire();
  await clock.pass(25_000);
  expect(await clock.until(one!.tryLock())).toBe(false);
  expect(hold.remaining()).toBeGreaterThan(0);
  await clock.until(hold.release());
  await clock.until((await clock.until(waiting)).release());
}

/** Two servers refuse everything for a while: what could not be done is done after that. */
async function isRefused(
  clock: JumpingClock,
  servers: readonly TinyRedis[],
  client: Holdfast,
  [one, other]: readonly Lock[],
): Promise<void> {
  const hold = await clock.until(client.getLock('late').acquire());
  const refuse = (isLoading: boolean): void => {
    for (const server of servers.slice(0, 2)) server.isLoading = isLoading;
  };
  refuse(true);
  const electing = [one!, other!].map((leader) => leader.withLock(() => clock.nowMs()));
  expect(await clock.until(rejectionOf(hold.release()))).toMatchObject({
    code: 'REDIS_UNAVAILABLE',
  });
  await clock.pass(2_000);
  refuse(false);
  const refusedUntilMs = clock.nowMs();
  for (const electedAtMs of await clock.until(Promise.all(electing)))
    expect(electedAtMs).toBeGreaterThan(refusedUntilMs);
}

function redLockOn(clients: readonly Holdfast[]): Lock {
  const members = clients.map((client) => client.getLock('leader'));
  return clients[0]!.getRedLock(...members, { maxExtensions: 3 });
}

describe(
  'a client whose library brings its own clock and random numbers',
  { timeout: 20_000 },
  () => {
    it('asks the process for none', async () => {
      await run(1);
      expect(asked).toEqual([]);
    });

    it('does the same in every run with the same random numbers, and has other ids with others', async () => {
      const first = await run(1);
      expect(await run(1)).toEqual(first);
      expect(await run(2)).not.toEqual(first);
    });
  },
);

it('a client of a library without them asks the process', async () => {
  const holdfast = new Holdfast({ redis: new TinyRedis('one').library() });
  const hold = await holdfast.getLock('orders').acquire();
  await hold.release();
  await holdfast.close();
  const names = new Set(asked.map((call) => call.split(' ')[0]));
  expect([...names].sort()).toEqual(['now', 'setTimeout']);
});
