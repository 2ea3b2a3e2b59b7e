// The second round of an election for a fenced Redlock: the token is written to most masters, or the lock is not had.
import { describe, expect, it, vi } from 'vitest';
import { deadlineOf } from '../../../src/core/deadline.js';
import type { Master } from '../../../src/locks/red/master.js';
import { fixedGuard } from '../../../src/locks/red/restart-guard.js';
import { vote, type Vote } from '../../../src/locks/red/vote.js';
import { writeBack, type WrittenBack } from '../../../src/locks/red/write-back.js';
import type { VoteReply } from '../../../src/locks/reentrant/voting.js';
import { now } from '../../../src/runtime/clock.js';

const TOKEN = 100n;

type Raise = (token: bigint) => Promise<bigint | undefined>;

/** A master that votes with a token of 100, unless it is young, and answers the write-back as it is told to. */
class FakeMaster {
  readonly name: string;
  trouble: string | undefined;
  readonly lock: object;
  readonly raise: ReturnType<typeof vi.fn<Raise>>;
  readonly withdraw = vi.fn();

  constructor(name: string, raise: Raise, ageMs = Infinity) {
    this.name = name;
    this.raise = vi.fn(raise);
    this.lock = { connection: { server: { ageMs } } };
  }

  vote(): Promise<VoteReply> {
    return Promise.resolve({ reply: { outcome: 'acquired', token: TOKEN }, longestLeaseMs: 0 });
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

function elect(masters: readonly FakeMaster[], guardMs = 0, nodeTimeoutMs = 50): Promise<Vote> {
  return vote({
    masters: masters as unknown as readonly Master[],
    quorum: Math.floor(masters.length / 2) + 1,
    ownerId: 'me:1',
    leaseMs: 30_000,
    nodeTimeoutMs,
    guard: fixedGuard(guardMs),
  });
}

describe('a token', () => {
  it('that most masters have written is the holder’s, and all are told', async () => {
    const masters = fakes(remembering(), remembering(), silent);
    expect(await elect(masters)).toEqual({ outcome: 'acquired', token: TOKEN });
    expect(masters.map(({ raisedTo }) => raisedTo)).toEqual([[TOKEN], [TOKEN], [TOKEN]]);
    for (const { withdraw } of masters) expect(withdraw).not.toHaveBeenCalled();
  });

  it.each([
    ['the same', TOKEN],
    ['a larger one', TOKEN + 7n],
  ])('of which most masters know %s is followed by one that is larger', async (_, known) => {
    const masters = fakes(remembering(known), remembering(known - 1n), remembering(known));
    expect(await elect(masters)).toEqual({ outcome: 'acquired', token: known + 1n });
    expect(masters[0]!.raisedTo.at(-1)).toBe(known + 1n);
  });

  it('of which a minority knows a larger one stays', async () => {
    const masters = fakes(remembering(), remembering(), remembering(TOKEN + 7n));
    expect(await elect(masters)).toEqual({ outcome: 'acquired', token: TOKEN });
  });

  it('that too many refuse is followed by a larger one without waiting for a silent master', async () => {
    const masters = fakes(remembering(TOKEN), remembering(TOKEN + 1n), silent);
    expect(await elect(masters, 0, 100_000)).toEqual({ outcome: 'acquired', token: TOKEN + 2n });
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
    expect(await elect(masters)).toEqual({ outcome: 'acquired', token: TOKEN });
  });

  it('is told to a master that is guarded, and does not count there', async () => {
    const young = new FakeMaster('young', remembering(), 10);
    const enough = [...fakes(remembering(), remembering()), young];
    expect(await elect(enough, 1_000)).toEqual({ outcome: 'acquired', token: TOKEN });
    expect(young.raisedTo).toEqual([TOKEN]);
    const tooFew = [...fakes(remembering(), cut), young];
    expect(await elect(tooFew, 1_000)).toMatchObject({
      outcome: 'no quorum',
      nodes: [{ answer: 'acquired' }, { answer: 'unreachable' }, { answer: 'guarded' }],
    });
    expect(young.withdraw).not.toHaveBeenCalled();
  });

  it('is told to a master that owes its vote, and does not wait for it', async () => {
    const masters = fakes(remembering(), remembering(), silent);
    masters[2]!.vote = () => new Promise(() => undefined);
    const election = elect(masters, 0, 300);
    masters[2]!.trouble = 'it owes an answer'; // to others, since
    expect(await election).toEqual({ outcome: 'acquired', token: TOKEN });
    expect(masters[2]!.raisedTo).toEqual([TOKEN]);
  });

  it('is not gone on with when the lease is over', async () => {
    const masters = fakes(remembering(TOKEN), remembering(TOKEN), remembering(TOKEN));
    const { monotonicMs, wallMs } = now();
    const longAgo = { monotonicMs: monotonicMs - 5_000, wallMs };
    const written: WrittenBack = await writeBack({
      token: TOKEN,
      masters: masters as unknown as readonly Master[],
      quorum: 2,
      excused: [],
      guard: fixedGuard(0),
      nodeTimeoutMs: 50,
      limit: { leftMs: 50 },
      deadline: deadlineOf(longAgo, 1_000),
    });
    expect(written).toMatchObject({ outcome: 'no quorum' });
    expect(masters[0]!.raisedTo).toEqual([TOKEN]);
    expect(JSON.stringify(written)).toContain('it has a larger token, 100');
  });
});
