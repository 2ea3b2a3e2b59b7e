// Each script, for a user who lacks one of its commands, each in turn: it does all of its work or none of it, and leaves no key
// without an end.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { prepare, SCENARIOS, state, type Scenario } from '../../support/script-scenarios.js';

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
  await Promise.all([user.ping(), listener.subscribe('grants:listening', 'grants:deaf')]);
}, 60_000);

afterAll(async () => {
  for (const client of [redis, user, listener]) client.disconnect();
  await server[Symbol.asyncDispose]();
});

async function permitAllBut(...commands: string[]): Promise<void> {
  const denied = commands.map((command) => `-${command}`);
  const rules = ['reset', 'on', 'nopass', '~*', '&*', '+@all', ...denied];
  await redis.call('ACL', 'SETUSER', 'limited', ...rules);
}

it('every script has a scenario', () => {
  const tried = new Set(SCENARIOS.map(({ script }) => script.name));
  expect([...tried].sort()).toEqual(
    Object.values(scripts)
      .map(({ name }) => name)
      .filter((name) => !name.startsWith('weighted')) // those are tried in semaphore/script-permissions.test.ts
      .sort(),
  );
});

describe.each(SCENARIOS)('$title', ({ script, before, args, keys }) => {
  it('does all or nothing without any one of its commands', async () => {
    const commands = await commandsOf(script);
    expect(commands.length).toBeGreaterThan(1);
    await prepare(redis, before);
    const stateBefore = await state(redis);
    await permitAllBut();
    expect(await run(script, args, keys)).not.toBeInstanceOf(Error);
    const stateAfter = await state(redis);
    for (const command of commands) {
      await permitAllBut(command);
      await prepare(redis, before);
      const reply = await run(script, args, keys);
      const left = await state(redis);
      const without = `without ${command}: ${String(reply)}`;
      if (reply instanceof Error) {
        expect(reply.message, without).toMatch(/permission|can't run this command/);
        // A token that was given already is used up when its owner may not leave the line for the lock.
        const isUsedUp = script.name === 'join' && before.counter && command === 'ZREM';
        const { counter } = isUsedUp ? stateAfter : stateBefore;
        expect(left, without).toEqual({ ...stateBefore, counter });
      } else if (isLeftUndone(script, reply)) {
        expect(left, without).toEqual(stateBefore);
      } else {
        expect(left, without).toEqual(
          await permittedState({ script, before, args, keys }, command, stateBefore, stateAfter),
        );
      }
    }
  });
});

/** Calls that are gathered are told by null what to send by itself, to be told why. */
function isLeftUndone({ name }: Script, reply: unknown): boolean {
  return name === 'gather' && (reply as unknown[])[0] === null;
}

/** What is done without a command that it can do without. */
async function permittedState(
  { before, script, args, keys }: Omit<Scenario, 'title'>,
  command: string,
  stateBefore: Record<string, unknown>,
  stateAfter: Record<string, unknown>,
): Promise<Record<string, unknown>> {
  // The word for one who was forced out may stay: it ends by itself.
  if (command === 'DEL' && before.word !== undefined && !before.lock) return stateBefore;
  // A lock is handed over without a token to who asks for it then.
  const isToken = script.name === 'hand-over' && ['GET', 'SET'].includes(command);
  if (isToken) return { ...stateAfter, counter: stateBefore['counter'] };
  if (command !== 'PUBSUB') return stateAfter;
  await permitAllBut();
  await prepare(redis, before);
  await run(script, args.with(5, '0'), keys); // the places are taken at their word
  return await state(redis);
}

/** All that it calls, by whatever function: names in quotes that the server knows, and how it publishes. */
async function commandsOf({ source }: Script): Promise<string[]> {
  const code = source.replace(/--.*$/gm, '');
  const quoted = [...code.matchAll(/'([A-Z]{2,})'/g)].map(([, name]) => name!);
  const names = [...new Set([...quoted, ...(/publish/i.test(code) ? ['PUBLISH'] : [])])];
  const known = (await redis.call('COMMAND', 'INFO', ...names)) as unknown[];
  return names.filter((_, index) => known[index] !== null);
}

async function run(
  { source }: Script,
  args: Scenario['args'],
  keys: readonly string[],
): Promise<unknown> {
  return await user.eval(source, keys.length, ...keys, ...args).catch((error: unknown) => error);
}
