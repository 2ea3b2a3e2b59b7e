// Each script of a weighted lock, for a user who lacks one of its commands, each in turn: it does all of its work or none of it, and
// leaves no key without an end.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import {
  LEASES,
  LOCK,
  prepare,
  SCENARIOS,
  state,
  type Before,
  type Scenario,
  type State,
} from '../../support/weighted-script-scenarios.js';

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

describe.each(SCENARIOS)('$title', (scenario) => {
  const { script, before } = scenario;
  it('does all or nothing without any one of its commands', async () => {
    const commands = await commandsOf(script);
    expect(commands.length).toBeGreaterThan(1);
    await permitAllBut();
    await prepare(redis, before);
    const stateBefore = await state(redis);
    expect(await run(scenario)).not.toBeInstanceOf(Error);
    const stateAfter = await state(redis);
    for (const command of commands) {
      await permitAllBut(command);
      await prepare(redis, before);
      const reply = await run(scenario);
      const left = await state(redis);
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

async function run({ script, keys, args }: Scenario): Promise<unknown> {
  return await user
    .eval(script.source, keys.length, ...keys, ...args)
    .catch((error: unknown) => error);
}
