// Grants, the messages by which a fair lock is handed over, may come twice, or be nobody's: they change nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eventsOf, sharedConnection } from '../../support/clients.js';
import { grantedLinePerTest, type Grant } from '../../support/grant-proxy.js';

const redis = sharedConnection();
const granted = grantedLinePerTest(redis);

describe('a grant that is doubled', () => {
  it('while its waiter holds the lock: nothing happens', async () => {
    const { line, proxy, hold, first, twoCallers } = granted();
    const acquired = eventsOf(first, 'acquired');
    const [one, two] = await twoCallers();
    await hold.release();
    await line.hasTurn('first');
    await repeat(proxy.grants[0]!);
    expect(await redis.hvals(line.name)).toEqual(['1']);
    await Promise.all([one.end(), two.end()]);
    expect(line.turns).toEqual(['first', 'second']);
    expect(acquired).toHaveLength(1);
  });

  it('after its waiter let go: nothing happens', async () => {
    const { line, proxy, hold, twoCallers } = granted();
    const [one, two] = await twoCallers();
    await hold.release();
    await line.hasTurn('first');
    await one.end();
    await line.hasTurn('second');
    const holderNow = await line.holder();
    await repeat(proxy.grants[0]!);
    expect(await line.holder()).toBe(holderNow);
    await two.end();
    expect(line.turns).toEqual(['first', 'second']);
  });

  it('after its waiter let go and waits again: it goes on waiting', async () => {
    const { line, proxy, hold, first, twoCallers } = granted();
    const [one, two] = await twoCallers();
    await hold.release();
    await line.hasTurn('first');
    await one.end();
    await line.hasTurn('second');
    const again = await line.join(first, 'first again');
    const owners = await line.owners();
    const [grant] = proxy.grants;
    const [nonce] = grant!.payload.split(' ');
    await repeat(grant!);
    await repeat({ ...grant!, payload: `${nonce} ${again.ownerId}` }); // with a nonce that is old
    await repeat({ ...grant!, payload: `${Number.MAX_SAFE_INTEGER} ${again.ownerId}` }); // or no such
    expect(line.turns).toEqual(['first', 'second']);
    expect(await line.owners()).toEqual(owners);
    await two.end();
    await again.done;
    expect(line.turns).toEqual(['first', 'second', 'first again']);
  });

  it('before its waiter has its turn, with any payload: it goes on waiting', async () => {
    const { line, hold, twoCallers } = granted();
    const [one, two] = await twoCallers();
    const [owner] = await line.owners();
    const channels = (await redis.pubsub('CHANNELS', `*${line.name}*`)) as string[];
    const grants = channels.filter((channel) => channel.startsWith('holdfast_grants:'));
    for (const channel of grants) {
      for (const payload of [
        '',
        '0',
        'x y z',
        `1 ${owner}`,
        `${owner} 1`,
        `-1 ${owner}`,
        '1 a:1',
      ]) {
        await repeat({ channel, payload }, 20);
      }
    }
    expect(line.turns).toEqual([]);
    await hold.release();
    await Promise.all([one.end(), two.end()]);
    expect(line.turns).toEqual(['first', 'second']);
  });

  async function repeat({ channel, payload }: Grant, waitMs = 200): Promise<void> {
    expect(await redis.publish(channel, payload)).toBe(1);
    await sleep(waitMs);
  }
});
