// Redlocks of which masters refuse one renewal for all, because of one key or of their slots: the others are still renewed there.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/time.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { KeptLeases } from '../../support/full-memory.js';
import { RedNodes } from '../../support/red-nodes.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, startMasters, type Cluster } from '../../support/redis-topologies.js';
import { nameToken, uniqueName } from '../../support/unique-name.js';

expectOutages();

const WATCHED = { lockWatchdogTimeout: 1_500 };
describe('a user without permission for a key of one of several Redlocks', () => {
  let nodes: RedNodes & AsyncDisposable;
  let admins: Redis[];

  beforeAll(async () => {
    const masters = await startMasters(3);
    nodes = Object.assign(new RedNodes(masters), masters);
    admins = masters.map(({ url }) => new Redis(url));
    for (const admin of admins)
      await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '+@all', '&*');
  });

  afterAll(async () => {
    for (const admin of admins) admin.disconnect();
    await nodes[Symbol.asyncDispose]();
  });

  it.each([
    ['a majority of the masters', [0, 1, 2], 'forced'],
    ['one master', [2], 'forced'],
    ['a majority of the masters', [0, 1, 2], 'longest_lease'],
  ])('on %s keeps the others, on all of them (%j, %s)', async (_, deniedOn, deniedKey) => {
    const other = deniedKey === 'forced' ? 'longest_lease' : 'forced';
    const patterns = [
      `~${nameToken}:*`,
      `~holdfast_${other}:*`,
      `~holdfast_${deniedKey}:{${nameToken}:permitted:*`,
    ];
    for (const admin of admins) await admin.call('ACL', 'SETUSER', 'app', '~*');
    const urls = nodes.servers.map(({ host, port }) => `redis://app:secret@${host}:${port}`);
    await using client = await nodes.client(WATCHED, urls);
    const permitted = Array.from({ length: 3 }, () => client.lock(uniqueName('permitted')));
    const denied = client.lock(uniqueName('denied'));
    const holds = await Promise.all(permitted.map((lock) => lock.acquire()));
    const refused = await denied.acquire();
    for (const index of deniedOn)
      await admins[index]!.call('ACL', 'SETUSER', 'app', 'resetkeys', ...patterns);
    await new KeptLeases(client.holdfast).areRenewed(permitted.map(({ name }) => name));
    for (const [index, lock] of permitted.entries())
      expect(await nodes.owners(lock)).toEqual(Array(3).fill(holds[index]!.ownerId));
    await eventually(() => {
      expect(refused.signal.aborted).toBe(deniedOn.length > 1);
    });
    for (const admin of admins) await admin.call('ACL', 'SETUSER', 'app', '~*');
    await Promise.all(holds.map((hold) => hold.release()));
    if (!refused.signal.aborted) await refused.release();
    for (const lock of [...permitted, denied]) await nodes.nothingLeft(lock);
  });
});

describe.skipIf(topologiesUnavailable)('over clusters of one master each', () => {
  let clusters: Cluster[];

  beforeAll(async () => {
    clusters = await Promise.all([1, 2, 3].map(() => startCluster({ masterCount: 1 })));
  }, 60_000);

  afterAll(async () => {
    await Promise.all(clusters.map((cluster) => cluster[Symbol.asyncDispose]()));
  });

  it('several Redlocks are kept over several leases, on all of them', async () => {
    const nodes = new RedNodes(clusters.map(({ masters }) => masters[0]!));
    await using client = await nodes.client(WATCHED);
    const locks = Array.from({ length: 3 }, () => client.lock(uniqueName()));
    const holds = await Promise.all(locks.map((lock) => lock.acquire()));
    await new KeptLeases(client.holdfast).areRenewed(locks.map(({ name }) => name));
    for (const [index, lock] of locks.entries())
      expect(await nodes.owners(lock)).toEqual(Array(3).fill(holds[index]!.ownerId));
    await Promise.all(holds.map((hold) => hold.release()));
    for (const lock of locks) await nodes.nothingLeft(lock);
  });
});
