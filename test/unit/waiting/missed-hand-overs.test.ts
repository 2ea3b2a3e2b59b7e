// A replica that takes over may have missed local hand-overs: then it has an earlier owner of the chain, which hands over once more.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { AcquireOptions, Hold, Lock } from '../../../src/index.js';
import { RedisClient } from '../../../src/redis/client.js';
import { fakeHoldfast, type FakeHoldfast, FakeServer } from '../../support/fake-holdfast.js';
import { gate, settle } from '../../support/occupancy.js';

const LEASE_MS = 30_000;

let client: FakeHoldfast;
let rival: FakeHoldfast;
let server: FakeServer;

beforeEach(async () => {
  vi.useFakeTimers();
  // As behind Sentinels, where releases are remembered for a new master.
  vi.spyOn(RedisClient.prototype, 'hasSentinels', 'get').mockReturnValue(true);
  server = new FakeServer({ replicaCount: 1 });
  client = fakeHoldfast({ server, lockWatchdogTimeout: LEASE_MS });
  rival = fakeHoldfast({ server, clientId: 'rival', lockWatchdogTimeout: LEASE_MS });
  await client.holdfast.ping();
  await rival.holdfast.ping();
});

afterEach(async () => {
  server.travel = () => Promise.resolve();
  const closed = Promise.all([client.holdfast.close(), rival.holdfast.close()]);
  await pass(LEASE_MS);
  await closed;
  expect(vi.getTimerCount()).toBe(0);
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

const KINDS: [string, () => Lock][] = [
  ['lock', () => client.getLock('a')],
  ['fenced lock', () => client.holdfast.getFencedLock('a')],
];

/** Callers that want these leases have the lock one after another; returns all their holds, of which the last is held. */
async function chain(
  lock: Lock = client.getLock('a'),
  requests: AcquireOptions[] = [{}, {}, {}],
): Promise<Hold[]> {
  const turns = requests.map((request) => lock.acquire(request));
  await settle();
  const holds: Hold[] = [];
  for (const turn of turns) {
    await holds.at(-1)?.release();
    holds.push(await turn);
  }
  const handOvers = server.commands.filter((command) => command.startsWith('hand over'));
  expect(handOvers).toHaveLength(requests.length - 1);
  return holds;
}

/** Whether somebody else gets the lock within a second. */
async function isFree(): Promise<boolean> {
  const taken = rival.getLock('a').tryLock(1_000);
  await pass(1_000);
  const isTaken = await taken;
  if (isTaken) await rival.getLock('a').unlock();
  return isTaken;
}

describe.each(KINDS)('the third holder of a %s that was handed over twice', (_, lockOf) => {
  it.each([
    ['the first owner', 2],
    ['the second owner', 1],
    ['the third owner', 0],
  ])('keeps it if the new master has %s', async (_owner, lose) => {
    const holds = await chain(lockOf());
    server.failOver(lose);
    await pass(1_000);
    const last = holds.at(-1)!;
    expect(client.told('lost')).toEqual([]);
    expect(last.remaining()).toBeGreaterThan(LEASE_MS / 2);
    expect(server.holder('a')?.owner).toBe(last.ownerId);
    await pass(2 * LEASE_MS); // it is renewed as before
    await last.extend(LEASE_MS);
    expect(server.holder('a')?.owner).toBe(last.ownerId);
    await last.release();
    expect(server.heldNames).toEqual([]);
  });

  it.each([
    ['the first owner', 3],
    ['the second owner', 2],
    ['the third owner', 1],
  ])('leaves nothing if it has released it, and the new master has %s', async (_owner, lose) => {
    const holds = await chain(lockOf());
    await holds.at(-1)!.release();
    server.failOver(lose);
    expect(server.heldNames).toEqual(['a']);
    expect(await isFree()).toBe(true);
    expect(client.told('lost')).toEqual([]);
  });
});

it('a holder keeps the lock over two failovers, each of which misses the hand-overs', async () => {
  const holds = await chain();
  server.failOver(2);
  await pass(1_000);
  server.failOver(1);
  await pass(1_000);
  expect(server.holder('a')?.owner).toBe(holds[2]!.ownerId);
  expect(client.told('lost')).toEqual([]);
});

it('a lease that its caller has fixed ends no later than before', async () => {
  const holds = await chain(undefined, [{}, { lease: 10_000 }]);
  await pass(4_000);
  server.failOver(1);
  await pass(1_000);
  const remainingMs = holds[1]!.remaining();
  expect(remainingMs).toBeGreaterThan(4_500);
  expect(remainingMs).toBeLessThanOrEqual(5_000);
  const ttlMs = await client.getLock('a').remainTimeToLive();
  expect(ttlMs).toBeGreaterThan(remainingMs);
  expect(ttlMs).toBeLessThanOrEqual(5_001);
});

it('an earlier owner is remembered for as long as its own lease', async () => {
  const holds = await chain(undefined, [{ lease: 600_000 }, { lease: 1_000 }]);
  await holds[1]!.release();
  await pass(5_000);
  server.failOver(2);
  expect(server.heldNames).toEqual(['a']);
  expect(await isFree()).toBe(true);
});

describe('a failover before the hand-over is answered', () => {
  async function unanswered(): Promise<{
    released: Promise<void>;
    last: Hold;
    answer: () => void;
  }> {
    const lock = client.getLock('a');
    const turns = [lock.acquire(), lock.acquire(), lock.acquire()];
    await settle();
    await (await turns[0]!).release();
    const second = await turns[1]!;
    const { opened, open } = gate();
    server.travel = (to) => (to === 'client' ? opened : Promise.resolve());
    const released = second.release();
    released.catch(() => undefined);
    const last = await turns[2]!;
    await settle();
    const answer = (): void => {
      server.travel = () => Promise.resolve();
      open();
    };
    return { released, last, answer };
  }

  it.each([
    ['the first owner', 2],
    ['the second owner', 1],
    ['the third owner', 0],
  ])('leaves the successor the lock if the new master has %s', async (_, lose) => {
    const { released, last, answer } = await unanswered();
    server.failOver(lose);
    answer();
    await pass(1_000);
    await released;
    expect(client.told('lost')).toEqual([]);
    expect(server.holder('a')?.owner).toBe(last.ownerId);
    await last.release();
    expect(server.heldNames).toEqual([]);
  });
});

it('an extension and a release under way in a failover find the lock', async () => {
  const holds = await chain();
  const { opened, open } = gate();
  server.travel = (to) => (to === 'client' ? opened : Promise.resolve());
  const extended = holds[2]!.extend(60_000);
  const released = holds[2]!.release();
  await settle();
  server.failOver(3);
  server.travel = () => Promise.resolve();
  open();
  await pass(1_000);
  await Promise.all([extended, released]);
  expect(client.told('lost')).toEqual([]);
  expect(server.heldNames).toEqual([]);
});

it('earlier owners are removed when the hand-over may not be repeated, but only after the holder was told of the loss', async () => {
  const holds = await chain();
  const { signal } = holds[2]!;
  const early: string[] = [];
  server.fate = (command) => {
    if (command.startsWith('release') && !signal.aborted) early.push(command);
    return command.startsWith('hand over') ? 'denied' : 'answered';
  };
  server.failOver(2);
  await pass(1_000);
  expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', lossReason: 'taken' });
  expect(early).toEqual([]);
  expect(server.heldNames).toEqual([]);
  expect(await isFree()).toBe(true);
});

it('a hand-over that is repeated late leaves nothing when the holder has released the lock meanwhile', async () => {
  const holds = await chain();
  let isLoading = true;
  server.fate = (command) => (isLoading && !command.startsWith('acquire') ? 'loading' : 'answered');
  server.failOver(2);
  await pass(300);
  const released = holds[2]!.release().catch((error: unknown) => error);
  await pass(500);
  isLoading = false;
  await pass(3_000);
  await released;
  expect(server.heldNames).toEqual([]);
});

it('close() right after the failover leaves no owner of the chain', async () => {
  await chain();
  server.failOver(2);
  await settle();
  const closed = client.holdfast.close();
  await pass(3_000);
  await closed;
  expect(server.heldNames).toEqual([]);
});

it('a hold that was adopted stays held if the new master has missed the adoption', async () => {
  const exported = await (await rival.getLock('a').acquire()).export();
  const hold = await client.holdfast.adopt(exported);
  server.failOver(1);
  await pass(1_000);
  expect(client.told('lost')).toEqual([]);
  expect(server.holder('a')?.owner).toBe(hold.ownerId);
  await hold.release();
  server.failOver(2);
  expect(server.heldNames).toEqual(['a']);
  expect(await isFree()).toBe(true);
});

it('an owner that was forced out, or removed by the clean-up, does not come back with a failover', async () => {
  const hold = await client.getLock('a').acquire();
  await rival.getLock('a').forceUnlock();
  await hold.extend(1_000).catch(() => undefined);
  expect(client.told('lost')).toHaveLength(1);
  server.failOver(2); // the forced unlock, and the note of it
  expect(server.heldNames).toEqual(['a']);
  expect(await isFree()).toBe(true);

  const { opened, open } = gate();
  server.travel = (to) => (to === 'client' ? opened : Promise.resolve());
  const aborter = new AbortController();
  const given = client.getLock('a').acquire({ signal: aborter.signal });
  given.catch(() => undefined);
  await settle();
  aborter.abort();
  await settle();
  server.travel = () => Promise.resolve();
  open();
  await pass(1_000);
  expect(server.heldNames).toEqual([]);
  server.failOver(1);
  expect(server.heldNames).toEqual(['a']);
  expect(await isFree()).toBe(true);
});
