// Outside any run: unlock() goes by the latest lock() or tryLock() of the code that calls it.
import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Lock } from '../../../src/api/lock.js';
import { elsewhere } from '../../support/clients.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { gate, settle } from '../../support/occupancy.js';

const NOT_HELD = { code: 'LOCK_NOT_HELD' };

let client: FakeHoldfast;
let lock: Lock;

beforeEach(() => {
  client = fakeHoldfast();
  lock = client.getLock('a');
});

/** The usual code of somebody who comes from Java; only the caller that gets the lock does the `work`. */
async function classic(work: () => Promise<unknown>): Promise<string> {
  let outcome = 'busy';
  try {
    if (await client.getLock('a').tryLock()) {
      await work();
      outcome = 'done';
    }
  } finally {
    await client
      .getLock('a')
      .unlock()
      .catch((error: unknown) => {
        outcome += ` ${(error as { code: string }).code}`;
      });
  }
  return outcome;
}

const BUSY = 'busy LOCK_NOT_HELD';

describe('finally { unlock() } after a tryLock() that returned false', () => {
  it("frees no other request's lock, sends nothing, and says what to do", async () => {
    await elsewhere(() => lock.lock());
    await elsewhere(async () => {
      expect(await lock.tryLock()).toBe(false);
      const { length } = client.server.commands;
      await expect(lock.unlock()).rejects.toMatchObject({
        ...NOT_HELD,
        message: expect.stringMatching(/where tryLock\(\) returned true.*withLock.*run/) as unknown,
      });
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
      expect(client.server.commands).toHaveLength(length);
    });
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });

  it('in branches of Promise.all: only the one that has the lock frees it', async () => {
    const branches = Promise.all([classic(settle), classic(settle), classic(settle)]);
    expect(await branches).toEqual(['done', BUSY, BUSY]);
    expect(client.server.heldNames).toEqual([]);
  });

  it('in listeners of one event', async () => {
    const emitter = new EventEmitter();
    const listeners: Promise<string>[] = [];
    emitter.on('job', () => listeners.push(classic(settle)));
    for (let event = 0; event < 3; event++) emitter.emit('job');
    expect(await Promise.all(listeners)).toEqual(['done', BUSY, BUSY]);
    expect(client.server.heldNames).toEqual([]);
  });

  it('in one event of a socket while another of its events has the lock', async () => {
    const socket = new AsyncResource('socket'); // before Node.js 24 the store of one event stays for the next
    const { opened, open } = gate();
    const first = socket.runInAsyncScope(() => classic(() => opened));
    await settle();
    const others: Promise<string>[] = [];
    for (let event = 0; event < 3; event++) {
      others.push(socket.runInAsyncScope(() => classic(settle)));
      await settle();
    }
    expect(await Promise.all(others)).toEqual([BUSY, BUSY, BUSY]);
    expect(client.server.heldNames).toEqual(['a']);
    open();
    expect(await first).toBe('done');
    expect(await socket.runInAsyncScope(() => classic(settle))).toBe('done');
  });

  it('in a worker loop, round after round', async () => {
    for (let round = 0; round < 5; round++) {
      await elsewhere(() => lock.lock());
      for (let tries = 0; tries < 3; tries++) expect(await classic(settle)).toBe(BUSY);
      await elsewhere(() => lock.unlock());
      expect(await classic(settle)).toBe('done');
    }
    expect(client.server.heldNames).toEqual([]);
  });

  it('after a tryLock() or lock() that threw', async () => {
    await elsewhere(() => lock.lock());
    for (const call of [
      () => lock.tryLock({ signal: AbortSignal.abort() }),
      () => lock.tryLock(-5),
      () => lock.lock(-5),
      () => lock.lock({ signal: AbortSignal.abort() }),
    ])
      await elsewhere(async () => {
        await expect(call()).rejects.toThrow();
        await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
      });
    await elsewhere(() => lock.unlock());
  });

  it('after a tryLock() without an answer, when somebody else got the lock since', async () => {
    client.server.down();
    await expect(lock.tryLock(20)).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    client.server.up();
    await elsewhere(() => lock.lock());
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    await elsewhere(() => lock.unlock());
  });

  it('is not reported as a lock "under way" while others of this client wait for it', async () => {
    await elsewhere(() => lock.lock());
    const waiting = elsewhere(() => lock.lock());
    await settle();
    await elsewhere(async () => {
      expect(await lock.tryLock()).toBe(false);
      await expect(lock.unlock()).rejects.toThrow('did not get it');
    });
    await elsewhere(() => lock.unlock());
    await waiting;
    await elsewhere(() => lock.unlock());
  });

  it('isHeldByCurrentOwner() and getHoldCount() show it, too', async () => {
    await elsewhere(() => lock.lock());
    await elsewhere(async () => {
      expect(await lock.tryLock()).toBe(false);
      expect(await lock.isHeldByCurrentOwner()).toBe(false);
      expect(await lock.getHoldCount()).toBe(0);
    });
    await elsewhere(() => lock.unlock());
  });

  it('with more locks than are remembered: the newest are', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `many:${String(index)}`);
    await elsewhere(() => Promise.all(names.map((name) => client.getLock(name).lock())));
    await elsewhere(async () => {
      const outer = client.getLock('outer');
      await outer.lock();
      for (const name of names) {
        expect(await client.getLock(name).tryLock()).toBe(false);
        await expect(client.getLock(name).unlock()).rejects.toMatchObject(NOT_HELD);
      }
      await outer.unlock();
      // From now on this code cannot know that it has no call of its own.
      await expect(client.getLock(names[0]!).unlock()).rejects.toThrow(
        'oldest calls are forgotten',
      );
      await expect(client.getLock('none').unlock()).rejects.toMatchObject(NOT_HELD);
      expect(await client.getLock(names[0]!).getHoldCount()).toBe(0);
    });
    expect(client.server.heldNames).toHaveLength(names.length);
    await elsewhere(() => Promise.all(names.map((name) => client.getLock(name).unlock())));
  });
});

describe("unlock() undoes this code's own lock", () => {
  it('even if a called function locked it', async () => {
    await (async () => {
      expect(await client.getLock('a').tryLock()).toBe(true);
    })();
    await lock.unlock();
    expect(client.server.heldNames).toEqual([]);
  });

  it('but not if that function had to try several times, after a try of this code', async () => {
    const { opened, open } = gate();
    void elsewhere(() => classic(() => opened));
    await settle();
    const untilLocked = async (): Promise<void> => {
      for (let tries = 1; !(await lock.tryLock()); tries++) {
        if (tries === 100) open(); // (a day of such tries leaves no more marks than two)
        await settle();
      }
    };
    expect(await lock.tryLock()).toBe(false);
    await untilLocked();
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });

  it('but not if that function locked, unlocked and locked again after a failed try', async () => {
    await elsewhere(() => lock.lock());
    const helper = async (): Promise<void> => {
      expect(await lock.tryLock()).toBe(false);
      await elsewhere(() => lock.unlock());
      await lock.lock();
      await lock.unlock();
      await lock.lock();
    };
    await helper();
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    await elsewhere(() => lock.unlock());
  });

  it('but not if it was locked in the body of a withLock() of another lock after a failed try', async () => {
    await elsewhere(() => lock.lock());
    expect(await lock.tryLock()).toBe(false);
    await elsewhere(() => lock.unlock());
    await client.getLock('other').withLock(() => lock.lock());
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    await elsewhere(() => lock.unlock());
  });

  it('but not after a failed tryLock() inside', async () => {
    await lock.lock();
    const inner = async (): Promise<boolean> => lock.tryLock();
    expect(await inner()).toBe(false);
    expect(await inner()).toBe(false);
    expect(await lock.isHeldByCurrentOwner()).toBe(false);
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });

  it('after failed calls for other locks, at the same time or before', async () => {
    const [a, b, c] = [lock, client.getLock('b'), client.getLock('c')] as const;
    await elsewhere(() => b.lock());
    expect(await Promise.all([a.tryLock(), b.tryLock(), c.tryLock()])).toEqual([true, false, true]);
    await expect(b.unlock()).rejects.toMatchObject(NOT_HELD);
    await a.unlock();
    await c.unlock();
    await elsewhere(() => b.unlock());
    expect(client.server.heldNames).toEqual([]);
  });

  it('after a failed call of another client in the process', async () => {
    const other = fakeHoldfast({ clientId: 'other', server: client.server });
    await lock.lock();
    expect(await other.getLock('a').tryLock()).toBe(false);
    await expect(other.getLock('a').unlock()).rejects.toMatchObject(NOT_HELD);
    await lock.unlock();
    expect(client.server.heldNames).toEqual([]);
  });

  it('and reports the loss of no lock after a failed try', async () => {
    await elsewhere(async () => {
      await lock.lock(30);
      await sleep(40);
      client.server.hold('a'); // somebody takes it
      expect(await lock.tryLock()).toBe(false);
      await elsewhere(async () => {
        expect(await lock.tryLock()).toBe(false);
        await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
      });
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    });
  });
});

describe('code without a call of its own', () => {
  it('undoes the oldest lock(), as in a timer or an event', async () => {
    const { opened, open } = gate();
    const job = elsewhere(async () => {
      await lock.lock();
      await opened;
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD); // somebody has undone it
    });
    await settle();
    await elsewhere(() => lock.unlock());
    expect(client.server.heldNames).toEqual([]);
    open();
    await job;
  });

  it('does not if its own lock was undone before', async () => {
    await lock.lock();
    await lock.unlock();
    await elsewhere(() => lock.lock());
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });
});

describe('code whose tryLock() failed does not undo a later lock', () => {
  it('by a helper that first awaits something, each time', async () => {
    await elsewhere(() => lock.lock());
    expect(await lock.tryLock()).toBe(false);
    await elsewhere(() => lock.unlock());
    const take = async (): Promise<void> => {
      await settle();
      await lock.lock();
    };
    for (let round = 0; round < 3; round++) {
      await take();
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
      await elsewhere(() => lock.unlock());
    }
    expect(client.server.heldNames).toEqual([]);
  });

  it('by a timer that it has set, even if that has failed before', async () => {
    await elsewhere(() => lock.lock());
    expect(await lock.tryLock()).toBe(false);
    const [failedTwice, acquired] = [gate(), gate()];
    let failures = 0;
    const timer = setInterval(() => {
      void lock.tryLock().then((isLocked) => {
        if (isLocked) acquired.open();
        else if (++failures === 2) failedTwice.open();
      });
    }, 5);
    await failedTwice.opened;
    await elsewhere(() => lock.unlock());
    await acquired.opened;
    clearInterval(timer);
    await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
    expect(client.server.heldNames).toEqual(['a']);
    await elsewhere(() => lock.unlock());
  });
});

describe('failed calls are forgotten', () => {
  it('with a run: it does not know those around it, and leaves none', async () => {
    await elsewhere(() => lock.lock());
    expect(await lock.tryLock()).toBe(false);
    await client.run(async () => {
      await expect(lock.unlock()).rejects.toThrow('this run has no lock()');
      expect(await lock.tryLock()).toBe(false);
      await client.detach(() => lock.unlock());
    });
    await elsewhere(() => lock.lock());
    await expect(lock.unlock()).rejects.toThrow('did not get it');
    await elsewhere(() => lock.unlock());
  });

  it('with detach()', async () => {
    await elsewhere(() => lock.lock());
    expect(await client.detach(() => lock.tryLock())).toBe(false);
    await lock.unlock();
    await elsewhere(() => lock.lock());
    expect(await lock.tryLock()).toBe(false);
    await client.detach(() => lock.unlock());
    expect(client.server.heldNames).toEqual([]);
  });

  it('with an event of the client: its listeners have calls of their own', async () => {
    await elsewhere(() => lock.lock());
    const unlocked = new Promise((resolve) => {
      client.holdfast.on('acquired', ({ lockName }) => {
        if (lockName === 'b') resolve(lock.unlock());
      });
    });
    expect(await lock.tryLock()).toBe(false);
    await client.getLock('b').lock();
    await unlocked;
    await client.getLock('b').unlock();
    expect(client.server.heldNames).toEqual([]);
  });

  it('but not with withLock() or hold.run()', async () => {
    await elsewhere(() => lock.lock());
    const other = client.getLock('b');
    expect(await lock.tryLock()).toBe(false);
    await other.withLock(async (hold) => {
      await expect(lock.unlock()).rejects.toMatchObject(NOT_HELD);
      await hold.run(() => expect(lock.unlock()).rejects.toMatchObject(NOT_HELD));
    });
    await elsewhere(() => lock.unlock());
  });
});

describe('of a MultiLock', () => {
  it('a failed tryLock() counts for each of its members, and for no other lock', async () => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => client.getLock(name)) as [Lock, Lock, Lock];
    const multi = (): Lock => client.holdfast.getMultiLock(a, b);
    await elsewhere(() => multi().lock());
    await elsewhere(async () => {
      await c.lock();
      expect(await multi().tryLock()).toBe(false);
      for (const refused of [multi(), a, b])
        await expect(refused.unlock()).rejects.toThrow('did not get it');
      await c.unlock();
    });
    expect(client.server.heldNames).toEqual(['a', 'b']);
    await elsewhere(() => multi().unlock());
    expect(client.server.heldNames).toEqual([]);
  });

  it('unlock() undoes nothing after a failed try of one member', async () => {
    const members = [lock, client.getLock('b')];
    const multi = client.holdfast.getMultiLock(...members);
    await multi.lock();
    expect(await lock.tryLock()).toBe(false);
    await expect(multi.unlock()).rejects.toThrow('did not get it');
    expect(client.server.heldNames).toEqual(['a', 'b']);
    await elsewhere(() => multi.unlock());
    expect(client.server.heldNames).toEqual([]);
  });
});

describe('of a read-write lock', () => {
  it('a failed call for one half does not count for the other half', async () => {
    const rw = client.holdfast.getReadWriteLock('rw');
    const [readLock, writeLock] = [rw.readLock(), rw.writeLock()];
    await elsewhere(() => readLock.lock());
    await elsewhere(async () => {
      await readLock.lock();
      expect(await writeLock.tryLock()).toBe(false);
      await expect(writeLock.unlock()).rejects.toThrow(
        'the lock() or tryLock() of the write lock of this code',
      );
      await readLock.unlock();
    });
    expect(client.server.access('rw')).toBe('R');
    await elsewhere(() => readLock.unlock());
    expect(client.server.access('rw')).toBe('');
  });
});
