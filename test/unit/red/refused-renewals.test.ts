// A renewal of many Redlocks that a master refuses as a whole: it is asked for each of them alone.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { KeepReply, Watched } from '../../../src/core/protocol.js';
import type { Master } from '../../../src/locks/redlock/master.js';
import { RedRenewer, type RedTarget } from '../../../src/locks/redlock/renewal.js';
import { LostError, replyError } from '../../../src/redis/failure.js';
import type { ReentrantLockBackend } from '../../../src/locks/plain.js';

const LEASE_MS = 30_000;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** A server that says why it refuses a call for these locks, if it does. */
class FakeServer {
  /** The sizes of the calls that it got. */
  calls: number[] = [];
  readonly #refuse: (names: readonly string[]) => Error | undefined;

  constructor(refuse: (names: readonly string[]) => Error | undefined) {
    this.#refuse = refuse;
  }

  /** What one Redlock has there. */
  master(name: string): Master {
    const renewMany = (locks: readonly ReentrantLockBackend[]): Promise<KeepReply[]> => {
      this.calls.push(locks.length);
      const refusal = this.#refuse(locks.map((lock) => lock.name));
      return refusal ? Promise.reject(refusal) : Promise.resolve(locks.map(() => 'kept'));
    };
    return { lock: { name }, renewMany } as unknown as Master;
  }
}

const permitting = (): FakeServer => new FakeServer(() => undefined);
const refusing = (denied: string): FakeServer =>
  new FakeServer((names) => (names.includes(denied) ? replyError('NOPERM') : undefined));

/** Redlocks of these names over these servers. */
function batchOver(
  servers: readonly FakeServer[],
  ...names: string[]
): readonly Watched<RedTarget>[] {
  return names.map((name) => {
    const masters = servers.map((server) => server.master(name));
    const quorum = Math.floor(servers.length / 2) + 1;
    const lock = { batchKey: '', masters, quorum, nodeTimeoutMs: 100 };
    return { target: { lock, grant: { ownerId: `me:${name}` } } } as unknown as Watched<RedTarget>;
  });
}

it('by all masters, because of one of them, leaves the others renewed', async () => {
  const servers = [refusing('b'), refusing('b'), refusing('b')];
  const renewer = new RedRenewer(LEASE_MS);
  const replies = await renewer.renew(batchOver(servers, 'a', 'b', 'c'), LEASE_MS);
  expect(replies).toEqual(['kept', undefined, 'kept']);
  for (const { calls } of servers) expect(calls).toEqual([3, 1, 1, 1]);
});

it('by one master renews the others there, too', async () => {
  const servers = [permitting(), permitting(), refusing('b')];
  const renewer = new RedRenewer(LEASE_MS);
  const replies = await renewer.renew(batchOver(servers, 'a', 'b', 'c'), LEASE_MS);
  expect(replies).toEqual(['kept', 'kept', 'kept']);
  expect(servers.map(({ calls }) => calls)).toEqual([[3], [3], [3, 1, 1, 1]]);
});

it('that refuses keys of several slots has all of them renewed', async () => {
  const slots = (): FakeServer =>
    new FakeServer((names) => (names.length > 1 ? replyError('CROSSSLOT') : undefined));
  const renewer = new RedRenewer(LEASE_MS);
  const servers = [slots(), slots(), slots()];
  expect(await renewer.renew(batchOver(servers, 'a', 'b'), LEASE_MS)).toEqual(['kept', 'kept']);
});

it('that is lost, or refuses each of them, is not asked for each all the time', async () => {
  const lost = new FakeServer(() => new LostError());
  const closed = new FakeServer(() => replyError('NOPERM'));
  const renewer = new RedRenewer(LEASE_MS);
  const batch = batchOver([permitting(), lost, closed], 'a', 'b');
  for (let round = 1; round <= 3; round++)
    expect(await renewer.renew(batch, LEASE_MS)).toEqual([undefined, undefined]);
  expect(lost.calls).toEqual([2, 2, 2]);
  expect(closed.calls).toEqual([2, 1, 1, 2, 2]);
});
