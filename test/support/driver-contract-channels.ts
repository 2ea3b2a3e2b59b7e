// The part of the driver contract about channels: subscribed, heard, left, and not subscribed anew by the client itself.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest';
import { failureKind } from '../../src/redis/failure.js';
import { majorVersion, parseServerInfo } from '../../src/redis/server-info.js';
import type { DriverKind } from './driver-contract.js';
import { readyClient } from './driver-heard.js';
import { eventually } from './eventually.js';
import { proxyPerTest } from './shared-proxy.js';
import { uniqueName } from './unique-name.js';

/** Long enough for a message to come that should not. */
const A_WHILE_MS = 200;

export function channelTests({ toServer }: DriverKind): void {
  describe.each([
    ['a classic channel', false],
    ['a sharded channel', true],
  ])('%s', (_kind, isSharded) => {
    const proxy = proxyPerTest();
    let publisher: Redis;

    beforeEach(async ({ skip }) => {
      publisher = new Redis(inject('redisUrl'));
      const server = parseServerInfo(await publisher.info('server'));
      skip(isSharded && majorVersion(server) < 7, 'this server has no sharded channels');
    });

    afterEach(() => {
      publisher.disconnect();
    });

    /** Resolves to how many heard it. */
    function publish(channel: string, payload: string): Promise<unknown> {
      return isSharded ? publisher.spublish(channel, payload) : publisher.publish(channel, payload);
    }

    it('is heard from when its subscription is answered until it is left', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const channel = uniqueName('channel');
      expect(await one.subscribe(channel, isSharded)).toBe('told');
      expect([...one.client.shardedChannels]).toEqual(isSharded ? [channel] : []);
      expect(await publish(channel, 'first ✓')).toBe(1);
      await eventually(() => {
        expect(one.messages).toEqual([`${channel}: first ✓`]);
      });
      const denied: Error[] = [];
      one.client.unsubscribe(channel, isSharded, (error) => denied.push(error));
      await eventually(async () => {
        expect(await publish(channel, 'second')).toBe(0);
      });
      expect(denied).toEqual([]);
      expect([...one.client.shardedChannels]).toEqual([]);
    });

    it('is lost with its connection, and heard again when it is subscribed on the next', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const channel = uniqueName('channel');
      await one.subscribe(channel, isSharded);
      proxy().cut();
      await one.readyTimes(2);
      await sleep(A_WHILE_MS);
      expect(await publish(channel, 'missed')).toBe(0);
      expect(await one.subscribe(channel, isSharded)).toBe('told');
      expect(await publish(channel, 'heard')).toBe(1);
      await eventually(() => {
        expect(one.messages).toEqual([`${channel}: heard`]);
      });
    });

    it('that may not be subscribed: the refusal is the answer', async () => {
      const user = uniqueName().replaceAll(':', '-');
      await publisher.call('ACL', 'SETUSER', user, 'on', '>pw', '~*', 'resetchannels', '+@all');
      onTestFinished(async () => {
        const admin = new Redis(inject('redisUrl'));
        await admin.call('ACL', 'DELUSER', user);
        admin.disconnect();
      });
      const { host } = new URL(inject('redisUrl'));
      await using one = await readyClient(toServer(`redis://${user}:pw@${host}`));
      expect(failureKind(await one.subscribe(uniqueName('channel'), isSharded))).toBe('denied');
      expect(await one.ask('ping')).toBe('PONG');
    });

    it('that was asked for when the connection was lost may stay unanswered, and is never told of', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const answers: unknown[] = [];
      proxy().blackhole('downstream');
      one.client.subscribe([uniqueName('channel')], isSharded, (refusal) => answers.push(refusal));
      await sleep(A_WHILE_MS);
      proxy().heal('drop');
      proxy().cut();
      await one.readyTimes(2);
      expect(answers).not.toContain(undefined);
      expect(answers.length).toBeLessThanOrEqual(1);
    });
  });

  describe('classic channels', () => {
    it('are subscribed together', async () => {
      await using one = await readyClient(toServer(inject('redisUrl')));
      const channels = [uniqueName('channel'), uniqueName('channel')];
      const answers: unknown[] = [];
      one.client.subscribe(channels, false, (refusal) => answers.push(refusal));
      await one.ask('ping', 'behind them');
      expect(answers).toEqual([undefined]);
    });
  });
}
