// Owners that nobody wants any more: removed as soon as the server answers.
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Cleanup } from '../../../src/core/cleanup.js';
import { WaitEnded, WaitLimit } from '../../../src/runtime/wait-limit.js';
import { LostError, UnsentError } from '../../../src/redis/failure.js';
import { Schedule } from '../../../src/runtime/schedule.js';
import { FakeNode, FakeServer } from '../../support/fake-backend.js';
import { expectPending } from '../../support/occupancy.js';

let server: FakeServer;
let node: FakeNode;
let cleanup: Cleanup;

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeServer();
  node = new FakeNode(server, 'me', 30_000, new Schedule());
  cleanup = new Cleanup();
  server.hold('a', 'me:1');
});

afterEach(() => {
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

it('is removed at once where the server answers', async () => {
  cleanup.remove(node.lock('a'), 'me:1');
  await pass(0);
  expect(server.heldNames).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

describe('an owner that a command may still make one after it was removed', () => {
  it.each([
    ['left something', () => Promise.resolve(true), []],
    ['is not answered', () => Promise.reject(new LostError()), []],
    ['left nothing', () => Promise.resolve(false), ['a']],
    ['was not sent', () => Promise.reject(new UnsentError('not connected')), ['a']],
  ])('is removed as it needs when the command %s', async (_, send, left) => {
    cleanup.removeAfter(send(), () => {
      cleanup.remove(node.lock('a'), 'me:1');
    });
    await pass(0);
    expect(server.heldNames).toEqual(left);
  });

  it('is waited for by whoever closes', async () => {
    let answer: (isLeft: boolean) => void = () => undefined;
    cleanup.removeAfter(new Promise((resolve) => (answer = resolve)), () => {
      cleanup.remove(node.lock('a'), 'me:1');
    });
    const closing = cleanup.close(new WaitLimit({ limitMs: 1_000 }));
    answer(true);
    await closing;
    expect(server.heldNames).toEqual([]);
  });
});

it('is tried again until the server answers', async () => {
  server.fate = () => 'lost command';
  cleanup.remove(node.lock('a'), 'me:1');
  await pass(3_500);
  expect(server.heldNames).toEqual(['a']);
  server.fate = () => 'answered';
  await pass(1_000);
  expect(server.heldNames).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

it('is tried again outside the context of whoever did not want it any more', async () => {
  vi.useRealTimers(); // faked ones know no contexts
  const storage = new AsyncLocalStorage<string>();
  const triedIn: (string | undefined)[] = [];
  const release = async (): Promise<boolean> => {
    triedIn.push(storage.getStore());
    await Promise.resolve();
    if (triedIn.length === 1) throw new LostError();
    return true;
  };
  const removed = storage.run('a caller', () => {
    cleanup.remove({ id: 'a', release }, 'me:1');
    return cleanup.close(new WaitLimit({ limitMs: 10_000 })); // which tries again soon
  });
  await removed;
  expect(triedIn).toEqual(['a caller', undefined]);
});

it('waits for the connection where there is none, without a timer', async () => {
  server.fate = () => 'unsent';
  cleanup.remove(node.lock('a'), 'me:1');
  await pass(0);
  expect(vi.getTimerCount()).toBe(0);
  server.fate = () => 'answered';
  cleanup.tryAgain();
  await pass(0);
  expect(server.heldNames).toEqual([]);
});

it('is tried again soon where there is a connection, but none to the one node of a cluster', async () => {
  cleanup = new Cleanup(() => true);
  server.fate = () => 'unsent';
  cleanup.remove(node.lock('a'), 'me:1');
  await pass(0);
  server.fate = () => 'answered';
  await pass(1_000);
  expect(server.heldNames).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

it('is forgotten, the oldest first, when there are more than anybody would wait for', async () => {
  server.fate = () => 'unsent';
  server.hold('b', 'me:2');
  cleanup.remove(node.lock('a'), 'me:1');
  cleanup.remove(node.lock('b'), 'me:2');
  // One failure for all: so many of their own, with their stack traces, take seconds on a busy machine.
  const unsent = Promise.reject(new UnsentError('not connected'));
  const others = { id: 'c', release: () => unsent };
  for (let owner = 3; owner <= 10_001; owner++) cleanup.remove(others, `me:${owner}`);
  await pass(0);
  server.fate = () => 'answered';
  cleanup.tryAgain();
  await pass(0);
  expect(server.heldNames).toEqual(['a']);
});

it('that was removed twice is tried again until the later removal is answered, whatever became of the earlier', async () => {
  const answers: ((error?: Error) => void)[] = [];
  const release = vi.fn(
    () =>
      new Promise<boolean>((resolve, reject) => {
        answers.push((error) => {
          if (error) reject(error);
          else resolve(false);
        });
      }),
  );
  const lock = { id: 'a', release };
  cleanup.remove(lock, 'me:1');
  cleanup.remove(lock, 'me:1'); // a command that the first removal overtook has left something
  answers[0]!();
  await pass(0);
  answers[1]!(new LostError());
  await pass(0);
  cleanup.tryAgain();
  expect(release).toHaveBeenCalledTimes(3);
  answers[2]!();
  await pass(0);
  cleanup.tryAgain();
  expect(release).toHaveBeenCalledTimes(3);
});

it('does not free what somebody else has got since', async () => {
  server.hold('a', 'other:1');
  cleanup.remove(node.lock('a'), 'me:1');
  await pass(10);
  expect(server.holder('a')?.owner).toBe('other:1');
  expect(vi.getTimerCount()).toBe(0);
});

describe('close', () => {
  it('goes on trying until nothing is left', async () => {
    server.fate = () => 'lost command';
    cleanup.remove(node.lock('a'), 'me:1');
    const closing = cleanup.close(new WaitLimit({ limitMs: 10_000 }));
    await pass(500);
    await expectPending(closing);
    server.fate = () => 'answered';
    await pass(100);
    await closing;
    expect(server.heldNames).toEqual([]);
  });

  it('waits for the connection to come back', async () => {
    server.fate = () => 'unsent';
    cleanup.remove(node.lock('a'), 'me:1');
    const closing = cleanup.close(new WaitLimit({ limitMs: 10_000 }));
    await pass(500);
    await expectPending(closing);
    server.fate = () => 'answered';
    cleanup.tryAgain();
    await pass(0);
    await closing;
    expect(server.heldNames).toEqual([]);
  });

  it('does not wait for the second after which an open client would try again', async () => {
    server.fate = () => 'lost command';
    cleanup.remove(node.lock('a'), 'me:1');
    await pass(0);
    server.fate = () => 'answered';
    const closing = cleanup.close(new WaitLimit({ limitMs: 500 }));
    await pass(0);
    await closing;
    expect(server.heldNames).toEqual([]);
  });

  it('ends with the patience, and nothing is tried after that', async () => {
    server.fate = () => 'lost command';
    cleanup.remove(node.lock('a'), 'me:1');
    const waitLimit = new WaitLimit({ limitMs: 500 });
    const ended = expect(cleanup.close(waitLimit)).rejects.toBeInstanceOf(WaitEnded);
    await pass(600);
    await ended;
    waitLimit.dispose();
    cleanup.remove(node.lock('a'), 'me:1');
    await pass(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('waits for what may still leave something', async () => {
    let answered!: () => void;
    const trying = new Promise<void>((resolve) => (answered = resolve));
    cleanup.expect(
      trying.then(() => {
        cleanup.remove(node.lock('a'), 'me:1');
      }),
    );
    const closing = cleanup.close(new WaitLimit({ limitMs: Infinity }));
    await expectPending(closing);
    answered();
    await closing;
    expect(server.heldNames).toEqual([]);
  });
});
