// The part of the driver contract about connections: made at once and anew, lost with commands under way, closed for good.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { failureKind, isMereLoss } from '../../src/redis/failure.js';
import type { DriverKind } from './driver-contract.js';
import { fateOf, opened, readyClient, type Fate } from './driver-heard.js';
import { rejectionOf } from './clients.js';
import { eventually } from './eventually.js';
import { proxyPerTest } from './shared-proxy.js';
import { uniqueName } from './unique-name.js';

/** Long enough for whatever is sent a second time to have come. */
const A_WHILE_MS = 300;

export function connectionTests({ toServer }: DriverKind): void {
  describe('a connection', () => {
    const proxy = proxyPerTest();

    it('is made at once, and told of: a socket, then a handshake', async () => {
      await using one = opened(toServer(proxy().url));
      expect(one.client.isReady).toBe(false);
      await one.readyTimes(1);
      expect(one.states).toEqual(['connected', 'ready']);
      expect(one.failed).toEqual([]);
      expect(one.client.cluster).toBeUndefined();
      expect(one.client.address).toBe(`127.0.0.1:${proxy().port}`);
      expect(one.client.endpoint).toEqual({ host: '127.0.0.1', port: proxy().port });
    });

    it('counts what the server has said', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const { bytesRead } = one.client;
      await one.ask('echo', 'x'.repeat(1_000));
      expect(one.client.bytesRead).toBeGreaterThanOrEqual(bytesRead + 1_000);
    });

    it('that is refused is tried again until there is one, each attempt with its end', async () => {
      proxy().refuse();
      await using one = opened(toServer(proxy().url));
      await eventually(() => {
        expect(one.count('closed')).toBeGreaterThanOrEqual(2);
      });
      expect(one.failed.length).toBeGreaterThanOrEqual(2);
      expect(one.failed[0]).toMatchObject({ code: 'ECONNREFUSED' });
      await proxy().accept();
      await one.readyTimes(1);
      expect(await one.ask('ping')).toBe('PONG');
    });

    it('without which a command is sent: it fails at once, and does not run later', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const name = uniqueName();
      proxy().refuse();
      proxy().cut();
      await eventually(() => {
        expect(one.client.isReady).toBe(false);
      });
      const { failures } = fateOf(one.client, 'hset', name, 'f', 'v');
      await new Promise(setImmediate);
      expect(failures.map(failureKind)).toEqual(['unsent']);
      await proxy().accept();
      await one.readyTimes(2);
      await sleep(A_WHILE_MS);
      expect(await one.ask('exists', name)).toBe(0);
    });

    it('that is being dropped: a command fails at once, as one that was not sent', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const name = uniqueName();
      one.client.reconnect();
      const { failures } = fateOf(one.client, 'hset', name, 'f', 'v');
      await new Promise(setImmediate);
      expect(failures.map(failureKind)).toEqual(['unsent']);
      await one.readyTimes(2);
      await sleep(A_WHILE_MS);
      expect(await one.ask('exists', name)).toBe(0);
    });

    it('that is lost: each command under way is settled once, and none is sent again', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const name = uniqueName();
      const answered = Array.from({ length: 3 }, () => fateOf(one.client, 'ping'));
      await Promise.all(answered.map(({ promise }) => promise));
      proxy().blackhole('downstream');
      const lost = Array.from({ length: 20 }, () => fateOf(one.client, 'hincrby', name, 'f', 1));
      await sleep(A_WHILE_MS);
      proxy().heal('drop');
      proxy().cut();
      await one.readyTimes(2);
      await sleep(A_WHILE_MS);
      for (const fate of answered) expect(fate).toMatchObject({ replies: ['PONG'], failures: [] });
      for (const { replies, failures } of lost) {
        expect(replies).toEqual([]);
        expect(failures.map(failureKind)).toEqual(['unanswered']);
        expect(failures.every(isMereLoss)).toBe(true);
      }
      expect(Number(await one.ask('hget', name, 'f'))).toBe(20);
      await one.ask('del', name);
      expect(one.states).toEqual(['connected', 'ready', 'closed', 'connected', 'ready']);
    });

    it('that is lost when half of the replies have come: the others fail', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const early = fateOf(one.client, 'ping', 'early');
      await early.promise;
      proxy().loseReplyTo('late');
      const late = fateOf(one.client, 'ping', 'late');
      expect(failureKind(await rejectionOf(late.promise))).toBe('unanswered');
      await one.readyTimes(2);
      expect([early.replies, late.replies]).toEqual([['early'], []]);
    });

    it('is made anew when it is asked for', async () => {
      await using one = await readyClient(toServer(proxy().url));
      const late = fateOf(one.client, 'eval', "return 'may be lost'", 0);
      one.client.reconnect();
      await one.readyTimes(2);
      await late.promise.catch(() => undefined);
      expect(late.replies.length + late.failures.length).toBe(1);
      expect(await one.ask('ping')).toBe('PONG');
      expect(proxy().connections).toBe(2);
      expect(proxy().openConnections).toBe(1);
    });
  });

  describe('a client that is closed', () => {
    const proxy = proxyPerTest();

    /** Closes, and expects that nothing is left, and nothing comes. */
    async function closes(one: ReturnType<typeof opened>): Promise<void> {
      await one.client.close();
      proxy().heal('drop');
      const { length } = one.states.filter((state) => state !== 'closed');
      expect(one.client.isReady).toBe(false);
      await expect(one.ask('ping')).rejects.toThrow();
      await eventually(() => {
        expect(proxy().openConnections).toBe(0);
      });
      const { connections } = proxy();
      await sleep(A_WHILE_MS);
      expect(proxy().connections).toBe(connections);
      expect(one.states.filter((state) => state !== 'closed')).toHaveLength(length);
    }

    it('while it is ready: its commands under way are settled once', async () => {
      const one = await readyClient(toServer(proxy().url));
      proxy().blackhole('downstream');
      const fates: Fate[] = Array.from({ length: 5 }, () => fateOf(one.client, 'ping'));
      await closes(one);
      for (const { promise } of fates) await promise.catch(() => undefined);
      for (const { replies, failures } of fates) expect(replies.length + failures.length).toBe(1);
    });

    it('while it is connecting', async () => {
      proxy().blackhole();
      const one = opened(toServer(proxy().url));
      await eventually(() => {
        expect(one.count('connected')).toBe(1);
      });
      await closes(one);
    });

    it('in the turn in which it was made', async () => {
      await closes(opened(toServer(proxy().url)));
    });

    it('between two attempts to connect', async () => {
      proxy().refuse();
      const one = opened(toServer(proxy().url));
      await eventually(() => {
        expect(one.count('closed')).toBeGreaterThanOrEqual(1);
      });
      await closes(one);
    });

    it('twice', async () => {
      const one = await readyClient(toServer(proxy().url));
      await Promise.all([one.client.close(), one.client.close()]);
      await closes(one);
    });
  });
}
