// Each script of a weighted lock, for a user who lacks one of its commands, each in turn: it does all of its work or none of it, and
// leaves no key without an end.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

const [LOCK, LEASES, LINE, PLACES, PERMITS] = [
  'lock',
  'leases',
  'line',
  'places',
  'permits',
] as const;
const ALL = [LOCK, LEASES, LINE, PLACES, PERMITS];
const HOLDERS_AND_LINE = ALL.slice(0, 4);
const FORCED = 'forced';

interface Holder {
  readonly owner: string;
  readonly weight: number;
  readonly isUnconfirmed?: boolean;
  /** In seconds; times are far enough apart to be told from each other. */
  readonly ttl: number;
}

interface Before {
  readonly capacity?: number;
  readonly holders?: readonly Holder[];
  readonly line?: readonly (Holder & {
    readonly is: 'listening' | 'gone';
    readonly isFixed?: boolean;
  })[];
  readonly set?: number;
  /** A key that was deleted by itself. */
  readonly missing?: string;
}

const held: Holder = { owner: 'me:1', weight: 2, ttl: 80 };
const byOther: Holder = { owner: 'other:1', weight: 2, ttl: 80 };
const lapsedHolder: Holder = { owner: 'lapsed:1', weight: 1, ttl: -20 };
const first = { owner: 'a:1', weight: 2, ttl: 80, is: 'listening' } as const;
const second = { owner: 'b:1', weight: 1, ttl: 80, is: 'listening' } as const;
const large = { owner: 'c:1', weight: 3, ttl: 80, is: 'listening' } as const;
const tooLarge = { ...large, owner: 'd:1', weight: 9 } as const;
const gone = { owner: 'gone:1', weight: 1, ttl: 80, is: 'gone' } as const;
const mine = { ...first, owner: 'me:1' } as const;

const join = (weight: number, ticket = 0, declared = 3, placeLeaseMs = 160_000): Args => [
  ...['me:1', weight, declared, 60_000, placeLeaseMs, 50, ticket, 0, 1, 'token', 1_000_000],
];
const set = (owner: string, target: number, leaseMs = 0, isConfirmation = 0): Args => [
  ...[owner, target, leaseMs, isConfirmation, 'grants:', 'PUBLISH', 1],
];

type Args = readonly (string | number)[];

interface Scenario {
  readonly title: string;
  readonly script: Script;
  readonly before: Before;
  readonly args: Args;
}

const { weightedJoin, weightedHandOver, weightedRenew, weightedRenewPlaces } = scripts;

/** The capacity of a read-write lock. */
const READ_WRITE = 2 ** 31;

const SCENARIOS: readonly Scenario[] = [
  scenario('of what nobody has', weightedJoin, {}, join(2)),
  scenario(
    'of what others have, too',
    weightedJoin,
    { holders: [{ ...byOther, weight: 1 }] },
    join(2),
  ),
  scenario(
    'of what is left of one whose leases are gone',
    weightedJoin,
    { holders: [byOther], missing: LEASES },
    join(2),
  ),
  scenario(
    'of what is left of one whose lock is gone',
    weightedJoin,
    { holders: [byOther], missing: LOCK },
    join(2),
  ),
  scenario('first in line', weightedJoin, { capacity: 3, line: [mine, large] }, join(2)),
  scenario('alone in line', weightedJoin, { capacity: 3, line: [mine] }, join(2)),
  scenario('of a line', weightedJoin, { holders: [byOther] }, join(2)),
  scenario('at its end', weightedJoin, { holders: [byOther], line: [first] }, join(2)),
  scenario('with its ticket', weightedJoin, { holders: [byOther], line: [first] }, join(2, 1)),
  scenario(
    'that renews its place',
    weightedJoin,
    { holders: [byOther], line: [first, mine] },
    join(2),
  ),
  scenario('that finds its permits', weightedJoin, { holders: [held] }, join(2)),
  scenario('of what was set', weightedJoin, { set: 5 }, join(5)),
  scenario('of more than there are', weightedJoin, {}, join(4)),
  scenario('without a place', weightedJoin, { holders: [byOther] }, join(2, 0, 3, 0)),
  scenario(
    'without a place, of a line whose lock is gone',
    weightedJoin,
    { holders: [byOther], line: [first], missing: LOCK },
    join(2, 0, 3, 0),
  ),
  scenario('without a place, of a mere line', weightedJoin, { line: [first] }, join(2, 0, 3, 0)),
  scenario(
    'of a line whose lock is gone',
    weightedJoin,
    { holders: [byOther], line: [first], missing: LOCK },
    join(2),
  ),
  scenario('to nobody', weightedHandOver, { holders: [held] }, set('me:1', 0)),
  scenario(
    'to nobody, beside others',
    weightedHandOver,
    { holders: [held, { ...byOther, weight: 1 }] },
    set('me:1', 0),
  ),
  scenario('to the last', weightedHandOver, { holders: [held], line: [first] }, set('me:1', 0)),
  scenario(
    'to two of three',
    weightedHandOver,
    {
      holders: [held, { ...byOther, weight: 1 }],
      line: [{ ...second, isFixed: true }, { ...second, owner: 'e:1' }, large],
    },
    set('me:1', 0),
  ),
  scenario(
    'to nobody, since the first wants more',
    weightedHandOver,
    { holders: [held, { ...byOther, weight: 1 }], line: [large, second] },
    set('me:1', 0),
  ),
  scenario(
    'past the gone',
    weightedHandOver,
    { holders: [held], line: [gone, tooLarge, second] },
    set('me:1', 0),
  ),
  scenario(
    'past the gone, to nobody',
    weightedHandOver,
    { holders: [held], line: [gone] },
    set('me:1', 0),
  ),
  scenario(
    'of one who lapsed',
    weightedHandOver,
    { holders: [lapsedHolder, byOther], line: [second] },
    set('', -1),
  ),
  scenario(
    'of the only one, who lapsed',
    weightedHandOver,
    { holders: [lapsedHolder] },
    set('', -1),
  ),
  scenario(
    'to one who lapsed and waits',
    weightedHandOver,
    { holders: [lapsedHolder], line: [{ ...second, owner: 'lapsed:1' }] },
    set('', -1),
  ),
  scenario(
    'of what is left of one whose leases are gone',
    weightedHandOver,
    { holders: [byOther], line: [large], missing: LEASES },
    set('', -1),
  ),
  scenario(
    'of a place',
    weightedHandOver,
    { holders: [byOther], line: [mine, second] },
    set('me:1', 0),
  ),
  scenario(
    'of the only place',
    weightedHandOver,
    { holders: [byOther], line: [mine] },
    set('me:1', 0),
  ),
  scenario(
    'of some of its permits',
    weightedHandOver,
    { holders: [{ ...held, weight: 3 }], line: [second] },
    set('me:1', 2),
  ),
  scenario(
    'of nothing, for longer',
    weightedHandOver,
    { holders: [held] },
    set('me:1', -1, 200_000),
  ),
  scenario(
    'of nothing, confirmed for less',
    weightedHandOver,
    { holders: [{ ...held, isUnconfirmed: true }], line: [large] },
    set('me:1', -1, 20_000, 1),
  ),
  scenario('of two holders', weightedRenew, { holders: [held, { ...byOther, weight: 1 }] }, [
    160_000,
    'me:1',
    'other:1',
  ]),
  scenario('not confirmed yet', weightedRenew, { holders: [{ ...held, isUnconfirmed: true }] }, [
    160_000,
    'me:1',
    'me:1',
  ]),
  scenario('of a place', weightedRenewPlaces, { holders: [byOther], line: [first, mine] }, [
    160_000,
    50,
    'me:1',
    1,
  ]),
  scenario('of what was handed over', weightedRenewPlaces, { holders: [held], line: [first] }, [
    160_000,
    50,
    'me:1',
    1,
  ]),
  scenario(
    'of the only one',
    scripts.weightedForce,
    { capacity: READ_WRITE, holders: [held] },
    [2, 2, 20_000],
  ),
  scenario(
    'of one of three',
    scripts.weightedForce,
    { capacity: READ_WRITE, holders: [held, { ...byOther, weight: 1 }, lapsedHolder] },
    [1, 1, 20_000],
  ),
  scenario(
    'of all who have less, before a line',
    scripts.weightedForce,
    { capacity: READ_WRITE, holders: [{ ...held, weight: 1 }, byOther], line: [large] },
    [1, 2, 20_000],
  ),
  scenario(
    'of nobody',
    scripts.weightedForce,
    { capacity: READ_WRITE, holders: [held] },
    [3, 3, 20_000],
  ),
  scenario('of two', scripts.weightedLast, { holders: [held, byOther] }, []),
  scenario('at all', scripts.weightedLook, { holders: [held], line: [large] }, [3]),
  scenario('of one in use', scripts.weightedSetCapacity, { holders: [held] }, [5, 1_000_000]),
  scenario('again', scripts.weightedSetCapacity, { set: 4 }, [5, 1_000_000]),
];

function scenario(title: string, script: Script, before: Before, args: Args): Scenario {
  return { title: `${script.name} ${title}`, script, before, args };
}

let server: RedisServer;
let redis: Redis;
/** A user who lacks what it is denied. */
let user: Redis;
let listener: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  await permitAllBut();
  user = new Redis(server.url, { username: 'limited', password: 'any' });
  listener = new Redis(server.url);
  await Promise.all([user.ping(), listener.subscribe('grants:listening')]);
}, 60_000);

afterAll(async () => {
  for (const client of [redis, user, listener]) client.disconnect();
  await server[Symbol.asyncDispose]();
});

it('every script of a weighted lock has a scenario', () => {
  const names = Object.values(scripts).map(({ name }) => name);
  expect(new Set(SCENARIOS.map(({ script }) => script.name))).toEqual(
    new Set(names.filter((name) => name.startsWith('weighted'))),
  );
});

describe.each(SCENARIOS)('$title', ({ script, before, args }) => {
  it('does all or nothing without any one of its commands', async () => {
    const commands = await commandsOf(script);
    expect(commands.length).toBeGreaterThan(1);
    await permitAllBut();
    await prepare(before);
    const stateBefore = await state();
    expect(await run(script, args)).not.toBeInstanceOf(Error);
    const stateAfter = await state();
    for (const command of commands) {
      await permitAllBut(command);
      await prepare(before);
      const reply = await run(script, args);
      const left = await state();
      const without = `without ${command}: ${String(reply)}`;
      if (reply instanceof Error) {
        expect(reply.message, without).toMatch(/permission|can't run this command/);
        expect(withoutTorn(left, before), without).toEqual(withoutTorn(stateBefore, before));
      } else if (command === 'PUBSUB') {
        expect(Object.keys(left), without).not.toContain('a key without an end');
      } else {
        expect(without && left).toEqual(stateAfter);
      }
    }
  });
});

/** Of holders whose lock or leases were deleted, what is left means nothing: it may be cleared away. */
function withoutTorn(found: State, { missing }: Before): State {
  if (missing === undefined) return found;
  return { ...found, [LOCK]: undefined, [LEASES]: undefined };
}

async function permitAllBut(...commands: string[]): Promise<void> {
  const denied = commands.map((command) => `-${command}`);
  const rules = ['reset', 'on', 'nopass', '~*', '&*', '+@all', ...denied];
  await redis.call('ACL', 'SETUSER', 'limited', ...rules);
}

async function commandsOf({ source }: Script): Promise<string[]> {
  const code = source.replace(/--.*$/gm, '');
  const quoted = [...code.matchAll(/'([A-Z]{2,})'/g)].map(([, name]) => name!);
  const names = [...new Set([...quoted, ...(/publish/i.test(code) ? ['PUBLISH'] : [])])];
  const known = (await redis.call('COMMAND', 'INFO', ...names)) as unknown[];
  return names.filter((_, index) => known[index] !== null);
}

async function prepare({
  capacity,
  holders = [],
  line = [],
  set: setTo,
  missing,
}: Before): Promise<void> {
  await redis.flushall();
  const now = Date.now();
  if (capacity !== undefined || holders.length > 0) {
    const used = holders.reduce((sum, { weight }) => sum + weight, 0);
    await redis.hset(LOCK, { capacity: capacity ?? 3, used });
  }
  for (const { owner, weight, ttl, isUnconfirmed } of holders) {
    await redis.hset(LOCK, owner, `${String(weight)}${isUnconfirmed ? '?' : ''}`);
    await redis.zadd(LEASES, now + ttl * 1_000, owner);
  }
  for (const [index, { owner, weight, ttl, is, isFixed = false }] of line.entries()) {
    const place = [
      `w${String(weight)}`,
      index + 1,
      now + ttl * 1_000,
      100_000,
      Number(isFixed),
      1,
      is,
    ];
    await redis.zadd(LINE, index + 1, owner);
    await redis.hset(PLACES, owner, place.join(' '));
  }
  for (const key of HOLDERS_AND_LINE) await redis.pexpire(key, 120_000);
  if (setTo !== undefined) await redis.set(PERMITS, setTo, 'PX', 500_000);
  if (missing !== undefined) await redis.del(missing);
}

async function run({ name, source }: Script, args: Args): Promise<unknown> {
  return await user.eval(source, ...keysOf(name, args), ...args).catch((error: unknown) => error);
}

function keysOf(name: string, args: Args): [number, ...string[]] {
  const owners = name === 'weighted-renew' ? args.length - 1 : 1;
  const keys: Record<string, readonly string[]> = {
    'weighted-join': ALL,
    'weighted-hand-over': HOLDERS_AND_LINE,
    'weighted-renew': Array.from({ length: owners }, () => [LOCK, LEASES, FORCED]).flat(),
    'weighted-renew-places': HOLDERS_AND_LINE,
    'weighted-look': ALL,
    'weighted-force': [LOCK, LEASES, LINE, FORCED],
    'weighted-last': [LOCK, LEASES],
    'weighted-set-capacity': [LOCK, PERMITS],
  };
  const ofScript = keys[name]!;
  return [ofScript.length, ...ofScript];
}

type State = Record<string, unknown>;

/** All keys with what is in them, times in units of 20 s from now; that a key has an end, and when the holders' keys end. */
async function state(): Promise<State> {
  const [lock, leases, line, places, permits, forced] = await Promise.all([
    redis.hgetall(LOCK),
    redis.zrange(LEASES, '0', '-1', 'WITHSCORES'),
    redis.zrange(LINE, '0', '-1'),
    redis.hgetall(PLACES),
    redis.get(PERMITS),
    redis.hgetall(FORCED),
  ]);
  const ttls = await Promise.all([...ALL, FORCED].map((key) => redis.pttl(key)));
  const rounded = (text: string): string =>
    text.replace(/\d{12,}/, (atMs) =>
      String(Math.round((Number(atMs) - Date.now()) / 20_000) * 20),
    );
  const inAll = (record: Record<string, string>): Record<string, string> =>
    Object.fromEntries(Object.entries(record).map(([key, value]) => [key, rounded(value)]));
  return {
    [LOCK]: lock,
    [LEASES]: leases.map(rounded),
    [LINE]: line,
    [PLACES]: inAll(places),
    [PERMITS]: permits,
    [FORCED]: forced,
    ...(ttls.includes(-1) && { 'a key without an end': ttls }),
  };
}
