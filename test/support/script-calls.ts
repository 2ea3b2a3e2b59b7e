// Random calls of all scripts, on a few locks and owners so that they meet; and what else happens on a server meanwhile.
import { LockKeys } from '../../src/redis/keys.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import type { Random } from '../chaos/random.js';

type ScriptName = keyof typeof scripts;

export interface ScriptCall {
  readonly kind: 'call';
  readonly script: ScriptName;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** A command that the server refuses meanwhile. */
  readonly denied?: string | undefined;
}

export type Step =
  | ScriptCall
  /** Somebody else's command. */
  | { readonly kind: 'command'; readonly words: readonly string[] }
  | { readonly kind: 'pass'; readonly ms: number }
  /** A client begins to listen to its grants, or stops it. */
  | { readonly kind: 'listen'; readonly client: string };

/** What came before, which random calls take up. */
export interface Past {
  readonly nowMs: number;
  readonly hasSharded: boolean;
  readonly calls: readonly ScriptCall[];
  /** By owner, as told by a join. */
  readonly tickets: ReadonlyMap<string, string>;
  /** Who is in the lock or in line. */
  ownersOf(lock: LockKeys): string[];
  /** When something is to end, in milliseconds since 1970. */
  ends(): number[];
  nextNonce(): number;
}

const READ_WRITE = String(2 ** 31);
/** One of each kind, since the kinds refuse each other's; with a hash tag, and beyond ASCII. */
const LOCK = new LockKeys('löck');
const SEMAPHORE = new LockKeys('{s}emaphore');
const READ_WRITE_LOCK = new LockKeys('read\u{1f512}write');
const LOCKS = [LOCK, SEMAPHORE, READ_WRITE_LOCK];

/** Of those with a ticket in common the order is that of bytes: U+FF41 stands before U+1F512, and behind it in UTF-16. */
const OWNERS = [
  'a:1',
  'a:2',
  'b-0123456789ab:1',
  'b-0123456789ab:2',
  'b-0123456789ab:-3',
  '\uff41:1',
  '\u{1f512}:1',
];
export const CLIENTS: readonly string[] = [...new Set(OWNERS.map(clientOf))];

/** All keys that a script may write. */
export const ALL_KEYS: readonly string[] = LOCKS.flatMap(keysOf);

/** On which channels something may be published. */
export const UNLOCK_CHANNELS: readonly string[] = LOCKS.map(({ channel }) => channel);
/** And on which classic ones. */
export const WISH_CHANNELS: readonly string[] = CLIENTS.map((id) => `holdfast_wishes:${id}`);
export function grantChannels(client: string): string[] {
  return LOCKS.map(({ grants }) => grants + client);
}

export function randomStep(random: Random, past: Past): Step {
  const recent = past.calls.slice(-20);
  return oneOf<Step>(random, [
    [70, () => randomCall(new Draw(random, past))],
    [8, () => (recent.length > 0 ? random.pick(recent) : pass(random, past))],
    [14, () => pass(random, past)],
    [5, () => ({ kind: 'command', words: foreignCommand(random, past) })],
    [3, () => ({ kind: 'listen', client: random.pick(CLIENTS) })],
  ]);
}

function randomCall(draw: Draw): ScriptCall {
  const { random } = draw;
  // Most depends on who waits.
  const waiting = random.chance(0.4) && WAITING;
  const script = random.pick(waiting || NAMES);
  const [keys, args] = CALLS[script](draw);
  const words = scripts[script].source.match(/(?<=')[A-Z]{3,}(?=')/g) ?? [];
  const commands = [...words, ...args.map(String).filter((arg) => arg.endsWith('PUBLISH'))];
  const denied = random.chance(0.08) ? random.pick(commands) : undefined;
  return {
    ...{ kind: 'call', script, keys, args: args.map(String) },
    ...(denied === 'TIME' ? {} : { denied }),
  };
}

/** Often up to the millisecond in which something ends; and beyond the year 2255, when there are no tokens any more. */
function pass(random: Random, past: Past): Step {
  const { nowMs } = past;
  if (random.chance(0.01)) return { kind: 'pass', ms: 160 * 365 * 86_400_000 };
  const soon = past.ends().filter((endMs) => endMs >= nowMs && endMs < nowMs + 100_000);
  if (soon.length > 0 && random.chance(0.5))
    return { kind: 'pass', ms: random.pick(soon) - nowMs + random.pick([0, 0, 1]) };
  const ms = random.pick([0, 1, 100, 299, 300, 500, 1_000, 1_500, 60_000]);
  return { kind: 'pass', ms: ms + random.pick([0, 0.001, 0.999, 123.456]) };
}

/** What spoils what the scripts rely on: another type, odd contents, no end, no key; and more than one call looks at. */
function foreignCommand(random: Random, { nowMs }: Past): string[] {
  const keys = random.pick(LOCKS);
  const { lock, leases, line, places } = keys;
  const key = random.pick(keysOf(keys));
  const owner = random.pick(OWNERS);
  const count = random.pick([20, 300, 600, 1_100]);
  const many = (of: (owner: string, endsAtMs: number) => string[]): string[] =>
    Array.from({ length: count }, (_, i) =>
      of(`c:${i}`, nowMs - 1_000 + (i % 50 === 49 ? 2_000 : i)),
    ).flat();
  const longPlaces = (owner: string, endsAtMs: number): string[] => [
    owner,
    keys === LOCK ? `1 ${endsAtMs} 0 0 c` : `w1 1 ${endsAtMs} 1000 0 0 c`,
  ];
  const odd = ['', 'x', '7', String(2 ** 53 - 2), String(2 ** 53)];
  return oneOf(random, [
    [6, () => ['DEL', key]],
    [3, () => ['PEXPIRE', key, random.pick(['500', '5000', '0'])]],
    [4, () => ['PERSIST', random.chance(0.5) ? key : lock]],
    [2, () => ['SET', key, random.pick(odd)]],
    [
      2,
      () => [
        'HSET',
        key,
        random.pick(['x', owner]),
        random.pick(['0', '01', '1', '-1', '-2', '-3', '1?', '1~.', '1>', 'x']),
      ],
    ],
    [2, () => ['ZADD', key, random.pick(['1', '-1', '1.5']), owner]],
    [1, () => ['HSET', lock, 'capacity', random.pick(['4', READ_WRITE]), 'used', '3']],
    [1, () => ['HSET', places, owner, random.pick(['', 'x', '1 2 3', 'w1 2 3'])]],
    [0.5, () => ['ZADD', line, ...many((each, endsAtMs) => [String(endsAtMs), each])]],
    [0.5, () => ['HSET', places, ...many(longPlaces)]],
    [0.5, () => ['ZADD', leases, ...many((each, endsAtMs) => [String(endsAtMs), each])]],
    [0.5, () => ['HSET', lock, ...many((each) => [each, '1'])]],
  ]);
}

/** What the arguments of a call are drawn from. */
class Draw {
  readonly random: Random;
  readonly past: Past;

  constructor(random: Random, past: Past) {
    this.random = random;
    this.past = past;
  }

  /** Mostly one of this kind. */
  lock(kind: LockKeys): LockKeys {
    return this.random.chance(0.93) ? kind : this.random.pick(LOCKS);
  }

  weightedLock(): LockKeys {
    return this.lock(this.random.pick([SEMAPHORE, READ_WRITE_LOCK]));
  }

  owner(lock: LockKeys): string {
    const known = this.random.chance(0.5) ? this.past.ownersOf(lock) : [];
    return this.random.pick(known.length > 0 ? known : OWNERS);
  }

  ownerOrNobody(lock: LockKeys): string {
    return this.random.chance(0.3) ? '' : this.owner(lock);
  }

  /** The counter's key, of a fenced lock. */
  counter(lock: LockKeys): string[] {
    return this.random.chance(0.5) ? [lock.counter(false)] : [];
  }

  word(words: string): string {
    return this.random.pick(words.split(' '));
  }

  flag(): string {
    return this.word('0 1');
  }

  publish(): string {
    return this.past.hasSharded ? this.word('PUBLISH SPUBLISH') : 'PUBLISH';
  }

  /**
   * What no client sends comes seldom. (Clients take leases up to 2^53 - 1: with the time of day on top of that, numbers of JavaScript are wrong by a
   * millisecond.)
   */
  leaseMs(): string {
    if (this.random.chance(0.04)) return this.word('0 -1 -5000');
    return this.word(`1 300 900 1000 2500 2500 60000 60001 ${2 ** 31} ${2 ** 42} ${2 ** 52 + 1}`);
  }

  /** 0 has a meaning of its own. */
  leaseMsOrNone(): string {
    return this.random.chance(0.25) ? '0' : this.leaseMs();
  }

  weight(lock: LockKeys): string {
    const isWriter = lock === READ_WRITE_LOCK && this.random.chance(0.4);
    return isWriter ? READ_WRITE : this.word('1 1 1 2 4 5');
  }

  declared(lock: LockKeys): string {
    if (this.random.chance(0.05)) return this.word(`3 5 ${READ_WRITE}`);
    return lock === READ_WRITE_LOCK ? READ_WRITE : '4';
  }

  ticket(owner: string): string {
    return this.word(`0 0 0 7 ${this.past.tickets.get(owner) ?? '0'}`);
  }

  token(): string {
    const nowUs = this.past.nowMs * 1_000;
    return this.word(`1 7 ${nowUs} ${nowUs + 5_000_000} ${2 ** 53 - 1} ${2 ** 53}`);
  }

  some<T>(of: () => T): T[] {
    return Array.from({ length: this.random.whole(1, 4) }, of);
  }
}

type Arguments = readonly [keys: readonly string[], args: readonly (string | number)[]];

const CALLS: Readonly<Record<ScriptName, (draw: Draw) => Arguments>> = {
  acquire(draw) {
    const keys = draw.lock(LOCK);
    const counter = draw.counter(keys);
    const args = [draw.owner(keys), draw.leaseMs()];
    if (counter.length > 0) args.push(draw.leaseMsOrNone());
    else if (draw.random.chance(0.4))
      args.push('0', draw.leaseMs(), draw.flag(), keys.channel, 'NUMSUB');
    return [[keys.lock, ...counter], args];
  },

  confirm(draw) {
    const keys = draw.lock(LOCK);
    const channels = [keys.channel, draw.publish(), keys.grants, draw.publish()];
    return [
      [keys.lock, keys.forced, keys.line, keys.places],
      [draw.owner(keys), draw.leaseMs(), ...channels, draw.flag()],
    ];
  },

  forceUnlock(draw) {
    const { lock, forced, channel } = draw.lock(LOCK);
    return [
      [lock, forced],
      [channel, draw.publish(), draw.leaseMs()],
    ];
  },

  gather(draw) {
    const parts = draw.some(() => {
      const lock = draw.lock(LOCK);
      const kind = draw.word('a o f k r w');
      const more: Record<string, string[]> = {
        o: [draw.leaseMs()],
        f: [draw.leaseMs(), draw.leaseMsOrNone()],
        k: [draw.leaseMs(), draw.leaseMs(), draw.flag()],
      };
      const own = more[kind] ?? [];
      const keys = kind === 'f' ? [lock.lock, lock.counter(false)] : [lock.lock];
      return { kind, keys, args: [draw.owner(lock), ...own] };
    });
    const kinds = parts.map(({ kind }) => kind).join('');
    return [
      parts.flatMap(({ keys }) => keys),
      [kinds, draw.leaseMs(), draw.publish(), ...parts.flatMap(({ args }) => args)],
    ];
  },

  handOver(draw) {
    const keys = draw.lock(LOCK);
    const channels = [keys.channel, draw.publish(), keys.grants, draw.publish()];
    return [
      [keys.lock, keys.line, keys.places, ...draw.counter(keys)],
      [draw.ownerOrNobody(keys), ...channels, draw.flag()],
    ];
  },

  inspect(draw) {
    const keys = draw.lock(draw.random.pick([LOCK, SEMAPHORE, READ_WRITE_LOCK]));
    const { lock, leases, line, places, channel } = keys;
    return [
      [lock, leases, line, places, keys.counter(false)],
      [channel, 'NUMSUB', draw.word('1 2 1000')],
    ];
  },

  join(draw) {
    const keys = draw.lock(LOCK);
    const owner = draw.owner(keys);
    const counter = draw.counter(keys);
    const isFenced = counter.length > 0;
    return [
      [keys.lock, keys.line, keys.places, ...counter],
      [
        ...[owner, draw.leaseMs(), draw.leaseMsOrNone(), draw.past.nextNonce()],
        ...[draw.ticket(owner), draw.word(isFenced ? '2 3' : '0 1'), draw.flag(), clientOf(owner)],
        ...(isFenced ? [draw.leaseMsOrNone()] : []),
      ],
    ];
  },

  look: (draw) => [[draw.lock(LOCK).lock], []],

  raiseToken: (draw) => [[draw.lock(LOCK).counter(false)], [draw.token(), draw.leaseMsOrNone()]],

  reenter(draw) {
    const keys = draw.lock(LOCK);
    const args = [draw.owner(keys), draw.word('1 2 3 -3'), draw.leaseMsOrNone()];
    return [[keys.lock, keys.forced], args];
  },

  release(draw) {
    const keys = draw.lock(LOCK);
    const publish = draw.random.chance(0.2) ? '' : draw.publish();
    return [[keys.lock], [draw.owner(keys), keys.channel, publish]];
  },

  releaseTo(draw) {
    const keys = draw.lock(LOCK);
    const counter = draw.counter(keys);
    const args = [draw.owner(keys), draw.owner(keys), draw.leaseMs()];
    if (counter.length > 0) args.push(draw.leaseMsOrNone());
    return [[keys.lock, keys.forced, ...counter], args];
  },

  remember: (draw) => [draw.some(() => draw.lock(LOCK).longestLease), [draw.leaseMs()]],

  renewPlaces(draw) {
    const all = draw.some(() => draw.lock(LOCK));
    return [
      all.flatMap(({ lock, line, places }) => [lock, line, places]),
      [
        ...[draw.leaseMs(), draw.past.nextNonce()],
        ...all.flatMap((keys) => [draw.owner(keys), draw.flag()]),
      ],
    ];
  },

  renew(draw) {
    const all = draw.some(() => draw.lock(LOCK));
    return [
      all.flatMap(({ lock, forced }) => [lock, forced]),
      [draw.leaseMsOrNone(), ...all.map((keys) => draw.owner(keys))],
    ];
  },

  vote(draw) {
    const keys = draw.lock(LOCK);
    return [
      [keys.lock, keys.longestLease, ...draw.counter(keys)],
      [draw.owner(keys), draw.leaseMs()],
    ];
  },

  waiters(draw) {
    const { lock, line, places } = draw.lock(LOCK);
    return [[lock, line, places], []];
  },

  weightedForce(draw) {
    if (draw.word('all one') === 'one') {
      const keys = draw.weightedLock();
      const only = [1, Number.MAX_SAFE_INTEGER, draw.leaseMs(), draw.owner(keys)];
      return [[keys.lock, keys.leases, keys.line, keys.forcedOwners], only];
    }
    const { lock, leases, line, forcedOwners } = draw.lock(READ_WRITE_LOCK);
    const least = draw.word(`1 1 ${READ_WRITE}`);
    const most = draw.word(`1 ${READ_WRITE}`);
    return [
      [lock, leases, line, forcedOwners],
      [least, most, draw.leaseMs()],
    ];
  },

  weightedAdopt(draw) {
    const keys = draw.weightedLock();
    return [
      [keys.lock, keys.leases, keys.forcedOwners],
      [draw.owner(keys), draw.owner(keys), draw.leaseMs()],
    ];
  },

  weightedHandOver(draw) {
    const keys = draw.weightedLock();
    return [
      [keys.lock, keys.leases, keys.line, keys.places],
      [
        ...[draw.ownerOrNobody(keys), draw.word('0 0 0 1 2 -1 -1'), draw.leaseMsOrNone()],
        ...[draw.word('0 0 1 2 3'), keys.grants, draw.publish(), draw.flag()],
      ],
    ];
  },

  weightedJoin(draw) {
    const keys = draw.weightedLock();
    const owner = draw.owner(keys);
    return [
      [keys.lock, keys.leases, keys.line, keys.places, keys.permits],
      [
        ...[owner, draw.weight(keys), draw.declared(keys), draw.leaseMs(), draw.leaseMsOrNone()],
        ...[draw.past.nextNonce(), draw.ticket(owner), draw.flag(), draw.flag()],
        ...[clientOf(owner), draw.leaseMs()],
      ],
    ];
  },

  weightedLast(draw) {
    const { lock, leases } = draw.lock(READ_WRITE_LOCK);
    return [[lock, leases], []];
  },

  weightedLook(draw) {
    const keys = draw.weightedLock();
    const { lock, leases, line, places, permits } = keys;
    return [[lock, leases, line, places, permits], [draw.declared(keys)]];
  },

  weightedRenewPlaces(draw) {
    const all = draw.some(() => draw.weightedLock());
    return [
      all.flatMap(({ lock, leases, line, places }) => [lock, leases, line, places]),
      [
        ...[draw.leaseMs(), draw.past.nextNonce()],
        ...all.flatMap((keys) => [draw.owner(keys), draw.flag()]),
      ],
    ];
  },

  weightedRenew(draw) {
    const all = draw.some(() => draw.weightedLock());
    return [
      all.flatMap(({ lock, leases, forcedOwners }) => [lock, leases, forcedOwners]),
      [draw.leaseMsOrNone(), ...all.map((keys) => draw.owner(keys))],
    ];
  },

  weightedSetCapacity(draw) {
    const { lock, permits } = draw.lock(SEMAPHORE);
    return [
      [lock, permits],
      [draw.word('1 2 4 6'), draw.leaseMs()],
    ];
  },
};

const NAMES = Object.keys(CALLS) as ScriptName[];
const WAITING = ['join', 'handOver', 'weightedJoin', 'weightedHandOver'] as const;

function keysOf(keys: LockKeys): string[] {
  const { lock, forced, line, places, leases, permits, forcedOwners, longestLease } = keys;
  return [
    ...[lock, forced, line, places, leases, permits, forcedOwners, longestLease],
    keys.counter(false),
  ];
}

/** What the channels of a client end with, here its id. */
function clientOf(owner: string): string {
  return owner.split(':')[0]!;
}

function oneOf<T>(random: Random, choices: readonly (readonly [number, () => T])[]): T {
  return random.weighted(choices.map(([weight, make]) => ({ weight, make }))).make();
}
