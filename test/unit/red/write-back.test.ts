// The second round of an election for a fenced Redlock: the token is written to most masters, or the lock is not had.
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

/** A master that votes with a token of 100, unless it is young, and answers the write-back as it is told to. */
class FakeMaster {
  readonly name: string;
  trouble: string | undefined;
  readonly lock: object;
  readonly raise: ReturnType<typeof vi.fn<Raise>>;
  readonly withdraw = vi.fn();
  readonly server: { ageMs: number };
  /** What it votes with. */
  token = TOKEN;
  longestLeaseMs = 0;

  constructor(name: string, raise: Raise, ageMs = Infinity) {
    this.name = name;
    this.raise = vi.fn(raise);
    this.server = { ageMs };
    this.lock = { connection: { server: this.server }, counter: { key: `counter of ${name}` } };
  }

  vote(): Promise<VoteReply> {
    const { token, longestLeaseMs } = this;
    return Promise.resolve({ reply: { outcome: 'acquired', token }, longestLeaseMs });
  }

  overdue(): void {
    this.trouble = 'it owes an answer';
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

const denied: Raise = () =>
  Promise.reject(
    Object.assign(new Error('NOPERM this user has no permission for SET'), { name: 'ReplyError' }),
  );

function fakes(...raises: Raise[]): FakeMaster[] {
  return raises.map((raise, index) => new FakeMaster(`m${index}`, raise));
}

function elect(
  masters: readonly FakeMaster[],
  guard: number | RestartGuard = 0,
  nodeTimeoutMs = 50,
  leaseMs = 30_000,
): Promise<ElectionResult> {
  return electAmong({
    clock: PROCESS_CLOCK,
    random: Math.random,
    masters: masters as unknown as readonly Master[],
    quorum: Math.floor(masters.length / 2) + 1,
    ownerId: 'me:1',
    leaseMs,
    nodeTimeoutMs,
    guard: typeof guard === 'number' ? fixedGuard(guard) : guard,
  });
}

describe('a token', () => {
  it('that most masters have written is the holder’s, and all are told', async () => {
    const masters = fakes(remembering(), remembering(), silent);
    expect(await elect(masters)).toMatchObject({ outcome: 'acquired', token: TOKEN });
    expect(masters.map(({ raisedTo }) => raisedTo)).toEqual([[TOKEN], [TOKEN], [TOKEN]]);
    for (const { withdraw } of masters) expect(withdraw).not.toHaveBeenCalled();
  });

  it.each([
    ['the same', TOKEN],
    ['a larger one', TOKEN + 7n],
  ])('of which most masters know %s is followed by one that is larger', async (_, known) => {
    const masters = fakes(remembering(known), remembering(known - 1n), remembering(known));
    expect(await elect(masters)).toMatchObject({ outcome: 'acquired', token: known + 1n });
    expect(masters[0]!.raisedTo.at(-1)).toBe(known + 1n);
  });

  it('of which a minority knows a larger one stays', async () => {
    const masters = fakes(remembering(), remembering(), remembering(TOKEN + 7n));
    expect(await elect(masters)).toMatchObject({ outcome: 'acquired', token: TOKEN });
  });

  it('that too many refuse is followed by a larger one without waiting for a silent master', async () => {
    const masters = fakes(remembering(TOKEN), remembering(TOKEN + 1n), silent);
    expect(await elect(masters, 0, 100_000)).toMatchObject({
      outcome: 'acquired',
      token: TOKEN + 2n,
    });
  });

  it.each<[string, Raise, string]>([
    ['do not answer', silent, 'no answer within 50 ms'],
    ['are lost', cut, 'the connection was lost'],
  ])(
    'that most masters %s about is nobody’s, and the votes are taken back',
    async (_, raise, reason) => {
      const masters = fakes(remembering(), raise, raise);
      expect(await elect(masters)).toEqual({
        outcome: 'no quorum',
        nodes: [
          { node: 'm0', answer: 'acquired' },
          { node: 'm1', answer: 'unreachable', reason },
          { node: 'm2', answer: 'unreachable', reason },
        ],
      });
      for (const { withdraw } of masters)
        expect(withdraw).toHaveBeenCalledExactlyOnceWith('me:1', true);
    },
  );

  it('that most masters refuse for good is told as what they say, and the votes are taken back', async () => {
    const masters = fakes(remembering(), denied, denied);
    await expect(elect(masters)).rejects.toThrow('NOPERM');
    for (const { withdraw } of masters)
      expect(withdraw).toHaveBeenCalledExactlyOnceWith('me:1', true);
  });

  it('that one master refuses for good is held by the others', async () => {
    const masters = fakes(remembering(), remembering(), denied);
    expect(await elect(masters)).toMatchObject({ outcome: 'acquired', token: TOKEN });
  });

  it('is told to a master that is guarded, and does not count there', async () => {
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

  it('does not count on a master that restarted within a lease that others tell of', async () => {
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

  it('is told to a master that owes its vote, and does not wait for it', async () => {
    const masters = fakes(remembering(), remembering(), silent);
    masters[2]!.vote = () => new Promise(() => undefined);
    const election = elect(masters, 0, 300);
    masters[2]!.trouble = 'it owes an answer'; // to others, since
    expect(await election).toMatchObject({ outcome: 'acquired', token: TOKEN });
    expect(masters[2]!.raisedTo).toEqual([TOKEN]);
  });

  it('is not gone on with when the lease is over', async () => {
    const slowly: Raise = async () => {
      await sleep(20);
      return TOKEN;
    };
    const masters = fakes(slowly, slowly, slowly);
    const result = await elect(masters, 0, 50, 10);
    expect(result).toMatchObject({ outcome: 'no quorum' });
    expect(masters[0]!.raisedTo).toEqual([TOKEN]);
    expect(JSON.stringify(result)).toContain('it has a larger token, 100');
  });
});
