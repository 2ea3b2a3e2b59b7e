import { once } from 'node:events';
import { expect, it } from 'vitest';
import { Holdfast } from '../../../../src/index.js';
import { MemoryRedis } from '../../../../src/testing/memory-redis.js';
import { sendReport } from './report.js';

it('waits for the lock, and sends the report once more if the lock is lost', async () => {
  const redis = new MemoryRedis();
  await using holdfast = new Holdfast({ redis });
  await using another = new Holdfast({ redis }); // as another program would
  const theirs = await another.getLock('report').acquire();

  const sent: AbortSignal[] = [];
  const sending = sendReport(holdfast, async (signal) => {
    sent.push(signal);
    if (sent.length === 1) await once(signal, 'abort'); // the first time it takes too long
  });
  await redis.advance(30_000);
  expect(sent).toHaveLength(0); // half a minute later it waits still

  await theirs.release();
  await redis.advance(0);
  expect(sent).toHaveLength(1);
  expect(redis.holders('report')).toHaveLength(1);

  redis.restart({ empty: true }); // the lock is gone, which its client notices when it has reconnected
  await redis.advance(10_000);
  await sending;
  expect(sent[0]?.aborted).toBe(true);
  expect(sent).toHaveLength(2);
});
