// The watchdog: the cost of renewing, what it renews and what not, and the effect of one failing renewal.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { scripts } from '../../../src/redis/scripts.generated.js';
import type { Hold, Holdfast } from '../../../src/index.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  nextEvent,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf, loadScripts, rises, watchTtl } from '../../support/lock-commands.js';
import { countCommands, recordCommands } from '../../support/recorded-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

describe('5,000 watched holds', () => {
  it('cost at most 15 script calls per round, and none is renewed late', async () => {
    const leaseMs = 9_000; // long enough to acquire 5,000 locks on a machine that is busy with other tests
    await using server = await startRedis();
    await using client = newClient({
      redis: server.url,
      lockWatchdogTimeout: leaseMs,
      commandTimeout: 10_000, // for 5,000 releases at once on a busy machine
    });
    const lost = eventsOf(client, 'lost');
    const errors = eventsOf(client, 'error');
    const renewals = new Renewals(client);
    const holds = await Promise.all(
      Array.from({ length: 5_000 }, (_, i) => client.getLock(`${name}:${i}`).acquire()),
    );
    const owners = holds.map(({ ownerId }) => ownerId);
    await renewals.ofAll(owners, 1);

    const counts = await countCommands(server.url, () => renewals.ofAll(owners, 2));

    const scriptCalls = (counts['evalsha'] ?? 0) + (counts['eval'] ?? 0);
    expect(scriptCalls).toBeGreaterThan(0);
    expect(scriptCalls).toBeLessThanOrEqual(2 * 15);
    expect(renewals.longestGapMs).toBeLessThan((2 / 3) * leaseMs);
    expect(Math.min(...holds.map((hold) => hold.remaining()))).toBeGreaterThan(leaseMs / 2);
    expect(lost).toEqual([]);
    expect(errors).toEqual([]);
    await Promise.all(holds.map((hold) => hold.release()));
  }, 60_000);
});

/** The times at which each owner was renewed. */
class Renewals {
  /** The longest time between an acquisition and its first renewal, or between two renewals. */
  longestGapMs = 0;
  readonly #lastMs = new Map<string, number>();
  readonly #counts = new Map<string, number>();

  constructor(client: Holdfast) {
    client.on('acquired', ({ ownerId }) => this.#lastMs.set(ownerId, performance.now()));
    client.on('renewed', ({ ownerId }) => {
      const nowMs = performance.now();
      const gapMs = nowMs - (this.#lastMs.get(ownerId) ?? nowMs);
      this.longestGapMs = Math.max(this.longestGapMs, gapMs);
      this.#lastMs.set(ownerId, nowMs);
      this.#counts.set(ownerId, (this.#counts.get(ownerId) ?? 0) + 1);
    });
  }

  /** Resolves when each owner was renewed this many more times. */
  async ofAll(owners: readonly string[], more: number): Promise<void> {
    const goals = owners.map((owner) => ({ owner, count: this.#count(owner) + more }));
    await eventually(() => {
      const behind = goals.filter(({ owner, count }) => this.#count(owner) < count);
      if (behind.length > 0) throw new Error(`${behind.length} were not renewed`);
    }, 40_000);
  }

  #count(owner: string): number {
    return this.#counts.get(owner) ?? 0;
  }
}

describe('a fixed lease', () => {
  it('is checked and not extended', async () => {
    await using proxy = await startSharedProxy();
    await using client = newClient({ redis: proxy.url });
    const renewed = eventsOf(client, 'renewed');
    await using hold = await client.getLock(name).acquire({ lease: 60_000 });
    const looks = Array.from({ length: 3 }, () => proxy.copyNext(commandOf('renew', name)));
    const seen: number[] = [];
    for (const { happened } of looks)
      seen.push(...(await watchTtl(redis, name, 250)), await ttlAfter(happened));
    expect(rises(seen)).toBe(false);
    expect(renewed).toEqual([]);
    expect(hold.signal.aborted).toBe(false);
  });

  async function ttlAfter(event: Promise<void>): Promise<number> {
    await event;
    return await redis.pttl(name);
  }

  it('ends for its holder when it is over, beside watched ones that continue', async () => {
    await using client = newClient({ lockWatchdogTimeout: 3_000 });
    await using watched = await client.getLock(uniqueName()).acquire();
    const lost = nextEvent(client, 'lost');
    const fixed = await client.getLock(name).acquire({ lease: 4_000 });
    expect(await lost).toMatchObject({ ownerId: fixed.ownerId, lossReason: 'expired' });
    expect(watched.remaining()).toBeGreaterThan(0);
  });

  it('whose key is deleted is lost at the next check', async () => {
    await using client = newClient({ lockWatchdogTimeout: 1_500 });
    const hold = await client.getLock(name).acquire({ lease: 600_000 });
    const lost = nextEvent(client, 'lost');
    await redis.del(name);
    expect(await lost).toMatchObject({ ownerId: hold.ownerId, lossReason: 'deleted' });
  });
});

describe('a released hold', () => {
  it('is never renewed again, whenever it is released', async () => {
    await using server = await startRedis();
    await loadScripts(server.url);
    // Connected: nothing is sent when the recording begins.
    await using client = await connectedClient({ redis: server.url, lockWatchdogTimeout: 2_000 });
    const released: string[] = [];
    const commands = await recordCommands(server.url, async () => {
      const holds: Hold[] = [];
      for (let i = 0; i < 200; i++) holds.push(await client.getLock(`${name}:${i}`).acquire());
      await Promise.all(
        holds.map(async (hold, i) => {
          await sleep(i * 10); // three rounds long
          await hold.release();
          released.push(hold.ownerId);
        }),
      );
      await using last = await client.getLock(name).acquire();
      await nextEvent(client, 'renewed');
      expect(last.signal.aborted).toBe(false);
    });

    const over = new Set<string>();
    let renewedCount = 0;
    for (const { args, byScript } of commands) {
      if (byScript) continue;
      if (args[0] === scripts.release.sha1) over.add(args[3]!);
      if (args[0] !== scripts.renew.sha1) continue;
      renewedCount++;
      expect(args.filter((arg) => over.has(arg))).toEqual([]);
    }
    expect(renewedCount).toBeGreaterThan(2);
    expect(released.filter((owner) => !over.has(owner))).toEqual([]);
  });
});
