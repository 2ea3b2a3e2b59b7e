// The second round of an election for a fenced Redlock: the token is written to most masters, or the lock is not granted.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { Master, VoteReply } from '../../../src/locks/redlock/master.js';
import {
  fixedGuard,
  learningGuard,
  type RestartGuard,
} from '../../../src/locks/redlock/restart-guard.js';
import { elect as electAmong, type ElectionResult } from '../../../src/locks/redlock/election.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

const TOKEN = 100n;

type Raise = (token: bigint) => Promise<bigint | undefined>;

/** A master that votes with a token of 100, unless it is young, and answers the write-back as the test says. */
class FakeMaster {
  readonly name: string;
  whyDown: string | undefined;
  readonly connection: object;
  readonly raise: ReturnType<typeof vi.fn<Raise>>;
  readonly withdraw = vi.fn();
  readonly server: { ageMs: number };
  /** Its vote. */
  token = TOKEN;
  longestLeaseMs = 0;

  constructor(name: string, raise: Raise, ageMs = Infinity) {
    this.name = name;
    this.raise = vi.fn(raise);
    this.server = { ageMs };
    this.connection = { server: this.server };
  }

  vote(): Promise<VoteReply> {
    const { token, longestLeaseMs } = this;
    return Promise.resolve({ reply: { outcome: 'acquired', token }, longestLeaseMs });
  }

  overdue(): void {
    this.whyDown = 'it owes an answer';
  }

  get raisedTo(): bigint[] {
    return this.raise.mock.calls.map(([token]) => token);
  }
}

/** As the script does. */
function remembering(last = 0n): Raise {
  return (token) => {
    if (token <= last) return Promise.resolve(last);
    last = token;
    return Promise.resolve(undefined);
  };
}

const silent: Raise = () => new Promise(() => undefined);

const cut: Raise = () => Promise.reject(new Error('the connection was lost'));

function fakes(...raises: Raise[]): FakeMaster[] {
  return raises.map((raise, index) => new FakeMaster(`m${index}`, raise));
}

function elect(
  masters: readonly FakeMaster[],
  guard: number | RestartGuard = 0,
  nodeTimeoutMs = 50,
): Promise<ElectionResult> {
  return electAmong({
    clock: PROCESS_CLOCK,
    random: Math.random,
    masters: masters as unknown as readonly Master[],
    quorum: Math.floor(masters.length / 2) + 1,
    ownerId: 'me:1',
    leaseMs: 30_000,
    nodeTimeoutMs,
    guard: typeof guard === 'number' ? fixedGuard(guard) : guard,
  });
}

describe('a token', () => {
  it('that too many masters refuse is followed by a larger one without waiting for a silent master', async () => {
    const masters = fakes(remembering(TOKEN), remembering(TOKEN + 1n), silent);
    expect(await elect(masters, 0, 100_000)).toMatchObject({
      outcome: 'acquired',
      token: TOKEN + 2n,
    });
  });

  it('is sent to a guarded master, and does not count there', async () => {
    const young = new FakeMaster('young', remembering(), 10);
    const enough = [...fakes(remembering(), remembering()), young];
    expect(await elect(enough, 1_000)).toMatchObject({ outcome: 'acquired', token: TOKEN });
    expect(young.raisedTo).toEqual([TOKEN]);
    const tooFew = [...fakes(remembering(), cut), young];
    expect(await elect(tooFew, 1_000)).toMatchObject({
      outcome: 'no quorum',
      nodes: [{ answer: 'acquired' }, { answer: 'unreachable' }, { answer: 'guarded' }],
    });
    expect(young.withdraw).not.toHaveBeenCalled();
  });

  it('does not count on a master that restarted within a lease that others report', async () => {
    const electWithYoung = async (
      second: Raise,
      toldMs: number,
    ): Promise<[ElectionResult, FakeMaster]> => {
      const young = new FakeMaster('young', remembering(), 5_000); // it has forgotten that lease
      const others = fakes(remembering(), second);
      for (const other of others) other.longestLeaseMs = toldMs;
      return [await elect([...others, young], learningGuard(1_000)), young];
    };
    const [enough] = await electWithYoung(remembering(), 60_000);
    const [over] = await electWithYoung(cut, 4_000);
    for (const outcome of [enough, over])
      expect(outcome).toMatchObject({ outcome: 'acquired', token: TOKEN });
    const [tooFew, young] = await electWithYoung(cut, 60_000);
    expect(tooFew).toMatchObject({
      outcome: 'no quorum',
      nodes: [{ answer: 'acquired' }, { answer: 'unreachable' }, { answer: 'guarded' }],
    });
    expect(young.raisedTo).toEqual([TOKEN]);
  });

  it('does not count on a master that restarted since the vote, however long that took', async () => {
    const masters = fakes(remembering(), cut, remembering());
    masters[2]!.vote = () => new Promise(() => undefined);
    masters[1]!.vote = async () => {
      await sleep(60);
      masters[2]!.server.ageMs = 40;
      return { reply: { outcome: 'acquired', token: TOKEN }, longestLeaseMs: 0 };
    };
    expect(await elect(masters, 20, 10_000)).toMatchObject({
      outcome: 'no quorum',
      nodes: [{ answer: 'acquired' }, { answer: 'unreachable' }, { answer: 'guarded' }],
    });
  });

  it('is sent to a master that owes its vote, and does not wait for it', async () => {
    const masters = fakes(remembering(), remembering(), silent);
    masters[2]!.vote = () => new Promise(() => undefined);
    const election = elect(masters, 0, 300);
    masters[2]!.whyDown = 'it owes an answer'; // to others, since
    expect(await election).toMatchObject({ outcome: 'acquired', token: TOKEN });
    expect(masters[2]!.raisedTo).toEqual([TOKEN]);
  });
});
