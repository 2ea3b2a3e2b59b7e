// Random calls of the weighted lock's scripts, in virtual time, compared with a model: the same answers, the same holders, the same line;
// with commands that come twice or late, deleted keys, and a capacity that changes. HOLDFAST_MODEL_STEPS sets how many.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ScriptServer, type ScriptName } from '../../support/script-server.js';

const STEPS = Number(process.env['HOLDFAST_MODEL_STEPS'] ?? 20_000);
const STEPS_OF_ONE_RUN = 60;

const KEYS = ['lock', 'leases', 'line', 'places', 'permits'] as const;
/** Far ahead of the server's own time, so that no key ends by itself. */
const START_MS = 4_000_000_000_000;

const owner = fc.constantFrom('a:1', 'a:2', 'a:3', 'b:1', 'b:2', 'b:3', 'c:1', 'c:2');
const owners = fc.array(owner, { minLength: 1, maxLength: 4 });
const leaseMs = fc.constantFrom(300, 900, 1_000, 2_500);
const capacity = fc.constantFrom(1, 2, 3, 3, 3, 5);
const weight = fc.constantFrom(1, 1, 1, 2, 3, 5);

const step = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant('join' as const),
      owner,
      weight,
      declared: fc.constantFrom(3, 3, 3, 3, 3, 3, 3, 2, 5),
      leaseMs,
      mayWait: fc.constantFrom(true, true, true, false),
      hasTicket: fc.boolean(),
      isFixed: fc.boolean(),
      isListening: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('hand over' as const),
      owner: fc.oneof(owner, fc.constant('')),
      target: fc.constantFrom(0, 0, 0, 0, -1, 1, 2),
      leaseMs: fc.constantFrom(0, 300, 1_000, 4_000),
      shortens: fc.constantFrom(0, 0, 1, 1, 2, 3),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('renew' as const), owners, leaseMs }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('renew places' as const),
      owners,
      leaseMs,
      isListening: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('set' as const), capacity }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('delete' as const), key: fc.constantFrom(...KEYS) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('listen' as const),
      client: fc.constantFrom('a', 'b', 'c'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 1, 100, 299, 300, 500, 900),
    }),
  },
  /** An earlier command arrives once more. */
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('again' as const), back: fc.nat(12) }) },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Call {
  readonly script: ScriptName;
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
  /** The effects and answers of the model. */
  readonly run: (model: WeightedModel) => unknown;
}

it(`${STEPS} random calls get the answers of the model, and leave its holders and its line`, () => {
  let count = 0;
  const someSteps = {
    minLength: STEPS_OF_ONE_RUN,
    maxLength: STEPS_OF_ONE_RUN,
    size: 'max',
  } as const;
  fc.assert(
    fc.property(fc.array(step, someSteps), (steps) => {
      count += steps.length;
      play(steps);
    }),
    { numRuns: Math.ceil(STEPS / STEPS_OF_ONE_RUN), endOnFailure: false },
  );
  expect(count).toBeGreaterThanOrEqual(STEPS);
}, 1_200_000);

it('a join that arrives once more, after its place was renewed and the line deleted, shortens no key of the line', () => {
  const join = {
    kind: 'join',
    declared: 3,
    leaseMs: 2_500,
    mayWait: true,
    hasTicket: false,
    isFixed: false,
    isListening: true,
  } as const;
  play([
    { ...join, owner: 'a:1', weight: 3 },
    { ...join, owner: 'a:2', weight: 1 },
    { kind: 'renew places', owners: ['a:2'], leaseMs: 2_500, isListening: true },
    { kind: 'delete', key: 'line' },
    { kind: 'again', back: 1 },
  ]);
});

/** Plays the steps on the model and on a server, and compares the results. */
function play(steps: readonly Step[]): void {
  const model = new WeightedModel(START_MS);
  const server = new ScriptServer();
  const sent: Call[] = [];
  let nonce = 0;
  for (const each of steps) {
    if (each.kind === 'wait') model.nowMs += each.ms;
    else if (each.kind === 'delete') {
      model.deleteKey(each.key);
      server.command('DEL', each.key);
    } else if (each.kind === 'listen') {
      if (!model.listening.delete(each.client)) model.listening.add(each.client);
    } else {
      const call = each.kind === 'again' ? sent.at(-1 - each.back) : callOf(each, model, ++nonce);
      if (!call) continue;
      sent.push(call);
      const { script, keys, args } = call;
      const reply = server.run(script, keys, args, (words) => inVirtualTime(words, model, server));
      const { state } = server;
      const found = { step: each, reply, ...readable(state) };
      const expected = { step: each, reply: call.run(model), ...stateOf(model) };
      // Equal texts need no expect(), which takes its time.
      if (JSON.stringify(found) !== JSON.stringify(expected)) expect(found).toEqual(expected);
      expectLasting(state, server.nowMs, endsOf(model));
    }
  }
}

/** A script's queries of the server's clock and subscribers are answered with the model's. */
function inVirtualTime(
  [command, key = '', channel = '']: readonly string[],
  { nowMs, listening }: WeightedModel,
  server: ScriptServer,
): ReturnType<ScriptServer['command']> | undefined {
  if (command === 'TIME')
    return [String(Math.floor(nowMs / 1_000)), String((nowMs % 1_000) * 1_000)];
  if (command === 'PUBSUB') return [channel, Number(listening.has(channel.replace('grants:', '')))];
  const ttlMs = command === 'PTTL' && Number(server.command('PTTL', key));
  if (ttlMs === false || ttlMs < 0) return undefined; // -1 is no end
  return Math.max(server.nowMs + ttlMs - nowMs, 0);
}

function callOf(
  each: Exclude<Step, { kind: 'again' | 'wait' | 'delete' | 'listen' }>,
  model: WeightedModel,
  nonce: number,
): Call {
  const [lock, leases, line, places, permits] = KEYS;
  switch (each.kind) {
    case 'join': {
      const { owner: who, isFixed, isListening, mayWait } = each;
      const ticket = each.hasTicket ? (model.tickets.get(who) ?? lastTickets.get(who) ?? 0) : 0;
      const channelSuffix = who.split(':')[0]!;
      const placeLeaseMs = mayWait ? 1_000 : 0;
      const call = { ...each, placeLeaseMs, nonce, ticket, channelSuffix };
      const flags = [Number(isFixed), Number(isListening)];
      return {
        script: 'weightedJoin',
        keys: [lock, leases, line, places, permits],
        args: [
          ...[who, each.weight, each.declared, each.leaseMs, placeLeaseMs, nonce, ticket],
          ...[...flags, channelSuffix, 1_000_000],
        ],
        run: (now) => {
          const reply = now.join(call);
          const given = now.tickets.get(who);
          if (given !== undefined) lastTickets.set(who, given);
          return reply;
        },
      };
    }
    case 'hand over': {
      const { owner: who, target, shortens } = each;
      return {
        script: 'weightedHandOver',
        keys: [lock, leases, line, places],
        args: [who, target, each.leaseMs, shortens, 'grants:', 'PUBLISH', 1],
        run: (now) => now.handOver(each),
      };
    }
    case 'renew':
      return {
        script: 'weightedRenew',
        keys: each.owners.flatMap(() => [lock, leases, 'forced owners']),
        args: [each.leaseMs, ...each.owners],
        run: (now) => now.renew(each.owners, each.leaseMs),
      };
    case 'renew places':
      return {
        script: 'weightedRenewPlaces',
        keys: each.owners.flatMap(() => [lock, leases, line, places]),
        args: [
          each.leaseMs,
          nonce,
          ...each.owners.flatMap((who) => [who, Number(each.isListening)]),
        ],
        run: (now) => now.renewPlaces(each.owners, each.leaseMs, nonce, each.isListening),
      };
    case 'set':
      return {
        script: 'weightedSetCapacity',
        keys: [lock, permits],
        args: [each.capacity, 1_000_000],
        run: (now) => now.setCapacity(each.capacity),
      };
  }
}

/** The last ticket of each owner, as its client remembers it. */
const lastTickets = new Map<string, number>();

/** The earliest ends of the keys of the holders, and of the line. */
interface Ends {
  readonly holders: number;
  readonly line: number;
}

function stateOf(model: WeightedModel): object {
  const placeOf = (place: ModelPlace): string =>
    [
      `w${String(place.weight)} ${String(place.nonce)} ${String(place.expiresAtMs)} ${String(place.leaseMs)}`,
      ...[Number(place.isFixed), Number(place.isListening), place.channelSuffix],
    ].join(' ');
  return {
    capacity: model.capacity ?? null,
    used: model.used,
    set: model.set ?? null,
    holders: Object.fromEntries(
      [...model.holders].map(([who, { weight: held, wasInLine, mark, endsAtMs }]) => [
        who,
        `${String(held)}${wasInLine ? '~' : ''}${mark} until ${String(endsAtMs)}`,
      ]),
    ),
    line: model.line.map((who) => [who, String(model.tickets.get(who))]),
    places: Object.fromEntries([...model.places].map(([who, place]) => [who, placeOf(place)])),
  };
}

/** The same as the server has it. */
function readable(state: ScriptServer['state']): object {
  const content = <T>(key: (typeof KEYS)[number], none: T): T => (state[key]?.[1] as T) ?? none;
  const { capacity, used = '0', ...weights } = content<Record<string, string>>('lock', {});
  const leases = content<[string, string][]>('leases', []);
  const endOf = Object.fromEntries(leases);
  const hasHolders = capacity !== undefined && leases.length > 0;
  const holders = Object.entries(hasHolders ? weights : {});
  const set = content<string | null>('permits', null);
  return {
    capacity: capacity === undefined ? null : Number(capacity),
    used: hasHolders ? Number(used) : 0,
    set: set === null ? null : Number(set),
    holders: Object.fromEntries(
      holders.map(([who, held]) => [who, `${held} until ${endOf[who] ?? 'never'}`]),
    ),
    line: content('line', []),
    places: content('places', {}),
  };
}

function endsOf(model: WeightedModel): Ends {
  const holders = [...model.holders.values()].map(({ endsAtMs }) => endsAtMs);
  const places = model.line.flatMap((who) => model.places.get(who)?.expiresAtMs ?? []);
  return { holders: Math.max(0, ...holders), line: Math.max(0, ...places) };
}

/** No key ends before the last of its leases, and each has an end. */
function expectLasting(state: ScriptServer['state'], nowMs: number, { holders, line }: Ends): void {
  const least = { lock: holders, leases: holders, line, places: line };
  for (const [key, leastMs] of Object.entries(least)) {
    const ttlMs = state[key]?.[0] ?? (leastMs > 0 ? -2 : Infinity);
    if (ttlMs < 0 || nowMs + ttlMs < leastMs)
      expect({ key, endsAtMs: nowMs + ttlMs }).toBe(leastMs);
  }
}

// The specified behaviour of a weighted lock, in plain code.

interface Holder {
  weight: number;
  /** Whether its number is from an earlier place in line. */
  readonly wasInLine: boolean;
  /** `?`: its hand-over is to be confirmed; `.`: its owner has released it; `>`: its owner was exported. */
  mark: '' | '?' | '.' | '>';
  endsAtMs: number;
}

interface ModelPlace {
  readonly weight: number;
  nonce: number;
  expiresAtMs: number;
  leaseMs: number;
  readonly isFixed: boolean;
  isListening: boolean;
  readonly channelSuffix: string;
}

interface JoinCall {
  readonly owner: string;
  readonly weight: number;
  readonly declared: number;
  readonly leaseMs: number;
  /** 0: it does not join the line. */
  readonly placeLeaseMs: number;
  readonly nonce: number;
  readonly ticket: number;
  readonly isFixed: boolean;
  readonly isListening: boolean;
  readonly channelSuffix: string;
}

interface HandOverCall {
  readonly owner: string;
  readonly target: number;
  readonly leaseMs: number;
  /** 1: a confirmation; 2: a release that keeps the permits taken for a while; 3: an export. */
  readonly shortens: number;
}

type ModelKey = 'lock' | 'leases' | 'line' | 'places' | 'permits';

/** To be queried now. */
const NOW = -2;

class WeightedModel {
  nowMs: number;
  /** The channels with a listener. */
  readonly listening = new Set<string>();
  capacity: number | undefined;
  set: number | undefined;
  readonly holders = new Map<string, Holder>();
  readonly tickets = new Map<string, number>();
  readonly places = new Map<string, ModelPlace>();
  /** The leases were deleted, and the lock has not noticed. */
  #isTorn = false;

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  get used(): number {
    return [...this.holders.values()].reduce((sum, { weight }) => sum + weight, 0);
  }

  /** Owners, in the order of the line. */
  get line(): string[] {
    const byTicket = [...this.tickets].sort(
      ([a, one], [b, other]) => one - other || (a < b ? -1 : 1),
    );
    return byTicket.map(([owner]) => owner);
  }

  deleteKey(key: ModelKey): void {
    if (key === 'permits') this.set = undefined;
    if (key === 'line') this.tickets.clear();
    if (key === 'places') this.places.clear();
    if (key === 'leases' && this.holders.size > 0) this.#isTorn = true;
    if (key === 'lock') {
      this.capacity = undefined;
      this.#isTorn = false;
    }
    if (key === 'lock' || key === 'leases') this.holders.clear();
  }

  setCapacity(capacity: number): number {
    this.set = capacity;
    if (this.capacity !== undefined) this.capacity = capacity;
    return 1;
  }

  join(call: JoinCall): unknown {
    const { owner, weight, declared } = call;
    if (this.capacity !== undefined && this.capacity !== declared && this.set === undefined)
      return ['declared', this.capacity];
    const capacity = this.capacity ?? this.set ?? declared;
    if (weight > capacity) return ['exceeded', capacity];
    const own = this.holders.get(owner);
    if (own && own.endsAtMs > this.nowMs) {
      if (own.mark === '.') return [owner, own.endsAtMs - this.nowMs, '0', -2];
      own.endsAtMs = Math.max(own.endsAtMs, this.nowMs + call.leaseMs);
      return own.mark === '?' ? 2 : 1;
    }
    const [first] = this.line;
    const firstTicket = this.tickets.get(first ?? '') ?? 0;
    const isFirst =
      first === undefined || first === owner || (call.ticket > 0 && call.ticket < firstTicket);
    const hasLapsed = [...this.holders.values()].some(({ endsAtMs }) => endsAtMs <= this.nowMs);
    if (isFirst && !hasLapsed && this.used + weight <= capacity) {
      this.#mend(capacity);
      this.#admit(owner, weight, call.ticket > 0, '', this.nowMs + call.leaseMs);
      if (first !== undefined) this.#leave(owner);
      return 1;
    }
    const inTheWay = this.#byEnd[0]?.[0] ?? first ?? owner;
    const mark = this.#byEnd[0]?.[1].mark;
    const state = mark === '.' ? [-2] : mark === '>' ? [-3] : [];
    const checkInMs = this.#checkInMs(capacity, isFirst ? undefined : first);
    if (call.placeLeaseMs === 0) {
      if (this.capacity === undefined) this.#mend(capacity); // the remaining waiters can be let in again
      return [inTheWay, checkInMs, '0', ...state];
    }
    const ticket = this.tickets.get(owner) ?? (call.ticket > 0 ? call.ticket : this.#nextTicket());
    this.tickets.set(owner, ticket);
    this.#mend(capacity);
    const place = this.places.get(owner);
    if (!place || place.nonce <= call.nonce) {
      const { nonce, placeLeaseMs, isFixed, isListening, channelSuffix } = call;
      const expiresAtMs = this.nowMs + placeLeaseMs;
      const times = { nonce, expiresAtMs, leaseMs: placeLeaseMs };
      this.places.set(owner, { weight, ...times, isFixed, isListening, channelSuffix });
    }
    return [inTheWay, checkInMs, String(ticket), ...state];
  }

  handOver({ owner, target, leaseMs, shortens }: HandOverCall): unknown {
    if (this.capacity === undefined) {
      if (owner !== '' && target === 0) this.#leave(owner);
      return [0, NOW, []];
    }
    // Nothing may be left of a lock without holders and without a line.
    let hasChanged = this.#isTorn || (this.holders.size === 0 && this.tickets.size === 0);
    for (const [lapsed, { endsAtMs }] of [...this.holders]) {
      if (endsAtMs > this.nowMs) continue;
      this.holders.delete(lapsed);
      hasChanged = true;
    }
    const holder = this.holders.get(owner);
    const own = holder?.mark === '.' && shortens !== 2 ? undefined : holder;
    const wasInLine = this.tickets.size > 0;
    if (target === 0) {
      if (own) this.holders.delete(owner);
      if (owner !== '' && (wasInLine || !own)) {
        this.#leave(owner);
        hasChanged = true;
      }
    } else if (own) {
      this.#keep(own, target, leaseMs, shortens);
    }
    hasChanged ||= own !== undefined;
    const given: string[] = [];
    let waiting: ModelPlace | undefined;
    for (const candidate of this.line) {
      const place = this.places.get(candidate);
      if (place && !this.#isDropped(place)) {
        if (this.used + place.weight > this.capacity) {
          waiting = place;
          break;
        }
        this.#admit(candidate, place.weight, true, place.isFixed ? '?' : '', place.expiresAtMs);
        given.push(`${String(place.nonce)} ${candidate}`);
      }
      this.#leave(candidate);
      hasChanged = true;
    }
    if (hasChanged) this.#isTorn = false;
    const isEmpty = this.holders.size === 0 && !waiting;
    if (isEmpty && hasChanged) this.capacity = undefined;
    const ends = this.#byEnd.map(([, { endsAtMs }]) => endsAtMs);
    const checkInMs = waiting
      ? Math.max(Math.min(...ends, waiting.expiresAtMs) - this.nowMs, 0)
      : given.length > 0
        ? -1
        : NOW;
    return [own ? 1 : 0, checkInMs, given];
  }

  renew(owners: readonly string[], leaseMs: number): unknown {
    return owners.map((owner) => {
      const holder = this.holders.get(owner);
      if (!holder || holder.endsAtMs <= this.nowMs || holder.mark === '.') return 'deleted';
      if (leaseMs > 0) {
        holder.endsAtMs = Math.max(holder.endsAtMs, this.nowMs + leaseMs);
        holder.mark = '';
      }
      return 'kept';
    });
  }

  renewPlaces(
    owners: readonly string[],
    placeLeaseMs: number,
    nonce: number,
    isListening: boolean,
  ): unknown {
    const expiresAtMs = this.nowMs + placeLeaseMs;
    const answers = owners.map((owner) => {
      const holder = this.holders.get(owner);
      if (this.capacity === undefined) return 'gone';
      if (holder && holder.endsAtMs > this.nowMs && holder.mark !== '.') {
        holder.endsAtMs = Math.max(holder.endsAtMs, expiresAtMs);
        return 'yours';
      }
      const place = this.places.get(owner);
      if (!place || place.expiresAtMs <= this.nowMs || !this.tickets.has(owner)) return 'gone';
      if (place.nonce <= nonce)
        Object.assign(place, { nonce, expiresAtMs, leaseMs: placeLeaseMs, isListening });
      return 'in line';
    });
    const { capacity } = this;
    const look = capacity === undefined ? NOW : this.#checkInMs(capacity, this.line[0]);
    return answers.map((answer) => (answer === 'in line' ? look : answer));
  }

  #isDropped({ expiresAtMs, weight, isListening, channelSuffix }: ModelPlace): boolean {
    const isDeaf = isListening && !this.listening.has(channelSuffix);
    return expiresAtMs <= this.nowMs || weight > (this.capacity ?? 0) || isDeaf;
  }

  #keep(own: Holder, target: number, leaseMs: number, shortens: number): void {
    if (target > 0) own.weight = Math.min(own.weight, target);
    const endsAtMs = this.nowMs + leaseMs;
    const mayShorten = own.mark === '?' && shortens === 1;
    if (leaseMs > 0 && shortens === 2) own.endsAtMs = Math.min(own.endsAtMs, endsAtMs);
    else if (leaseMs > 0) own.endsAtMs = mayShorten ? endsAtMs : Math.max(own.endsAtMs, endsAtMs);
    own.mark = shortens === 2 ? '.' : shortens === 3 ? '>' : '';
  }

  /** The first rule: never more than there are. */
  #admit(
    owner: string,
    weight: number,
    wasInLine: boolean,
    mark: Holder['mark'],
    endsAtMs: number,
  ): void {
    this.holders.delete(owner);
    if (this.used + weight > (this.capacity ?? 0)) throw new Error('the model gives too many');
    this.holders.set(owner, { weight, wasInLine, mark, endsAtMs });
  }

  #leave(owner: string): void {
    this.tickets.delete(owner);
    this.places.delete(owner);
  }

  #mend(capacity: number): void {
    this.capacity = capacity;
    this.#isTorn = false;
  }

  #nextTicket(): number {
    return Math.max(this.nowMs * 1_000, ...[...this.tickets.values()].map((ticket) => ticket + 1));
  }

  get #byEnd(): [string, Holder][] {
    return [...this.holders].sort(
      ([a, one], [b, other]) => one.endsAtMs - other.endsAtMs || (a < b ? -1 : 1),
    );
  }

  /** When a waiter in line has to query the lock. `first`: the first place, if it is not the caller's. */
  #checkInMs(capacity: number, first: string | undefined): number {
    let endMs = this.#byEnd[0]?.[1].endsAtMs ?? Infinity;
    if (first !== undefined) {
      const place = this.places.get(first);
      if (!place || this.used + place.weight <= capacity || place.weight > capacity) return NOW;
      endMs = Math.min(endMs, place.expiresAtMs);
    }
    return endMs > this.nowMs && endMs < Infinity ? endMs - this.nowMs : NOW;
  }
}
