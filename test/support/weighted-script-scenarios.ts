// What is tried of each script of weighted locks: what is on the server before, and how to see what is there after.
import type { Redis } from 'ioredis';
import { scripts, type Script } from '../../src/redis/scripts.generated.js';

export const [LOCK, LEASES, LINE, PLACES, PERMITS] = [
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

export interface Before {
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

export interface Scenario {
  readonly title: string;
  readonly script: Script;
  readonly before: Before;
  readonly args: Args;
  readonly keys: readonly string[];
}

const { weightedJoin, weightedHandOver, weightedRenew, weightedRenewPlaces } = scripts;

/** The capacity of a read-write lock. */
const READ_WRITE = 2 ** 31;

export const SCENARIOS: readonly Scenario[] = [
  ...scenariosOf(weightedJoin, [
    ['of what nobody has', {}, join(2)],
    ['of what others have, too', { holders: [{ ...byOther, weight: 1 }] }, join(2)],
    [
      'of what is left of one whose leases are gone',
      { holders: [byOther], missing: LEASES },
      join(2),
    ],
    ['of what is left of one whose lock is gone', { holders: [byOther], missing: LOCK }, join(2)],
    ['first in line', { capacity: 3, line: [mine, large] }, join(2)],
    ['alone in line', { capacity: 3, line: [mine] }, join(2)],
    ['of a line', { holders: [byOther] }, join(2)],
    ['at its end', { holders: [byOther], line: [first] }, join(2)],
    ['with its ticket', { holders: [byOther], line: [first] }, join(2, 1)],
    ['that renews its place', { holders: [byOther], line: [first, mine] }, join(2)],
    ['that finds its permits', { holders: [held] }, join(2)],
    ['of what was set', { set: 5 }, join(5)],
    ['of more than there are', {}, join(4)],
    ['without a place', { holders: [byOther] }, join(2, 0, 3, 0)],
    [
      'without a place, of a line whose lock is gone',
      { holders: [byOther], line: [first], missing: LOCK },
      join(2, 0, 3, 0),
    ],
    ['without a place, of a mere line', { line: [first] }, join(2, 0, 3, 0)],
    ['of a line whose lock is gone', { holders: [byOther], line: [first], missing: LOCK }, join(2)],
  ]),
  ...scenariosOf(weightedHandOver, [
    ['to nobody', { holders: [held] }, set('me:1', 0)],
    ['to nobody, beside others', { holders: [held, { ...byOther, weight: 1 }] }, set('me:1', 0)],
    ['to the last', { holders: [held], line: [first] }, set('me:1', 0)],
    [
      'to two of three',
      {
        holders: [held, { ...byOther, weight: 1 }],
        line: [{ ...second, isFixed: true }, { ...second, owner: 'e:1' }, large],
      },
      set('me:1', 0),
    ],
    [
      'to nobody, since the first wants more',
      { holders: [held, { ...byOther, weight: 1 }], line: [large, second] },
      set('me:1', 0),
    ],
    ['past the gone', { holders: [held], line: [gone, tooLarge, second] }, set('me:1', 0)],
    ['past the gone, to nobody', { holders: [held], line: [gone] }, set('me:1', 0)],
    ['of one who lapsed', { holders: [lapsedHolder, byOther], line: [second] }, set('', -1)],
    ['of the only one, who lapsed', { holders: [lapsedHolder] }, set('', -1)],
    [
      'to one who lapsed and waits',
      { holders: [lapsedHolder], line: [{ ...second, owner: 'lapsed:1' }] },
      set('', -1),
    ],
    [
      'of what is left of one whose leases are gone',
      { holders: [byOther], line: [large], missing: LEASES },
      set('', -1),
    ],
    ['of a place', { holders: [byOther], line: [mine, second] }, set('me:1', 0)],
    ['of the only place', { holders: [byOther], line: [mine] }, set('me:1', 0)],
    [
      'of some of its permits',
      { holders: [{ ...held, weight: 3 }], line: [second] },
      set('me:1', 2),
    ],
    ['of nothing, for longer', { holders: [held] }, set('me:1', -1, 200_000)],
    [
      'of nothing, confirmed for less',
      { holders: [{ ...held, isUnconfirmed: true }], line: [large] },
      set('me:1', -1, 20_000, 1),
    ],
  ]),
  ...scenariosOf(weightedRenew, [
    [
      'of two holders',
      { holders: [held, { ...byOther, weight: 1 }] },
      [160_000, 'me:1', 'other:1'],
    ],
    [
      'not confirmed yet',
      { holders: [{ ...held, isUnconfirmed: true }] },
      [160_000, 'me:1', 'me:1'],
    ],
  ]),
  ...scenariosOf(weightedRenewPlaces, [
    ['of a place', { holders: [byOther], line: [first, mine] }, [160_000, 50, 'me:1', 1]],
    ['of what was handed over', { holders: [held], line: [first] }, [160_000, 50, 'me:1', 1]],
  ]),
  ...scenariosOf(scripts.weightedForce, [
    ['of the only one', { capacity: READ_WRITE, holders: [held] }, [2, 2, 20_000]],
    [
      'of one of three',
      { capacity: READ_WRITE, holders: [held, { ...byOther, weight: 1 }, lapsedHolder] },
      [1, 1, 20_000],
    ],
    [
      'of all who have less, before a line',
      { capacity: READ_WRITE, holders: [{ ...held, weight: 1 }, byOther], line: [large] },
      [1, 2, 20_000],
    ],
    ['of nobody', { capacity: READ_WRITE, holders: [held] }, [3, 3, 20_000]],
  ]),
  ...scenariosOf(scripts.weightedLast, [
    ['of two', { capacity: READ_WRITE, holders: [held, byOther] }, []],
  ]),
  ...scenariosOf(scripts.weightedLook, [['at all', { holders: [held], line: [large] }, [3]]]),
  ...scenariosOf(scripts.weightedSetCapacity, [
    ['of one in use', { holders: [held] }, [5, 1_000_000]],
    ['again', { set: 4 }, [5, 1_000_000]],
  ]),
];

type Tried = readonly [title: string, before: Before, args: Args];

function scenariosOf(script: Script, all: readonly Tried[]): Scenario[] {
  return all.map(([title, before, args]) => ({
    title: `${script.name} ${title}`,
    script,
    before,
    args,
    keys: keysOf(script.name, args),
  }));
}

function keysOf(name: string, args: Args): readonly string[] {
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
  return keys[name]!;
}

/** Makes the server have this, and nothing else. */
export async function prepare(redis: Redis, before: Before): Promise<void> {
  const { capacity, holders = [], line = [], set: setTo, missing } = before;
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

export type State = Record<string, unknown>;

/** All keys with what is in them, times in units of 20 s from now; that a key has an end, and when the holders' keys end. */
export async function state(redis: Redis): Promise<State> {
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
