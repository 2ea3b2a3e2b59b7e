// An election that most masters refuse for good: told as what they say, and no vote is left behind.
import { expect, it, vi } from 'vitest';
import type { Master, VoteReply } from '../../../src/locks/redlock/master.js';
import { fixedGuard } from '../../../src/locks/redlock/restart-guard.js';
import { elect as electAmong, type ElectionResult } from '../../../src/locks/redlock/election.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

class FakeMaster {
  readonly name = 'master';
  readonly trouble: string | undefined;
  readonly vote: () => Promise<VoteReply>;
  readonly lock = { connection: { server: { ageMs: Infinity } } };
  readonly withdraw = vi.fn();
  readonly overdue = vi.fn();

  constructor(answer: 'acquired' | 'conflict' | 'down') {
    this.trouble = answer === 'down' ? 'not connected' : undefined;
    this.vote = (): Promise<VoteReply> => {
      if (answer === 'acquired')
        return Promise.resolve({ reply: { outcome: 'acquired' }, longestLeaseMs: 0 });
      const error = new Error('WRONGTYPE Operation against a key holding the wrong kind of value');
      error.name = 'ReplyError';
      return Promise.reject(error);
    };
  }
}

function elect(masters: readonly FakeMaster[]): Promise<ElectionResult> {
  return electAmong({
    clock: PROCESS_CLOCK,
    random: Math.random,
    masters: masters as unknown as readonly Master[],
    quorum: Math.floor(masters.length / 2) + 1,
    ownerId: 'me:1',
    leaseMs: 30_000,
    nodeTimeoutMs: 50,
    guard: fixedGuard(0),
  });
}

it('by most masters is told, and the vote of the others is taken back', async () => {
  const granting = new FakeMaster('acquired');
  const election = elect([granting, new FakeMaster('conflict'), new FakeMaster('conflict')]);
  await expect(election).rejects.toThrow('WRONGTYPE');
  expect(granting.withdraw).toHaveBeenCalledWith('me:1', false);
});

it('by one master is no more than an answer that is missing, also while others are down', async () => {
  const granting = [new FakeMaster('acquired'), new FakeMaster('acquired')];
  const down = [new FakeMaster('down'), new FakeMaster('down')];
  expect(await elect([...granting, ...down, new FakeMaster('conflict')])).toMatchObject({
    outcome: 'no quorum',
    nodes: [
      { answer: 'acquired' },
      { answer: 'acquired' },
      { answer: 'unreachable' },
      { answer: 'unreachable' },
      { answer: 'unreachable' },
    ],
  });
  for (const master of granting) expect(master.withdraw).toHaveBeenCalledOnce();
});
