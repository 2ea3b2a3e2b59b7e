// What a Redlock reports when it is not acquired: another client has it, or too few masters answer; node by node.
import { describe, expect, it } from 'vitest';
import { KeyConflictError, LockTimeoutError, QuorumError } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { RedNodes, redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(5));

describe('false and LockTimeoutError mean that another client has the lock', () => {
  it('when most masters say "held"', async () => {
    await using client = await nodes.client();
    const lock = client.lock(uniqueName());
    await nodes.holdBy('somebody:1', lock, [0, 2, 4]);
    expect(await lock.tryLock()).toBe(false);
    expect(await lock.tryLock(200)).toBe(false);
    expect(await lock.tryAcquire()).toBeUndefined();
    const error = await rejectionOf(lock.acquire({ wait: 200 }));
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ holder: 'somebody:1', lockName: lock.name });
    await nodes.remove(lock, [0, 2, 4]);
    await nodes.nothingLeft(lock);
  });

  it('when two clients hold masters so that no majority is left', async () => {
    await using client = await nodes.client();
    const lock = client.lock(uniqueName());
    await nodes.holdBy('somebody:1', lock, [0, 1]);
    await nodes.holdBy('somebody:2', lock, [2]);
    expect(await lock.tryLock()).toBe(false);
    expect(await lock.isLocked()).toBe(true);
    await nodes.remove(lock, [0, 1, 2]);
  });
});

describe('QuorumError means that too few masters answer', () => {
  it('and lists each master with its answer', async () => {
    await using servers = await startMasters(5);
    const own = new RedNodes(servers);
    await using client = await own.client();
    await servers[3]!.kill();
    await servers[4]!.kill();
    const lock = client.lock(uniqueName());
    await own.holdBy('somebody:1', lock, [0, 1], 50_000);
    const error = await rejectionOf(lock.tryLock());
    expect(error).toBeInstanceOf(QuorumError);
    const held = { answer: 'held', holder: 'somebody:1' };
    const unreachable = { answer: 'unreachable', reason: expect.stringMatching(/\S/) as string };
    expect((error as QuorumError).nodes).toMatchObject([
      held,
      held,
      { answer: 'acquired' },
      unreachable,
      unreachable,
    ]);
    for (const [index, { host, port }] of servers.entries()) {
      const node = `${host}:${port}`;
      expect((error as QuorumError).nodes[index]).toMatchObject({ node });
      expect((error as QuorumError).message).toContain(node);
    }
    expect((error as QuorumError).message).toContain('1 of 5 masters confirm it, 3 are needed');
    expect((error as QuorumError).message).toMatch(/held by somebody:1 for \d+ ms/);
    expect(error).toMatchObject({ code: 'NO_QUORUM', lockName: lock.name });
    // The answers of the others do not make it "held", either.
    await expect(lock.acquire({ wait: 200 })).rejects.toBeInstanceOf(QuorumError);
    await own.remove(lock, [0, 1]);
    await own.nothingLeft(lock);
  });

  it('a query is answered by a majority; otherwise the error says what is missing', async () => {
    await using servers = await startMasters(3);
    const own = new RedNodes(servers);
    await using client = await own.client({ commandTimeout: 1_000 });
    const lock = client.lock(uniqueName(), { nodeTimeout: 200 });
    await client.holdfast.run(async () => {
      await lock.lock();
      await servers[0]!.kill();
      expect(await lock.isLocked()).toBe(true);
      expect(await lock.isHeldByCurrentOwner()).toBe(true);
      expect(await lock.getHoldCount()).toBe(1);
      expect(await lock.remainTimeToLive()).toBeGreaterThan(0);
      await servers[1]!.kill();
      await expect(lock.isLocked()).rejects.toBeInstanceOf(QuorumError);
      const free = client.lock(uniqueName(), { nodeTimeout: 200 });
      // The third master, which answers, has this lock, and has not the other one.
      for (const query of ['getHoldCount', 'remainTimeToLive'] as const)
        expect(await rejectionOf(lock[query]())).toMatchObject({
          nodes: [{}, {}, { answer: 'acquired' }],
        });
      expect(await rejectionOf(free.remainTimeToLive())).toMatchObject({
        nodes: [{}, {}, { answer: 'gone' }],
      });
      await expect(lock.forceUnlock()).rejects.toBeInstanceOf(QuorumError);
      await servers[1]!.start();
      await lock.unlock().catch(() => undefined);
    });
  });
});

it('another value at the key on most masters is a conflict, and stays unchanged', async () => {
  await using client = await nodes.client();
  const lock = client.lock(uniqueName());
  await nodes.ask((redis) => redis.set(lock.name, 'text'));
  expect(await rejectionOf(lock.acquire({ wait: 500 }))).toBeInstanceOf(KeyConflictError);
  expect(await nodes.ask((redis) => redis.get(lock.name))).toEqual(Array(5).fill('text'));
  await nodes.remove(lock, [0, 1, 2, 3, 4]);
});
