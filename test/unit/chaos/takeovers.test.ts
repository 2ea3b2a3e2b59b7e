// Replicas that take over by themselves: what the fault campaign sees of them, and what that excuses.
import { expect, it } from 'vitest';
import { Takeovers } from '../../chaos/checker/observer.js';
import type { Fault } from '../../chaos/faults.js';
import { held, rulesBroken } from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';
const B = 'w1.0.c0k0.0';

/** Server 1 is a replica at 100, and a master at 200; server 0 claims to be one until 300. */
function seen(): Takeovers {
  const takeovers = new Takeovers('sentinel');
  takeovers.say(0, true, 90, 91);
  takeovers.say(1, false, 100, 101);
  takeovers.say(0, true, 110, 111);
  takeovers.say(1, true, 200, 201);
  takeovers.say(0, true, 298, 300);
  takeovers.say(0, false, 310, 311);
  takeovers.say(1, true, 320, 321);
  return takeovers;
}

it('a replica that takes over by itself excuses the holders from before, and no later ones', () => {
  const faults = seen().besides([]);
  expect(faults).toMatchObject([{ servers: [1], loses: 'all', from: 100, until: 300 }]);
  const both = [...held(A, 95, 250), ...held(B, 205, 240)];
  expect(rulesBroken(both)).toEqual(['two holders']);
  expect(rulesBroken(both, { faults })).toEqual([]);
  const later = [...held(A, 1_400, 1_500), ...held(B, 1_450, 1_480)];
  expect(rulesBroken(later, { faults })).toEqual(['two holders']);
});

it('a replica that was made to take over is noted once', () => {
  const fault = { nemesis: 'a replica takes over in order', from: 50, until: 150, detail: '' };
  expect(seen().besides([fault satisfies Fault])).toEqual([]);
  expect(seen().besides([{ ...fault, nemesis: 'CLIENT KILL' }])).toHaveLength(1);
});

it('a replica that takes over long after another one was made to is noted', () => {
  const takeovers = new Takeovers('sentinel');
  takeovers.say(1, false, 140, 141); // it is suspended then, for long
  takeovers.say(0, true, 5_090, 5_100);
  takeovers.say(1, true, 6_000, 6_001);
  takeovers.say(0, true, 6_500, 6_600);
  const fault = { nemesis: 'a replica takes over in order', from: 50, until: 150, detail: '' };
  expect(takeovers.besides([fault satisfies Fault])).toMatchObject([{ from: 140, until: 6_600 }]);
});

it('of two masters from the beginning one has taken over, until only one is left', () => {
  const takeovers = new Takeovers('sentinel');
  for (const at of [100, 200]) for (const server of [0, 1]) takeovers.say(server, true, at, at + 1);
  takeovers.say(1, false, 300, 301);
  for (const at of [310, 400]) takeovers.say(0, true, at, at + 1);
  const faults = takeovers.besides([]);
  expect(faults).toMatchObject([{ loses: 'all', from: -Infinity, until: 201 }]);
  const both = [...held(A, 40, 250), ...held(B, 205, 240)];
  expect(rulesBroken(both, { faults })).toEqual([]);
  const later = [...held(A, 1_400, 1_500), ...held(B, 1_450, 1_480)];
  expect(rulesBroken(later, { faults })).toEqual(['two holders']);
});

it('several masters are no takeover if each has its own part, or its own vote', () => {
  for (const topology of ['masters', 'cluster'] as const) {
    const takeovers = new Takeovers(topology);
    for (const at of [0, 10]) for (const server of [0, 1]) takeovers.say(server, true, at, at + 1);
    expect(takeovers.besides([])).toEqual([]);
  }
});

it('a master that is one from the beginning, or reports it again, has not taken over', () => {
  const takeovers = new Takeovers('sentinel');
  for (const at of [0, 10, 20]) takeovers.say(0, true, at, at + 1);
  for (const at of [0, 10, 20]) takeovers.say(1, false, at, at + 1);
  expect(takeovers.besides([])).toEqual([]);
});
