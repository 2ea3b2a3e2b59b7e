// Each script on keys that have lost their end, by PERSIST or by a copy without a time to live: what it gives an end otherwise, it gives one then,
// too, and never one before the last lease of those who rely on the key. The fencing token is the exception: one that is to be known for ever has
// no end.
import { expect, it } from 'vitest';
import {
  LEASES,
  LOCK,
  SCENARIOS,
  commandsFor,
  type Scenario,
} from '../../support/script-scenarios.js';
import { ScriptServer } from '../../support/script-server.js';

/** A nested release sets no lease; and without holders, a hash without an end is somebody else's. */
const NOT_ENDED = [
  'reenter of a nested hold',
  'weightedJoin first in line',
  'weightedJoin alone in line',
];

/** The commands that set the end of their key. */
const ENDING = ['PEXPIRE', 'PEXPIREAT'];

const scenarios = SCENARIOS.filter(({ title }) => !NOT_ENDED.includes(title))
  .map((scenario) => ({ ...scenario, ended: endedBy(scenario) }))
  .filter(({ ended }) => ended.length > 0);

it.each(scenarios)('$title ends keys that have no end', (scenario) => {
  const { ended } = scenario;
  for (const endless of [ended, ...ended.map((key) => [key])]) {
    const { server, reply } = play(scenario, endless);
    expect(reply).toEqual(play(scenario).reply);
    const { state } = server;
    const left = endless.filter((key) => key in state);
    for (const key of left) expect(state[key]![0], key).toBeGreaterThan(0);
    // A master remembers a lease for as long as that may last.
    if (left.includes('longest'))
      expect(state['longest']![0]).toBeGreaterThanOrEqual(Number(state['longest']![1]));
    const lastMs = lastLeaseMs(server);
    for (const key of left.filter((each) => [LOCK, LEASES].includes(each)))
      expect(state[key]![0], key).toBeGreaterThanOrEqual(lastMs);
  }
});

/** The keys that the script gives an end, and that had one before. */
function endedBy(scenario: Scenario): string[] {
  const { server, ending } = play(scenario);
  const before = prepared(scenario).state;
  return Object.keys(server.state).filter((key) => ending.has(key) && key in before);
}

function prepared({ before }: Scenario): ScriptServer {
  const server = new ScriptServer(['grants:listening', 'grants:deaf']);
  for (const words of commandsFor(before, server.nowMs)) server.command(...words);
  return server;
}

function play(scenario: Scenario, endless: readonly string[] = []) {
  const server = prepared(scenario);
  for (const key of endless) server.command('PERSIST', key);
  const ending = new Set<string>();
  const reply = server.run(
    scenario.script,
    scenario.keys,
    scenario.args,
    ([command = '', key = '']) => {
      if (ENDING.includes(command)) ending.add(key);
      return undefined;
    },
  );
  return { server, reply, ending };
}

/** How long the last of several holders relies on the lock. */
function lastLeaseMs({ state, nowMs }: ScriptServer): number {
  const leases = state[LEASES]?.[1] as readonly (readonly [string, string])[] | undefined;
  return Math.max(0, ...(leases ?? []).map(([, endsAtMs]) => Number(endsAtMs) - nowMs));
}
