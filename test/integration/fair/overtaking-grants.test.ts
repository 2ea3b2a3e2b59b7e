// A grant that overtakes the answer to the very join that it answers, while nobody of that client stands in line otherwise: it is
// heard, and nothing is asked for it.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { connectedClient } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import { startGrantProxy, type GrantProxy } from '../../support/grant-proxy.js';
import { loadScripts } from '../../support/lock-commands.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

let server: RedisServer;
let redis: Redis;
let proxy: GrantProxy;
let holder: Holdfast;
let receiver: Holdfast;
let line: FairLine;

/** The receiver has stood in line a moment ago: it is still subscribed to its grants. */
beforeEach(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  redis = new Redis(server.url);
  proxy = await startGrantProxy(server.url);
  holder = await connectedClient({ redis: server.url, lockWatchdogTimeout: 60_000 });
  receiver = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: 60_000 });
  line = new FairLine(redis);
  const hold = await line.lockOf(holder).acquire();
  const { done } = await line.join(receiver, 'before');
  await hold.release();
  await done;
});

afterEach(async () => {
  await Promise.all([holder.close(), receiver.close()]);
  redis.disconnect();
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

it('is taken as soon as that answer comes', async () => {
  const hold = await line.lockOf(holder).acquire();
  const grantsBefore = proxy.grants.length;
  let handedOver!: Hold;
  const commands = await recordCommands(server.url, async () => {
    proxy.setReplies('hold');
    let acquiring!: Promise<Hold>;
    await line.joined(receiver.clientId, () => {
      acquiring = line.lockOf(receiver).acquire();
    });
    await hold.release();
    await eventually(() => {
      expect(proxy.grants.length).toBe(grantsBefore + 1);
    });
    // The receiver has read the message when it has read this one, which was published after it.
    await redis.publish(proxy.grants.at(-1)!.channel, '0 nobody:1');
    await eventually(() => {
      expect(proxy.grants.length).toBe(grantsBefore + 2);
    });
    proxy.setReplies('pass');
    handedOver = await acquiring;
  });
  expect(handedOver.remaining()).toBeGreaterThan(30_000);
  const sent = commands.filter(({ name, byScript }) => name === 'EVALSHA' && !byScript);
  expect(sent.map(({ args }) => args[0])).toEqual([scripts.join.sha1, scripts.handOver.sha1]);
  await handedOver.release();
  await line.isGone();
});
