// The renewal of read-write locks after some of their holders were forced out.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { connectedClient } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

let server: RedisServer;
let redis: Redis;

beforeEach(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
}, 60_000);

afterEach(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

it('the renewal itself finds the holders that were forced out, without a further round trip for the others', async () => {
  const locks = Array.from({ length: 3 }, () => new TestReadWriteLock(redis));
  const [one, two] = await Promise.all(
    [3_000, 30_000].map((lockWatchdogTimeout) =>
      connectedClient({ redis: server.url, lockWatchdogTimeout }),
    ),
  );
  const [reader, writer, other] = await Promise.all([
    locks[0]!.readLock(one!).acquire(),
    locks[1]!.writeLock(one!).acquire(),
    locks[2]!.writeLock(one!).acquire(),
  ]);
  expect(await locks[0]!.readLock(two!).forceUnlock()).toBe(true);
  expect(await locks[1]!.writeLock(two!).forceUnlock()).toBe(true);
  const commands = await recordCommands(server.url, () =>
    eventually(() => {
      expect([reader, writer].map(({ signal }) => signal.aborted)).toEqual([true, true]);
    }, 10_000),
  );
  for (const { signal } of [reader, writer])
    expect(signal.reason).toMatchObject({ lossReason: 'forced' });
  expect(other.signal.aborted).toBe(false);
  expect(commands.filter(({ name, byScript }) => name === 'HDEL' && !byScript)).toEqual([]);
  const words = locks.map(({ name }) => `holdfast_forced_owners:{${name}}`);
  expect(await redis.exists(...words)).toBe(0); // they were for these owners alone
  await other.release();
  await Promise.all([one!.close(), two!.close()]);
});
