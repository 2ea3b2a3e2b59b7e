import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Holdfast } from '../../../../src/index.js';
import { MemoryRedis } from '../../../../src/testing/memory-redis.js';

void test('a lock is kept for as long as its holder works, and no longer than its lease', async () => {
  const redis = new MemoryRedis();
  await using holdfast = new Holdfast({ redis });
  const watched = await holdfast.getLock('watched').acquire();
  const fixed = await holdfast.getLock('fixed').acquire({ lease: 60_000 });
  await redis.advance(60_000);
  assert.equal(watched.signal.aborted, false);
  assert.equal(fixed.signal.aborted, true);
  assert.deepEqual(redis.holders('fixed'), []);
});
