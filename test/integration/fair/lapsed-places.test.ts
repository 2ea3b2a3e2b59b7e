// Places that nobody keeps: they neither stay on the server, nor delay the live waiters.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine, type Caller } from '../../support/fair-line.js';

const LEASE_MS = 3_000;

const redis = sharedConnection();
let line: FairLine;
let holder: Holdfast;
let client: Holdfast;
let hold: Hold;

beforeEach(async () => {
  line = new FairLine(redis);
  holder = newClient({ lockWatchdogTimeout: LEASE_MS });
  client = newClient({ lockWatchdogTimeout: LEASE_MS });
  hold = await line.lockOf(holder).acquire();
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([holder, client].map((each) => each.close()));
});

it('places of callers that give up after the line was deleted do not stay beside the live ones', async () => {
  const aborter = new AbortController();
  const leaving: Caller[] = [];
  for (let index = 0; index < 5; index++) {
    leaving.push(await line.join(client, String(index), { signal: aborter.signal }));
  }
  await redis.del(line.keys[1]);
  aborter.abort();
  await Promise.allSettled(leaving.map(({ done }) => done));
  const living = await line.join(client, 'living');
  await eventually(async () => {
    expect(await redis.hkeys(line.keys[2])).toEqual([living.ownerId]);
  }, 2 * LEASE_MS);
  await hold.release();
  await living.done;
});

describe('2,500 lapsed places at the head of the line', () => {
  let living: Caller;

  beforeEach(async () => {
    living = await line.join(client, 'living');
    const pipeline = redis.pipeline();
    for (let index = 1; index <= 2_500; index++) {
      pipeline.zadd(line.keys[1], index, `dead:${index}`);
      pipeline.hset(line.keys[2], `dead:${index}`, '1 1 0 1 token');
    }
    await pipeline.exec();
  });

  it('are skipped by a release, which goes to the live waiter behind them', async () => {
    await hold.release();
    await living.done;
    expect(line.turns).toEqual(['living']);
  });

  it('are dropped 1,000 at a time by a release, and a waiter continues if the holder does not', async () => {
    const [channel, publish, grants] = ['channel', 'PUBLISH', 'grants:'];
    const args = [hold.ownerId, channel, publish, grants, publish, 1];
    const answer = await redis.evalsha(scripts.handOver.sha1, 3, ...line.keys, ...args);
    expect(answer).toEqual([1, '', -3]);
    expect(await redis.zcard(line.keys[1])).toBe(1_501);
    await living.done;
    await expect(hold.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });
});
