// `replicas: n`: an extension of a lease counts only when n replicas know it, so that none of them ends it before its holder does.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { cutReplication } from '../../support/redis-topologies.js';
import { replicatedPerTest } from '../../support/failovers.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('a lease that replicas must know', () => {
  const present = replicatedPerTest();

  function connect(options: Partial<HoldfastOptions> = {}): Holdfast {
    const redis = present().servers.master.url;
    return newClient({ redis, replicas: 1, commandTimeout: 5_000, ...options });
  }

  const short = { lockWatchdogTimeout: 4_500 };
  const long = { lockWatchdogTimeout: 30_000 };

  it('survives if the replicas are back before it ends', async () => {
    const { servers } = present();
    await using client = connect(short);
    const lost = eventsOf(client, 'lost');
    const hold = await client.getLock(uniqueName()).acquire();
    await nextEvent(client, 'renewed');
    await servers.replicas[0]!.pause();
    await nextEvent(client, 'error');
    await servers.replicas[0]!.resume();
    await nextEvent(client, 'renewed');
    await sleep(short.lockWatchdogTimeout);
    expect(lost).toEqual([]);
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
  });

  it.each([
    ['is over when', 1],
    ['is relied on although', 0],
  ])(
    'on a master that was cut off %s somebody gets in at its successor (replicas: %d)',
    async (_, replicas) => {
      const { servers, replica } = present();
      await using holder = connect({ ...short, replicas });
      await using rival = newClient({ redis: servers.replicas[0]!.url });
      const hold = await holder.getLock(uniqueName()).acquire();
      await nextEvent(holder, 'renewed');
      await cutReplication(servers.master);
      await replica.replicaof('NO', 'ONE');
      await using theirs = await rival.getLock(hold.lockName).acquire();
      expect(theirs.remaining()).toBeGreaterThan(0);
      expect(hold.remaining() > 0).toBe(replicas === 0);
    },
  );

  it('is not extended by a nested acquisition that too few of them know', async () => {
    const { servers, replica } = present();
    await using client = connect({ ...long, commandTimeout: 1_000 });
    const lock = client.getLock(uniqueName());
    await using hold = await lock.acquire({ lease: 5_000 });
    await servers.replicas[0]!.pause();
    await hold.run(async () => {
      const error = await rejectionOf(lock.acquire({ lease: 60_000 }));
      expect(String(error)).toContain('0 of 1 replicas acknowledged it');
    });
    expect(hold.remaining()).toBeLessThan(5_000);
    await servers.replicas[0]!.resume();
    await hold.run(async () => {
      await using nested = await lock.acquire({ lease: 60_000 });
      expect(await replica.pttl(hold.lockName)).toBeGreaterThanOrEqual(
        Math.floor(nested.remaining()),
      );
    });
  });

  it('ends on the master alone: neither a release nor a nested one waits for them', async () => {
    const { servers, master } = present();
    await using client = connect(long);
    const lock = client.getLock(uniqueName());
    const outer = await lock.acquire();
    const inner = await outer.run(() => lock.acquire());
    await servers.replicas[0]!.pause();
    const before = performance.now();
    await inner.release();
    await outer.release();
    expect(performance.now() - before).toBeLessThan(1_000);
    expect(await master.exists(lock.name)).toBe(0);
  });

  it('of a lock whose key is gone is over, whatever the replicas answer', async () => {
    const { servers, master } = present();
    await using client = connect(short);
    const names = [uniqueName(), uniqueName()];
    const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
    await nextEvent(client, 'renewed');
    const lost = nextEvent(client, 'lost');
    await master.del(names[0]!);
    await servers.replicas[0]!.pause();
    expect(await lost).toMatchObject({ lockName: names[0], lossReason: 'deleted' });
    expect(holds[1]!.remaining()).toBeGreaterThan(0);
  });
});
