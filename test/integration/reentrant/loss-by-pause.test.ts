// A process that is suspended for longer than its lease never believes that it holds a lock that somebody else has.
import { describe, expect, inject, it } from 'vitest';
import { startChild, type Child } from '../../support/child.js';
import { newClient } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 900;

// For holders that must not lose the lock, however busy this machine is.
const lasting = { lockWatchdogTimeout: 30_000 };

describe('a holder whose process was suspended for two leases', () => {
  it('has lost its lock after its event loop was blocked', async () => {
    await using child = startHolder();
    await using other = newClient(lasting);
    const name = uniqueName();
    child.send({ type: 'acquire', name });
    await child.next('acquired');
    child.send({ type: 'block', ms: 2 * LEASE_MS });
    await using taken = await other.getLock(name).acquire();
    const takenAt = Date.now();

    expect(await child.next('blocked')).toMatchObject({ believes: false });
    expect(await child.next('lost')).toMatchObject({ lossReason: 'expired' });
    await expectNoBelief(child, takenAt);
    expect(taken.remaining()).toBeGreaterThan(0);
    await ends(child);
  });

  it('has lost its lock after its process was stopped and continued', async () => {
    await using child = startHolder();
    await using other = newClient(lasting);
    const name = uniqueName();
    child.send({ type: 'acquire', name });
    await child.next('acquired');
    child.pause();
    await using taken = await other.getLock(name).acquire();
    const takenAt = Date.now();
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS));
    child.resume();

    expect(await child.next('lost')).toMatchObject({ lossReason: 'expired' });
    await expectNoBelief(child, takenAt);
    expect(taken.remaining()).toBeGreaterThan(0);
    await ends(child);
  });

  it('still has its lock after a stop shorter than the lease', async () => {
    await using child = startHolder(6_000);
    await using other = newClient(lasting);
    const name = uniqueName();
    child.send({ type: 'acquire', name });
    await child.next('acquired');
    child.pause();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    child.resume();
    expect(await other.getLock(name).tryLock()).toBe(false);
    child.send({ type: 'release' });
    await child.next('released');
    await ends(child);
  });

  function startHolder(lockWatchdogTimeout = LEASE_MS): Child {
    return startChild('believer.ts', {
      HOLDFAST_TEST_REDIS_URL: inject('redisUrl'),
      HOLDFAST_TEST_OPTIONS: JSON.stringify({ lockWatchdogTimeout }),
    });
  }

  async function expectNoBelief(child: Child, since: number): Promise<void> {
    child.send({ type: 'report' });
    const { lastBelievedAt, lastLookedAt } = await child.next('report');
    expect(lastLookedAt).toBeGreaterThan(since);
    expect(lastBelievedAt).toBeLessThanOrEqual(since);
    child.send({ type: 'release' });
    expect(await child.next('failed')).toMatchObject({ code: 'LOCK_LOST' });
  }

  async function ends(child: Child): Promise<void> {
    child.send({ type: 'close' });
    expect(await child.exited()).toEqual({ code: 0, signal: null });
    expect(child.output).toBe('');
  }
});
