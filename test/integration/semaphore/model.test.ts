// Random calls of the weighted lock's scripts, in virtual time, against a model: the same answers, the same holders, the same line;
// with commands that come twice or late, keys that are deleted, and a capacity that changes. HOLDFAST_MODEL_STEPS says how many.
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import {
  LISTENING_KEY,
  loadVirtual,
  NOW_KEY,
  WeightedModel,
  type ModelPlace,
  type WeightedScript,
} from '../../support/weighted-model.js';

const STEPS = Number(process.env['HOLDFAST_MODEL_STEPS'] ?? 20_000);
const STEPS_OF_ONE_RUN = 60;

const KEYS = ['lock', 'leases', 'line', 'places', 'permits'] as const;
/** Far ahead of the server's clock, so that no key ends by itself. */
const START_MS = 4_000_000_000_000;

const STATE = `
local function pairsOf(key) return redis.call('HGETALL', key) end
local ends = {}
for i = 1, 4 do ends[i] = redis.call('PEXPIRETIME', KEYS[i]) end
return { pairsOf(KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'), redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'),
  pairsOf(KEYS[4]), redis.call('GET', KEYS[5]), ends }`;

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
      isConfirmation: fc.boolean(),
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
  /** A command that was sent before comes once more. */
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('again' as const), back: fc.nat(12) }) },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Call {
  readonly script: WeightedScript;
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
  /** What the model does and answers. */
  readonly run: (model: WeightedModel) => unknown;
}

let server: RedisServer;
let redis: Redis;
let hashes: Record<WeightedScript, string>;
let stateHash: string;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  hashes = await loadVirtual(redis);
  stateHash = (await redis.script('LOAD', STATE)) as string;
}, 60_000);

afterAll(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

it(`${String(STEPS)} random calls are answered, and leave the holders and the line, as the model says`, async ({
  skip,
}) => {
  if (/^redis_version:6/m.test(await redis.info('server')))
    skip('Redis 6.2 does not tell when a key ends');
  let count = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, {
        minLength: STEPS_OF_ONE_RUN,
        maxLength: STEPS_OF_ONE_RUN,
        size: 'max',
      }),
      async (steps) => {
        count += steps.length;
        await play(steps);
      },
    ),
    { numRuns: Math.ceil(STEPS / STEPS_OF_ONE_RUN), endOnFailure: false },
  );
  expect(count).toBeGreaterThanOrEqual(STEPS);
}, 1_200_000);

it('a join that comes once more, after its place was renewed and the line deleted, cuts no key of the line', async ({
  skip,
}) => {
  if (/^redis_version:6/m.test(await redis.info('server')))
    skip('Redis 6.2 does not tell when a key ends');
  const join = {
    kind: 'join',
    declared: 3,
    leaseMs: 2_500,
    mayWait: true,
    hasTicket: false,
    isFixed: false,
    isListening: true,
  } as const;
  await play([
    { ...join, owner: 'a:1', weight: 3 },
    { ...join, owner: 'a:2', weight: 1 },
    { kind: 'renew places', owners: ['a:2'], leaseMs: 2_500, isListening: true },
    { kind: 'delete', key: 'line' },
    { kind: 'again', back: 1 },
  ]);
});

/** Plays the steps on the model at once, and on the server in one pipeline; then compares what came of each. */
async function play(steps: readonly Step[]): Promise<void> {
  const model = new WeightedModel(START_MS);
  const sent: Call[] = [];
  let nonce = 0;
  const pipeline = redis.pipeline();
  const expected: { reply: unknown; state: unknown; step: Step; ends: Ends }[] = [];
  pipeline.flushall().set(NOW_KEY, START_MS);
  for (const each of steps) {
    let reply: unknown;
    if (each.kind === 'wait') {
      model.nowMs += each.ms;
      pipeline.set(NOW_KEY, model.nowMs);
    } else if (each.kind === 'delete') {
      model.deleteKey(each.key);
      pipeline.del(each.key);
    } else if (each.kind === 'listen') {
      const { client } = each;
      if (model.listening.delete(client)) pipeline.srem(LISTENING_KEY, `grants:${client}`);
      else {
        model.listening.add(client);
        pipeline.sadd(LISTENING_KEY, `grants:${client}`);
      }
    } else {
      const call = each.kind === 'again' ? sent.at(-1 - each.back) : callOf(each, model, ++nonce);
      if (!call) continue;
      sent.push(call);
      reply = call.run(model);
      pipeline.evalsha(hashes[call.script], call.keys.length, ...call.keys, ...call.args);
      pipeline.evalsha(stateHash, KEYS.length, ...KEYS);
      expected.push({ reply, state: stateOf(model), step: each, ends: endsOf(model) });
    }
  }
  const replies = (await pipeline.exec())!.map(([error, reply]) => error ?? reply);
  const results = replies.filter((reply) => Array.isArray(reply) && reply.length === 6);
  expect(results).toHaveLength(expected.length);
  let at = -1;
  for (const { reply, state, step: played, ends } of expected) {
    at = replies.findIndex((result, i) => i > at && result === results[0]);
    const found = read(results.shift() as RawState);
    const told = JSON.stringify(played);
    expect({ step: told, reply: replies[at - 1] }).toEqual({ step: told, reply });
    expect({ step: told, ...found.state }).toEqual({ step: told, ...(state as object) });
    expectLasting(found.ends, ends);
  }
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
      const listensAt = who.split(':')[0]!;
      const placeLeaseMs = mayWait ? 1_000 : 0;
      const call = { ...each, placeLeaseMs, nonce, ticket, listensAt };
      const flags = [Number(isFixed), Number(isListening)];
      return {
        script: 'weightedJoin',
        keys: [lock, leases, line, places, permits],
        args: [
          ...[who, each.weight, each.declared, each.leaseMs, placeLeaseMs, nonce, ticket],
          ...[...flags, listensAt, 1_000_000],
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
      const { owner: who, target, isConfirmation } = each;
      return {
        script: 'weightedHandOver',
        keys: [lock, leases, line, places],
        args: [who, target, each.leaseMs, Number(isConfirmation), 'grants:', 'PUBLISH', 1],
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

type RawState = [string[], string[], string[], string[], string | null, number[]];

/** When the keys of the holders, and those of the line, end at the earliest. */
interface Ends {
  readonly holders: number;
  readonly line: number;
}

function stateOf(model: WeightedModel): object {
  const placeOf = (place: ModelPlace): string =>
    [
      `w${String(place.weight)} ${String(place.nonce)} ${String(place.expiresAtMs)} ${String(place.leaseMs)}`,
      ...[Number(place.isFixed), Number(place.isListening), place.listensAt],
    ].join(' ');
  return {
    capacity: model.capacity ?? null,
    used: model.used,
    set: model.set ?? null,
    holders: Object.fromEntries(
      [...model.holders].map(([who, { weight: held, isUnconfirmed, endsAtMs }]) => [
        who,
        `${String(held)}${isUnconfirmed ? '?' : ''} until ${String(endsAtMs)}`,
      ]),
    ),
    line: model.line.map((who) => [who, String(model.tickets.get(who))]),
    places: Object.fromEntries([...model.places].map(([who, place]) => [who, placeOf(place)])),
  };
}

function read([hash, leases, line, places, set, ends]: RawState): {
  state: object;
  ends: number[];
} {
  const { capacity: present, used = '0', ...weights } = objectOf(hash);
  const endOf = objectOf(leases);
  const hasHolders = present !== undefined && leases.length > 0;
  const holders = hasHolders
    ? Object.entries(weights).map(([who, held]) => [who, `${held} until ${endOf[who] ?? 'never'}`])
    : [];
  const inLine = objectOf(line);
  return {
    ends,
    state: {
      capacity: present === undefined ? null : Number(present),
      used: hasHolders ? Number(used) : 0,
      set: set === null ? null : Number(set),
      holders: Object.fromEntries(holders) as object,
      line: Object.entries(inLine),
      places: objectOf(places),
    },
  };
}

function endsOf(model: WeightedModel): Ends {
  const holders = [...model.holders.values()].map(({ endsAtMs }) => endsAtMs);
  const places = model.line.flatMap((who) => model.places.get(who)?.expiresAtMs ?? []);
  return { holders: Math.max(0, ...holders), line: Math.max(0, ...places) };
}

/** No key ends before the last of its leases, and none is without an end. */
function expectLasting(ends: number[], { holders, line }: Ends): void {
  const [lock = 0, leases = 0, ...ofLine] = ends;
  for (const end of ends) expect(end).not.toBe(-1);
  for (const end of [lock, leases]) if (holders > 0) expect(end).toBeGreaterThanOrEqual(holders);
  for (const end of ofLine) if (line > 0) expect(end).toBeGreaterThanOrEqual(line);
}

function objectOf(pairs: readonly string[]): Record<string, string> {
  const entries = pairs.flatMap((key, i) => (i % 2 === 0 ? [[key, pairs[i + 1]!]] : []));
  return Object.fromEntries(entries) as Record<string, string>;
}
