// Owners that no caller needs any more: the client removes them as soon as the server answers.
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Cleanup } from '../../../src/core/cleanup.js';
import { LostError, UnsentError } from '../../../src/redis/failure.js';
import { WaitLimit } from '../../../src/runtime/wait-limit.js';
import { rejectionOf } from '../../support/clients.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { expectPending, settle } from '../../support/occupancy.js';

let client: FakeHoldfast;

beforeEach(async () => {
  vi.useFakeTimers();
  client = fakeHoldfast({ commandTimeout: 1_000 });
  await client.holdfast.ping();
});

afterEach(() => {
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** A caller gives up after its attempt ran without an answer; the removal stays unanswered as well, for as long as `fate` says so. */
async function giveUp(): Promise<void> {
  const { server, getLock } = client;
  server.fate = (command) => (command.startsWith('acquire') ? 'lost reply' : 'lost command');
  const error = rejectionOf(getLock('a').acquire({ wait: 150 }));
  await pass(200);
  expect(await error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(server.heldNames).toEqual(['a']);
}

describe('an owner that an abandoned attempt has left', () => {
  it('is removed as soon as the server answers, however many removals failed', async () => {
    await giveUp();
    await pass(3_500);
    expect(client.server.heldNames).toEqual(['a']);
    client.server.fate = () => 'answered';
    await pass(2_500);
    expect(client.server.heldNames).toEqual([]);
  });

  it('is removed after a reconnect', async () => {
    await giveUp();
    client.server.down();
    client.server.fate = () => 'answered';
    await pass(10_000);
    client.server.up();
    await pass(1_500);
    expect(client.server.heldNames).toEqual([]);
  });

  it('is removed without touching a later owner', async () => {
    await giveUp();
    client.server.hold('a', 'other:1');
    client.server.fate = () => 'answered';
    await pass(2_500);
    expect(client.server.holder('a')?.owner).toBe('other:1');
  });
});

describe('close()', () => {
  it('continues to remove owners until none is left', async () => {
    await giveUp();
    const closing = client.holdfast.close();
    await pass(300);
    await expectPending(closing);
    client.server.fate = () => 'answered';
    await pass(600);
    await closing;
    expect(client.server.heldNames).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('waits for the connection to come back', async () => {
    await giveUp();
    client.server.down();
    client.server.fate = () => 'answered';
    const closing = client.holdfast.close();
    await pass(300);
    await expectPending(closing);
    client.server.up();
    await pass(650);
    await closing;
    expect(client.server.heldNames).toEqual([]);
  });

  it('ends after commandTimeout, and sends nothing after that', async () => {
    await giveUp();
    const closing = client.holdfast.close();
    await pass(1_100);
    await closing;
    expect(vi.getTimerCount()).toBe(0);
    client.server.fate = () => 'answered';
    await pass(10_000);
    expect(client.server.heldNames).toEqual(['a']);
  });

  it('waits for the answer to an attempt that may still leave an owner', async () => {
    const { server, holdfast, getLock } = client;
    server.travel = () => new Promise((resolve) => setTimeout(resolve, 50));
    const error = rejectionOf(getLock('a').acquire());
    await settle();
    const closing = holdfast.close();
    await pass(400);
    await closing;
    expect(await error).toMatchObject({ code: 'CLIENT_CLOSED' });
    expect(server.commands[0]).toBe('acquire a me:1');
    expect(server.heldNames).toEqual([]);
  });
});

it('a removal is retried outside the context of the caller that asked for it', async () => {
  vi.useRealTimers(); // fake timers do not carry asynchronous contexts
  const cleanup = new Cleanup();
  const storage = new AsyncLocalStorage<string>();
  const triedIn: (string | undefined)[] = [];
  const release = async (): Promise<boolean> => {
    triedIn.push(storage.getStore());
    await Promise.resolve();
    if (triedIn.length === 1) throw new LostError();
    return true;
  };
  await storage.run('a caller', () => {
    cleanup.remove({ id: 'a', release }, 'me:1');
    return cleanup.close(new WaitLimit({ limitMs: 10_000 })); // which retries soon
  });
  expect(triedIn).toEqual(['a caller', undefined]);
});

it('of more than 10,000 pending removals the oldest is forgotten', async () => {
  const cleanup = new Cleanup();
  const released = new Set<string>();
  let isConnected = false;
  // One shared failure: separate ones, with their stack traces, take seconds on a busy machine.
  const unsent = Promise.reject(new UnsentError('not connected'));
  const release = (owner: string): Promise<boolean> => {
    if (!isConnected) return unsent;
    released.add(owner);
    return Promise.resolve(true);
  };
  for (let owner = 1; owner <= 10_001; owner++) cleanup.remove({ id: 'a', release }, `me:${owner}`);
  await pass(0);
  isConnected = true;
  cleanup.tryAgain();
  await pass(0);
  expect(released.size).toBe(10_000);
  expect(released).not.toContain('me:1');
});

it('an owner that is removed twice stays pending until the later removal is answered, whatever happened to the earlier one', async () => {
  const cleanup = new Cleanup();
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
  cleanup.remove(lock, 'me:1'); // a command that arrived after the first removal has left something
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
