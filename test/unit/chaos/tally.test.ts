// What a campaign makes of all its rounds.
import { expect, it } from 'vitest';
import { History } from '../../chaos/checker/history.js';
import { planRound } from '../../chaos/plan.js';
import { Tally } from '../../chaos/report/tally.js';
import type { RoundResult } from '../../chaos/round.js';
import { held } from '../../support/checked-history.js';

/** A round in which so many wrote under fenced locks, and so many of them were refused. */
function round(writes: number, refused: number): RoundResult {
  const history = new History(1);
  for (let i = 0; i < writes; i++) {
    const id = `w0.0.c0k0.${i}`;
    for (const [at, note] of held(id, 100, 200, { token: '7' })) history.take({ at, ...note }, '');
    history.take({ at: 150, what: 'writing', id }, '');
    history.take({ at: 151, what: 'wrote', id, ...(i < refused ? { refusedBy: '8' } : {}) }, '');
  }
  const plan = planRound('fenced', 1);
  const times = { healedAt: 0, stoppedAt: 0, ownLags: [] };
  const evidence = { plan, history, faults: [], looks: [], ...times };
  return { plan, evidence, violations: [], mess: { commands: 0, messages: 0 }, tookMs: 1 };
}

it('a campaign in which many wrote under fenced locks and nobody was refused is not sound', () => {
  const tally = new Tally();
  tally.add(round(60, 0));
  expect(tally.isSound).toBe(true); // too few to tell
  tally.add(round(60, 0));
  expect(tally.isSound).toBe(false);
  tally.add(round(10, 1));
  expect(tally.isSound).toBe(true);
});

it('a round with a violation makes it unsound', () => {
  const tally = new Tally();
  const violation = { rule: 'two holders', at: 0, message: '', sections: [] };
  tally.add({ ...round(0, 0), violations: [violation] });
  expect(tally.isSound).toBe(false);
});
