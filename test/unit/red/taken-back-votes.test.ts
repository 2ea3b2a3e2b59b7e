// A vote that is taken back before its answer is known: what takes it back may overtake it.
import { describe, expect, it, vi } from 'vitest';
import { Cleanup } from '../../../src/core/cleanup.js';
import { Master } from '../../../src/locks/redlock/master.js';
import type { ReentrantLockBackend } from '../../../src/locks/plain.js';
import { LostError, UnsentError } from '../../../src/redis/failure.js';

const OWNER = 'me:1';
/** What the script answers. */
const GIVEN = [0];
const REFUSED = [500, 'they:1', 500];

interface Asked {
  readonly give: (reply: unknown) => void;
  readonly lose: (error: Error) => void;
}

/** A lock on a master that answers a vote when it is told to, and finds nobody to release until then. */
class SlowLock {
  readonly id = 'orders';
  readonly keys = { lock: 'orders', longestLease: 'longest' };
  readonly asked: Asked[] = [];
  readonly connection = {
    place: 'here:1',
    refusals: { heard: () => undefined },
    runReplicated: (...[, , , read]: [unknown, unknown, unknown, (reply: unknown) => unknown]) =>
      new Promise((resolve, lose) => {
        const give = (reply: unknown): void => {
          resolve(read(reply));
        };
        this.asked.push({ give, lose });
      }),
  };
  /** Called with `false` it tells nobody: a vote is taken back. */
  readonly release = vi.fn<(ownerId: string, isTold?: boolean) => Promise<boolean>>(() =>
    Promise.resolve(false),
  );
  readonly reenter = vi.fn(() => Promise.resolve('kept'));

  get takenBack(): number {
    return this.release.mock.calls.filter(([, isTold]) => isTold === false).length;
  }
}

function slowMaster(): { lock: SlowLock; master: Master } {
  const lock = new SlowLock();
  return { lock, master: new Master(lock as unknown as ReentrantLockBackend, new Cleanup()) };
}

/** Whoever asked for it has gone by then. */
function ask(master: Master): void {
  master.vote(OWNER, 1_000).catch(() => undefined);
}

async function turnOfTheLoop(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe('a vote that is taken back before it is answered', () => {
  it.each([
    ['given after that', GIVEN, 2],
    ['lost after that', new LostError(), 2],
    ['refused after that', REFUSED, 1],
    ['never sent', new UnsentError('not connected'), 1],
  ])('and is %s is taken back as often as that needs', async (_, outcome, times) => {
    const { lock, master } = slowMaster();
    ask(master);
    master.withdraw(OWNER);
    await turnOfTheLoop();
    expect(lock.takenBack).toBe(1);
    for (const { give, lose } of lock.asked) {
      if (outcome instanceof Error) lose(outcome);
      else give(outcome);
    }
    await turnOfTheLoop();
    expect(lock.takenBack).toBe(times);
  });
});

describe('a release that comes before the answer to a vote', () => {
  it('is repeated when the vote was given, though the release was answered later than the vote', async () => {
    const { lock, master } = slowMaster();
    let answer: (isReleased: boolean) => void = () => undefined;
    lock.release.mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
    ask(master);
    const releasing = master.release(OWNER);
    lock.asked[0]?.give(GIVEN);
    await turnOfTheLoop();
    answer(false);
    expect(await releasing).toBe(false);
    await turnOfTheLoop();
    expect(lock.takenBack).toBe(1);
  });

  it('is not repeated when it found the owner', async () => {
    const { lock, master } = slowMaster();
    lock.release.mockResolvedValueOnce(true);
    ask(master);
    expect(await master.release(OWNER)).toBe(true);
    lock.asked[0]?.give(GIVEN);
    await turnOfTheLoop();
    expect(lock.takenBack).toBe(0);
  });

  it('is repeated after a repair, though an older vote for the same owner was answered meanwhile', async () => {
    const { lock, master } = slowMaster();
    ask(master);
    const repaired = master.repair(OWNER, 2, 1_000);
    lock.asked[0]?.give(REFUSED);
    await turnOfTheLoop();
    await master.release(OWNER);
    lock.asked[1]?.give(GIVEN);
    await repaired;
    await turnOfTheLoop();
    expect(lock.reenter).toHaveBeenCalledWith(OWNER, 2, 0);
    expect(lock.takenBack).toBe(1);
  });
});
