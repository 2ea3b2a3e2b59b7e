// Each script without one of its commands, each in turn, as for a user without that permission: it does all of its work or none, and leaves
// no key without expiry.
import { describe, expect, it } from 'vitest';
import type { Reply } from '../../../src/testing/lua-runtime.js';
import { memoryScripts } from '../../../src/testing/scripts.memory.generated.js';
import {
  commandsFor,
  LEASES,
  LOCK,
  SCENARIOS,
  type Scenario,
} from '../../support/script-scenarios.js';
import { ScriptServer } from '../../support/script-server.js';

type State = ScriptServer['state'];

const DENIED = { err: 'NOPERM a command is denied' };

it('every script has a scenario', () => {
  const tried = new Set(SCENARIOS.map(({ script }) => script));
  expect([...tried].sort()).toEqual(Object.keys(memoryScripts).sort());
});

describe.each(SCENARIOS)('$title', (scenario) => {
  it('does all or nothing without any one of its commands', () => {
    const { script, before } = scenario;
    const stateBefore = prepared(scenario).state;
    const permitted = play(scenario);
    expect(permitted.commands.size).toBeGreaterThan(0);
    expect(isError(permitted.reply)).toBe(false);
    for (const command of permitted.commands) {
      const { reply, left } = play(scenario, command);
      const words = `without ${command}: ${JSON.stringify(reply)}`;
      for (const [ttlMs] of Object.values(left)) expect(ttlMs, words).not.toBe(-1);
      if (isError(reply)) {
        expect(reply, words).toEqual(DENIED);
        // A token is used up if its owner then may not leave the line for the lock.
        const isUsedUp = script === 'join' && before.counter && command === 'ZREM';
        const { counter } = isUsedUp ? permitted.left : stateBefore;
        const expected = { ...stateBefore, ...(counter && { counter }) };
        expectToBe(withoutTorn(left, scenario), withoutTorn(expected, scenario), words);
      } else if (script === 'gather' && (reply as readonly Reply[])[0] === null) {
        // Its answer is null for a call that must be sent alone to learn the reason.
        expectToBe(left, stateBefore, words);
      } else if (script !== 'weightedHandOver' || command !== 'PUBSUB') {
        expectToBe(left, doneWithout(scenario, command, stateBefore, permitted.left), words);
      }
    }
  });
});

function prepared({ before }: Scenario): ScriptServer {
  const server = new ScriptServer(['grants:listening', 'grants:deaf']);
  for (const words of commandsFor(before, server.nowMs)) server.command(...words);
  return server;
}

function play(
  scenario: Scenario,
  denied?: string,
): { reply: Reply; left: State; commands: ReadonlySet<string> } {
  const server = prepared(scenario);
  const { script, args, keys } = scenario;
  const commands = new Set<string>();
  const reply = server.run(script, keys, args, ([command = '']) => {
    commands.add(command);
    return command === denied ? DENIED : undefined;
  });
  return { reply, left: server.state, commands };
}

/** The keys of a line, and of several holders, may outlive their contents. The set number of permits may be forgotten earlier. */
function expectToBe(found: State, expected: State, words: string): void {
  const maySay = Object.entries(found).map(([key, [ttlMs, content]]) => {
    const expectedMs = expected[key]?.[0] ?? ttlMs;
    const mayStay = ['line', 'places', LEASES].includes(key) || (key === LOCK && LEASES in found);
    const isFine = key === 'permits' || (mayStay && ttlMs >= expectedMs);
    return [key, [isFine ? expectedMs : ttlMs, content]] as const;
  });
  expect(Object.fromEntries(maySay), words).toEqual(expected);
}

/** The effect without a command that is optional. */
function doneWithout(
  scenario: Scenario,
  command: string,
  stateBefore: State,
  permitted: State,
): State {
  const { script, before, args } = scenario;
  // The mark of an owner that was forced out may stay: it expires.
  if (command === 'DEL' && before.word !== undefined && !before.lock) return stateBefore;
  // A lock is handed over without a token, which its receiver then asks for.
  if (script === 'handOver' && ['GET', 'SET'].includes(command)) {
    const { counter } = stateBefore;
    return { ...without(permitted, ['counter']), ...(counter && { counter }) };
  }
  // A lock that may be kept is acquired like any other.
  if (command === 'PUBSUB' && script === 'acquire')
    return play({ ...scenario, args: args.slice(0, 2) }).left;
  if (command === 'PUBSUB' && script === 'gather')
    return play({ ...scenario, args: ['o', ...args.slice(1, 5)] }).left;
  // A release does not need its mark.
  if (script === 'confirm' && command === 'HSET') {
    const [ttlMs = 0] = permitted['lock'] ?? [];
    return { ...permitted, lock: [ttlMs, stateBefore['lock']?.[1]] };
  }
  // The places count as listening if they say so.
  if (command === 'PUBSUB') return play({ ...scenario, args: args.with(5, '0') }).left;
  return permitted;
}

/** After the lock or the leases were deleted, the rest of its holders is meaningless and may be removed. */
function withoutTorn(state: State, { before }: Scenario): State {
  return before.missing === undefined ? state : without(state, [LOCK, LEASES]);
}

function without(state: State, keys: readonly string[]): State {
  return Object.fromEntries(Object.entries(state).filter(([key]) => !keys.includes(key)));
}

function isError(reply: Reply): boolean {
  return reply !== null && typeof reply === 'object' && 'err' in reply;
}
