// An owner of an abandoned call that still has the lock: the fault campaign notices who is blocked by it.
import { expect, it } from 'vitest';
import { CALL, rulesBroken, type Noted } from '../../support/checked-history.js';

const GONE = 'w0.0.c0k0.0';
const NEXT = 'w0.0.c0k0.1';

/** One call that gives up at 2 ms, and the next one, which enters at that time. */
function given(name: string, enteredAt: number, code = 'LOCK_ABORTED'): Noted[] {
  const call = { ...CALL, how: 'desert', locks: [name] };
  const [gone, next] = [GONE, NEXT].map((id) => `${id} of ${name}`);
  return [
    [0, { ...call, id: gone! }],
    [2, { what: 'refused', id: gone!, code, message: '' }],
    [3, { ...call, id: next! }],
    [enteredAt, { what: 'entered', id: next!, owner: next!, leftMs: 900 }],
    [enteredAt + 1, { what: 'leaving', id: next! }],
    [enteredAt + 2, { what: 'left', id: next! }],
  ];
}

it('a caller that is blocked by an abandoned call is reported, if that comes up more than once', () => {
  expect(rulesBroken([...given('a', 990), ...given('b', 990)])).toEqual(['left behind']);
  expect(rulesBroken(given('a', 990))).toEqual([]);
  expect(rulesBroken([...given('a', 20), ...given('b', 20)])).toEqual([]);
});

it('nobody is reported if the lock was acquired, the server may not have been reached, or the round had not begun', () => {
  const both = (code?: string): Noted[] => [...given('a', 990, code), ...given('b', 990, code)];
  expect(rulesBroken(both('REDIS_UNAVAILABLE'))).toEqual([]);
  // They called while other processes were still starting.
  expect(rulesBroken(both(), { looks: [{ from: 1, until: 2 }] })).toEqual([]);
  const faults = [{ nemesis: 'CLIENT PAUSE', from: 5, until: 900, servers: [0] }];
  expect(rulesBroken(both(), { faults })).toEqual([]);
});
