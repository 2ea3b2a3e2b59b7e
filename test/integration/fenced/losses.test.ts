// Tokens grow even if the server forgets the last one: kill -9 and a restart without data, FLUSHALL.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FencedLock, Holdfast } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { expectGrowing, FENCED_KINDS, passThrough } from '../../support/fenced-locks.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

describe.each(FENCED_KINDS)('$title', ({ options }) => {
  let server: RedisServer;
  let one: Holdfast;
  let two: Holdfast;
  const lockOf = (client: Holdfast): FencedLock => client.getFencedLock('job', options);

  beforeEach(async () => {
    server = await startRedis();
    // So long that a release waits until its client has reconnected.
    const options = { redis: server.url, commandTimeout: 5_000 };
    [one, two] = [newClient(options), newClient(options)];
    for (const client of [one, two]) client.on('error', () => undefined); // that the server is gone
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
    await server[Symbol.asyncDispose]();
  });

  it('issues larger tokens after kill -9 and a restart without data, even to a waiter', async () => {
    const tokens = [await passThrough(lockOf(one))];
    for (let round = 0; round < 3; round++) {
      const hold = await lockOf(one).acquire();
      tokens.push(hold.token);
      const waiting = nextEvent(two, 'waiting');
      const next = lockOf(two).acquire();
      await waiting;
      await server.kill();
      await server.start();
      const theirs = await next;
      tokens.push(theirs.token);
      expect(await rejectionOf(hold.release())).toMatchObject({ code: 'LOCK_LOST' });
      await theirs.release();
    }
    expectGrowing(tokens);
  });
});
