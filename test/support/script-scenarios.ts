// What is tried of each script: what is on the server before, and what it is called with.
import type { ScriptName } from './script-server.js';

export const LOCK = 'lock';
export const LEASES = 'leases';
const FORCED = 'forced';
const LINE = 'line';
const PLACES = 'places';
const LONGEST = 'longest';
const COUNTER = 'counter';
const PERMITS = 'permits';
const FAIR = [LOCK, LINE, PLACES];
const ALL_WEIGHTED = [LOCK, LEASES, LINE, PLACES, PERMITS];
const HOLDERS_AND_LINE = ALL_WEIGHTED.slice(0, 4);
const KEYS: Record<ScriptName, readonly string[]> = {
  acquire: [LOCK],
  confirm: [LOCK, FORCED, LINE, PLACES],
  forceUnlock: [LOCK, FORCED],
  gather: [LOCK],
  handOver: FAIR,
  inspect: [LOCK, LEASES, LINE, PLACES, COUNTER],
  join: FAIR,
  reenter: [LOCK, FORCED],
  release: [LOCK],
  releaseTo: [LOCK, FORCED],
  renew: [LOCK, FORCED],
  remember: [LONGEST],
  renewPlaces: FAIR,
  raiseToken: [COUNTER],
  vote: [LOCK, LONGEST],
  look: [LOCK],
  waiters: FAIR,
  weightedAdopt: [LOCK, LEASES, FORCED],
  weightedForce: [LOCK, LEASES, LINE, FORCED],
  weightedHandOver: HOLDERS_AND_LINE,
  weightedJoin: ALL_WEIGHTED,
  weightedLast: [LOCK, LEASES],
  weightedLook: ALL_WEIGHTED,
  weightedRenew: [LOCK, LEASES, FORCED, LOCK, LEASES, FORCED],
  weightedRenewPlaces: HOLDERS_AND_LINE,
  weightedSetCapacity: [LOCK, PERMITS],
};

/** What is on the server before; times in seconds. */
export interface Before {
  readonly lock?: { readonly owner: string; readonly count: number; readonly ttl: number };
  /** Who was forced out. */
  readonly word?: string;
  /** The last fencing token, and how much longer that is remembered. */
  readonly counter?: { readonly token: string; readonly ttl: number };
  /** The longest lease that was asked for, and how much longer that is remembered. */
  readonly longest?: { readonly ms: number; readonly ttl: number };
  /** In order; of those who listen to their grants, or are gone, or do not listen. */
  readonly line?: readonly Place[];
  /** Of a lock with several holders. */
  readonly capacity?: number;
  readonly holders?: readonly Holder[];
  /** How many permits were set. */
  readonly set?: number;
  /** A key that was deleted by itself. */
  readonly missing?: string;
}

interface Place {
  readonly owner: string;
  readonly ttl: number;
  readonly is: 'listening' | 'gone' | 'deaf';
  readonly isFixed?: boolean;
  readonly isFenced?: boolean;
  /** Where there are several holders. */
  readonly weight?: number;
}

interface Holder {
  readonly owner: string;
  readonly weight: number;
  readonly isUnconfirmed?: boolean;
  readonly ttl: number;
}

type Args = readonly (string | number)[];

export interface Scenario {
  readonly title: string;
  readonly script: ScriptName;
  readonly before: Before;
  readonly args: Args;
  readonly keys: readonly string[];
}

const held = { owner: 'me:1', count: 1, ttl: 40 };
const kept = { owner: 'other:1', count: -1, ttl: 20 };
const released = { ...held, count: -2 };
const byOther = { owner: 'other:1', count: 1, ttl: 40 };
const first = { owner: 'a:1', ttl: 80, is: 'listening' } as const;
const fixed = { ...first, isFixed: true };
const second = { owner: 'b:1', ttl: 120, is: 'listening' } as const;
const mine = { owner: 'me:1', ttl: 80, is: 'listening' } as const;
const gone = { owner: 'gone:1', ttl: 80, is: 'gone' } as const;
const lapsed = { owner: 'lapsed:1', ttl: -20, is: 'listening' } as const;
const known = { ms: 100_000, ttl: 20 };
const fencedFirst = { ...first, isFenced: true };
const counter = { token: '5', ttl: 40 };
const TOKEN_TTL_MS = 100_000;
const acquired = ['me:1', 60_000];
const fenced = [...acquired, TOKEN_TTL_MS];
const fencedKeys = [LOCK, COUNTER];
const handOver = (owner: string): string[] => [owner, 'ch', 'PUBLISH', 'grants:', 'PUBLISH', '1'];
const request = ['me:1', 60_000, 160_000, 50];
const join = (ticket: number, wants = 0): Args => [...request, ticket, wants, 1, 'listening'];
const joinFenced = (ticket: number): Args => [...join(ticket, 2), TOKEN_TTL_MS];
const confirm = (leaseMs: number, isRelease = 0): Args => [
  ...['me:1', leaseMs, 'ch', 'PUBLISH', 'grants:', 'PUBLISH'],
  isRelease,
];
const withCounter = [LOCK, LINE, PLACES, COUNTER];
const voteWithCounter = [LOCK, LONGEST, COUNTER];

const PLAIN_AND_FAIR: readonly Scenario[] = [
  ...scenariosOf('acquire', [
    ['of a free lock', {}, acquired],
    ['sent again', { lock: held }, acquired],
    ['of a free lock that may be kept', {}, [...acquired, 0, 20_000, 0, 'channel', 'NUMSUB']],
    ['of a lock that is kept', { lock: kept }, acquired],
    [
      'sent again, that may be kept',
      { lock: { ...held, count: -1 } },
      [...acquired, 0, 20_000, 0, 'channel', 'NUMSUB'],
    ],
    ['of a lock that is held', { lock: byOther }, acquired],
    ['fenced, of a free lock', {}, fenced, fencedKeys],
    ['fenced, after others', { counter }, fenced, fencedKeys],
    ['fenced, for ever', { counter }, [...acquired, 0], fencedKeys],
    ['fenced, sent again', { lock: held, counter }, fenced, fencedKeys],
    ['fenced, of a lock that is held', { lock: byOther, counter }, fenced, fencedKeys],
  ]),
  ...scenariosOf('gather', [
    ['to acquire a free lock', {}, ['a', 60_000, '', 'me:1']],
    ['to acquire it for longer', {}, ['o', 20_000, '', 'me:1', 60_000]],
    ['to acquire it again', { lock: held }, ['a', 60_000, '', 'me:1']],
    ['to acquire it so that it may be kept', {}, ['k', 0, 'PUBLISH', 'me:1', 60_000, 20_000, 0]],
    ['of a lock that is held', { lock: byOther }, ['a', 60_000, '', 'me:1']],
    ['to release a held lock', { lock: held }, ['r', 0, 'PUBLISH', 'me:1']],
    ['to withdraw a held lock', { lock: held }, ['w', 0, '', 'me:1']],
  ]),
  ...scenariosOf('reenter', [
    ['nested, for longer', { lock: held }, ['me:1', 2, 60_000]],
    ['nested, for less', { lock: held }, ['me:1', 2, 20_000]],
    ['of a nested hold', { lock: { ...held, count: 2 } }, ['me:1', 1, 0]],
    ['for longer', { lock: held }, ['me:1', 1, 60_000]],
    ['of a lock that was forced', { word: 'me:1' }, ['me:1', 1, 0]],
  ]),
  ...scenariosOf('release', [['of a held lock', { lock: held }, ['me:1', 'ch', 'PUBLISH']]]),
  ...scenariosOf('releaseTo', [
    ['of a held lock', { lock: held }, ['me:1', 'me:2', 60_000]],
    ['of a held lock, for less', { lock: held }, ['me:1', 'me:2', 20_000]],
    ['sent again', { lock: { ...held, owner: 'me:2' } }, ['me:1', 'me:2', 60_000]],
    ['of a lock that is gone', {}, ['me:1', 'me:2', 60_000]],
    ['of a lock that was forced', { word: 'me:2' }, ['me:1', 'me:2', 60_000]],
    [
      'fenced, of a held lock',
      { lock: held, counter },
      ['me:1', 'me:2', 60_000, 100_000],
      [LOCK, FORCED, COUNTER],
    ],
    [
      'fenced, sent again',
      { lock: { ...held, owner: 'me:2' }, counter },
      ['me:1', 'me:2', 60_000, 100_000],
      [LOCK, FORCED, COUNTER],
    ],
  ]),
  ...scenariosOf('renew', [
    ['of a held lock', { lock: held }, [60_000, 'me:1']],
    ['not confirmed yet', { lock: { ...held, count: 0 } }, [60_000, 'me:1']],
    ['of a lock that was forced', { word: 'me:1' }, [60_000, 'me:1']],
  ]),
  ...scenariosOf('forceUnlock', [
    ['of a held lock', { lock: held }, ['ch', 'PUBLISH', 20_000]],
    ['the second', { lock: held, word: 'other:1' }, ['ch', 'PUBLISH', 20_000]],
    ['of a lock that is kept', { lock: kept }, ['ch', 'PUBLISH', 20_000]],
  ]),
  ...scenariosOf('confirm', [
    ['by a shorter lease', { lock: { ...held, count: 0 }, line: [first] }, confirm(20_000)],
    ['by a longer lease', { lock: held }, confirm(60_000)],
    ['of a lock that was forced', { word: 'me:1' }, confirm(60_000)],
    ['to be released later', { lock: held, line: [first] }, confirm(20_000, 1)],
    ['to be released later than its lease ends', { lock: held }, confirm(60_000, 1)],
    ['of a lock that was released', { lock: released }, confirm(60_000)],
  ]),
  ...scenariosOf('join', [
    ['of a free lock', {}, join(0)],
    ['of a free lock, first in line', { line: [mine, second] }, join(0)],
    ['of a free lock, alone in line', { line: [mine] }, join(0)],
    ['of a line', { lock: byOther }, join(0)],
    ['at its end', { lock: byOther, line: [first] }, join(0)],
    ['of the line for a lock that is kept', { lock: kept }, join(0)],
    ['with its ticket', { lock: byOther, line: [first] }, join(1)],
    ['that renews its place', { lock: byOther, line: [first, mine] }, join(2)],
    ['that finds its lock', { lock: held }, join(0)],
    ['fenced, of a free lock', { counter }, joinFenced(0), withCounter],
    [
      'fenced, of a free lock, first in line',
      { line: [mine, second], counter },
      joinFenced(0),
      withCounter,
    ],
    ['fenced, of a line', { lock: byOther }, joinFenced(0), withCounter],
    ['fenced, that finds its lock', { lock: held, counter }, joinFenced(0), withCounter],
  ]),
  ...scenariosOf('handOver', [
    [
      'fenced, to the first of two',
      { lock: held, line: [fencedFirst, second], counter },
      handOver('me:1'),
      withCounter,
    ],
    [
      'fenced, past the gone',
      { lock: held, line: [lapsed, gone, fencedFirst] },
      handOver('me:1'),
      withCounter,
    ],
    ['of the lock to nobody', { lock: held }, handOver('me:1')],
    ['to the last', { lock: held, line: [first] }, handOver('me:1')],
    ['to the first of two', { lock: held, line: [fixed, second] }, handOver('me:1')],
    ['past the gone', { lock: held, line: [lapsed, gone, second] }, handOver('me:1')],
    ['past the gone, to nobody', { lock: held, line: [lapsed, gone] }, handOver('me:1')],
    ['of a free lock', { line: [gone, second] }, handOver('')],
    ['of a free lock to nobody', { line: [lapsed] }, handOver('')],
    ['of a place', { lock: byOther, line: [mine, second] }, handOver('me:1')],
    ['of the only place', { lock: byOther, line: [mine] }, handOver('me:1')],
    ['of the place of one who left', { line: [mine, second] }, handOver('me:1')],
  ]),
  ...scenariosOf('renewPlaces', [
    ['of a place', { lock: byOther, line: [first, mine] }, [160_000, 50, 'me:1', 1]],
    ['of what was handed over', { lock: held }, [160_000, 50, 'me:1', 1]],
    ['of a place for a lock that is kept', { lock: kept, line: [mine] }, [160_000, 50, 'me:1', 1]],
  ]),
  ...scenariosOf('vote', [
    ['for a free lock', {}, acquired],
    ['for a free lock, known', { longest: known }, acquired],
    ['for a free lock, for less', { longest: known }, ['me:1', 20_000]],
    ['sent again', { lock: held, longest: known }, acquired],
    ['of a lock that is held', { lock: byOther, longest: known }, acquired],
    ['of a lock that is kept', { lock: kept, longest: known }, acquired],
    ['of a fenced lock', { counter }, acquired, voteWithCounter],
    [
      'of a fenced lock, sent again',
      { lock: held, longest: known, counter },
      acquired,
      voteWithCounter,
    ],
  ]),
  ...scenariosOf('raiseToken', [
    ['of a larger one', { counter }, ['7', TOKEN_TTL_MS]],
    ['of a larger one, for ever', { counter }, ['7', 0]],
    ['of the first', {}, ['7', TOKEN_TTL_MS]],
    ['of one that is known', { counter }, ['5', TOKEN_TTL_MS]],
  ]),
  ...scenariosOf('remember', [
    ['of more than is known', { longest: known }, [120_000]],
    ['of less than is known', { longest: known }, [60_000]],
    ['of the first', {}, [60_000]],
  ]),
  ...scenariosOf('look', [['at a held lock', { lock: held }, []]]),
  ...scenariosOf('inspect', [
    ['of a held lock', { lock: held }, ['channel', 'NUMSUB', 1_000]],
    [
      'of a fenced lock with a line',
      { lock: held, counter, line: [first, second] },
      ['channel', 'NUMSUB', 1],
    ],
  ]),
  ...scenariosOf('waiters', [['in line', { line: [first, second] }, []]]),
];

/** The same of locks with several holders. */
function ofWeightedLocks(): Scenario[] {
  const held: Holder = { owner: 'me-0123456789ab:1', weight: 2, ttl: 80 };
  const byOther: Holder = { owner: 'other-0123456789ab:1', weight: 2, ttl: 80 };
  const lapsedHolder: Holder = { owner: 'lapsed-0123456789ab:1', weight: 1, ttl: -20 };
  const first = { owner: 'a-0123456789ab:1', weight: 2, ttl: 80, is: 'listening' } as const;
  const second = { owner: 'b-0123456789ab:1', weight: 1, ttl: 80, is: 'listening' } as const;
  const large = { owner: 'c-0123456789ab:1', weight: 3, ttl: 80, is: 'listening' } as const;
  const tooLarge = { ...large, owner: 'd-0123456789ab:1', weight: 9 } as const;
  const gone = { owner: 'gone-0123456789ab:1', weight: 1, ttl: 80, is: 'gone' } as const;
  const mine = { ...first, owner: 'me-0123456789ab:1' } as const;

  const join = (weight: number, ticket = 0, declared = 3, placeLeaseMs = 160_000): Args => [
    ...[
      'me-0123456789ab:1',
      weight,
      declared,
      60_000,
      placeLeaseMs,
      50,
      ticket,
      0,
      1,
      'token',
      1_000_000,
    ],
  ];
  const set = (owner: string, target: number, leaseMs = 0, isConfirmation = 0): Args => [
    ...[owner, target, leaseMs, isConfirmation, 'grants:', 'PUBLISH', 1],
  ];

  /** The capacity of a read-write lock. */
  const READ_WRITE = 2 ** 31;

  return [
    ...scenariosOf('weightedJoin', [
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
      [
        'of a line whose lock is gone',
        { holders: [byOther], line: [first], missing: LOCK },
        join(2),
      ],
    ]),
    ...scenariosOf('weightedHandOver', [
      ['to nobody', { holders: [held] }, set('me-0123456789ab:1', 0)],
      [
        'to nobody, beside others',
        { holders: [held, { ...byOther, weight: 1 }] },
        set('me-0123456789ab:1', 0),
      ],
      ['to the last', { holders: [held], line: [first] }, set('me-0123456789ab:1', 0)],
      [
        'to two of three',
        {
          holders: [held, { ...byOther, weight: 1 }],
          line: [{ ...second, isFixed: true }, { ...second, owner: 'e-0123456789ab:1' }, large],
        },
        set('me-0123456789ab:1', 0),
      ],
      [
        'to nobody, since the first wants more',
        { holders: [held, { ...byOther, weight: 1 }], line: [large, second] },
        set('me-0123456789ab:1', 0),
      ],
      [
        'past the gone',
        { holders: [held], line: [gone, tooLarge, second] },
        set('me-0123456789ab:1', 0),
      ],
      ['past the gone, to nobody', { holders: [held], line: [gone] }, set('me-0123456789ab:1', 0)],
      ['of one who lapsed', { holders: [lapsedHolder, byOther], line: [second] }, set('', -1)],
      ['of the only one, who lapsed', { holders: [lapsedHolder] }, set('', -1)],
      [
        'to one who lapsed and waits',
        { holders: [lapsedHolder], line: [{ ...second, owner: 'lapsed-0123456789ab:1' }] },
        set('', -1),
      ],
      [
        'of what is left of one whose leases are gone',
        { holders: [byOther], line: [large], missing: LEASES },
        set('', -1),
      ],
      ['of a place', { holders: [byOther], line: [mine, second] }, set('me-0123456789ab:1', 0)],
      ['of the only place', { holders: [byOther], line: [mine] }, set('me-0123456789ab:1', 0)],
      [
        'of some of its permits',
        { holders: [{ ...held, weight: 3 }], line: [second] },
        set('me-0123456789ab:1', 2),
      ],
      ['of nothing, for longer', { holders: [held] }, set('me-0123456789ab:1', -1, 200_000)],
      [
        'of nothing, confirmed for less',
        { holders: [{ ...held, isUnconfirmed: true }], line: [large] },
        set('me-0123456789ab:1', -1, 20_000, 1),
      ],
      [
        'of what is released later',
        { holders: [held], line: [large] },
        set('me-0123456789ab:1', -1, 20_000, 2),
      ],
    ]),
    ...scenariosOf('weightedAdopt', [
      [
        'of what is held',
        { holders: [held, byOther] },
        ['me-0123456789ab:1', 'me-0123456789ab:2', 60_000],
      ],
      [
        'of what is held, for less',
        { holders: [held] },
        ['me-0123456789ab:1', 'me-0123456789ab:2', 20_000],
      ],
      [
        'sent again',
        { holders: [{ ...held, owner: 'me-0123456789ab:2' }] },
        ['me-0123456789ab:1', 'me-0123456789ab:2', 60_000],
      ],
      [
        'of what is gone',
        { holders: [byOther] },
        ['me-0123456789ab:1', 'me-0123456789ab:2', 60_000],
      ],
      [
        'of what lapsed',
        { holders: [lapsedHolder] },
        ['lapsed-0123456789ab:1', 'me-0123456789ab:2', 60_000],
      ],
    ]),
    ...scenariosOf('weightedRenew', [
      [
        'of two holders',
        { holders: [held, { ...byOther, weight: 1 }] },
        [160_000, 'me-0123456789ab:1', 'other-0123456789ab:1'],
      ],
      [
        'not confirmed yet',
        { holders: [{ ...held, isUnconfirmed: true }] },
        [160_000, 'me-0123456789ab:1', 'me-0123456789ab:1'],
      ],
    ]),
    ...scenariosOf('weightedRenewPlaces', [
      [
        'of a place',
        { holders: [byOther], line: [first, mine] },
        [160_000, 50, 'me-0123456789ab:1', 1],
      ],
      [
        'of what was handed over',
        { holders: [held], line: [first] },
        [160_000, 50, 'me-0123456789ab:1', 1],
      ],
    ]),
    ...scenariosOf('weightedForce', [
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
      [
        'of one by name',
        { capacity: 3, holders: [held, byOther] },
        [1, Number.MAX_SAFE_INTEGER, 20_000, 'me-0123456789ab:1'],
      ],
    ]),
    ...scenariosOf('weightedLast', [
      ['of two', { capacity: READ_WRITE, holders: [held, byOther] }, []],
    ]),
    ...scenariosOf('weightedLook', [['at all', { holders: [held], line: [large] }, [3]]]),
    ...scenariosOf('weightedSetCapacity', [
      ['of one in use', { holders: [held] }, [5, 1_000_000]],
      ['again', { set: 4 }, [5, 1_000_000]],
    ]),
  ];
}

type Tried = readonly [title: string, before: Before, args: Args, keys?: readonly string[]];

function scenariosOf(script: ScriptName, all: readonly Tried[]): Scenario[] {
  return all.map(([title, before, args, keys = KEYS[script]]) => ({
    title: `${script} ${title}`,
    script,
    before,
    args,
    keys,
  }));
}

export const SCENARIOS = [...PLAIN_AND_FAIR, ...ofWeightedLocks()];

/** The commands that put this on a server that is empty. */
export function commandsFor(before: Before, nowMs: number): (readonly [string, ...string[]])[] {
  const { lock, word, counter, longest, line = [], capacity, holders = [] } = before;
  const commands: (readonly [string, ...string[]])[] = [];
  const add = (name: string, ...args: (string | number)[]): void =>
    void commands.push([name, ...args.map(String)]);
  const at = (ttl: number): number => nowMs + ttl * 1_000;
  if (lock) {
    add('HSET', LOCK, lock.owner, lock.count);
    add('PEXPIREAT', LOCK, at(lock.ttl));
  }
  if (word) add('SET', FORCED, word, 'PX', 40_000);
  if (counter) add('SET', COUNTER, counter.token, 'PX', counter.ttl * 1_000);
  if (longest) add('SET', LONGEST, longest.ms, 'PX', longest.ttl * 1_000);
  if (capacity !== undefined || holders.length > 0) {
    const used = holders.reduce((sum, { weight }) => sum + weight, 0);
    add('HSET', LOCK, 'capacity', capacity ?? 3, 'used', used);
  }
  for (const { owner, weight, ttl, isUnconfirmed } of holders) {
    add('HSET', LOCK, owner, `${weight}${isUnconfirmed ? '?' : ''}`);
    add('ZADD', LEASES, at(ttl), owner);
  }
  for (const [index, place] of line.entries()) {
    add('ZADD', LINE, index + 1, place.owner);
    add('HSET', PLACES, place.owner, placeOf(place, index + 1, at(place.ttl)));
  }
  for (const key of lock ? [LINE, PLACES] : HOLDERS_AND_LINE) add('PEXPIRE', key, 120_000);
  if (before.set !== undefined) add('SET', PERMITS, before.set, 'PX', 500_000);
  if (before.missing !== undefined) add('DEL', before.missing);
  return commands;
}

function placeOf(place: Place, nonce: number, endsAtMs: number): string {
  const { is, weight, isFixed = false, isFenced = false } = place;
  if (weight !== undefined)
    return [`w${weight}`, nonce, endsAtMs, 100_000, Number(isFixed), 1, is].join(' ');
  const wants = Number(isFixed) + 2 * Number(isFenced);
  const words = [nonce, endsAtMs, wants, is === 'deaf' ? 0 : 1, is];
  return (isFenced ? [...words, TOKEN_TTL_MS] : words).join(' ');
}
