// What a client does when a Sentinel tells of a failover, and what of the Sentinels' connections is left.
import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import { beforeEach, expect, it, vi } from 'vitest';
import { withFailoversHeard } from '../../../../src/redis/ioredis/failovers.js';

interface Sentinel {
  readonly host: string;
}

class Listener extends EventEmitter {
  readonly options: { password?: string } = {};
  readonly disconnect = vi.fn();
  readonly subscribe = vi.fn<(...channels: string[]) => Promise<number>>().mockResolvedValue(1);
}

const SWITCHED = 'ours 10.0.0.1 6379 10.0.0.2 6379';

let listeners: Map<string, Listener>;
let connector: {
  connecting: boolean;
  failoverDetector: { cleanup: () => void } | null;
  sentinelIterator: { sentinels: Sentinel[]; reset: (isLastFirst: boolean) => void };
  connectToSentinel: (sentinel: Sentinel) => Listener;
  initFailoverDetector: () => Promise<void>;
};
let redis: EventEmitter & {
  status: string;
  manuallyClosing: boolean;
  options: { name: string; sentinelPassword?: string };
};
let socket: { remoteAddress: string; remotePort: number; destroy: () => void };

beforeEach(() => {
  listeners = new Map();
  connector = {
    connecting: true,
    failoverDetector: null,
    sentinelIterator: { sentinels: [{ host: 'a' }, { host: 'b' }, { host: 'c' }], reset: vi.fn() },
    connectToSentinel: ({ host }) => {
      const listener = new Listener();
      listeners.set(host, listener);
      return listener;
    },
    initFailoverDetector: () => Promise.reject(new Error("this is ioredis' own")),
  };
  socket = { remoteAddress: '10.0.0.1', remotePort: 6379, destroy: vi.fn() };
  redis = Object.assign(new EventEmitter(), {
    status: 'ready',
    manuallyClosing: false,
    options: { name: 'ours' },
    stream: socket,
    connector,
  });
  withFailoversHeard(redis as unknown as Redis);
});

function asked(): string {
  return connector.sentinelIterator.sentinels.map(({ host }) => host).join('');
}

it.each([
  ['+switch-master', SWITCHED],
  ['+promoted-slave', 'slave 10.0.0.2:6379 10.0.0.2 6379 @ ours 10.0.0.1 6379'],
])('a client leaves at %s, and asks the Sentinel that told it first', async (channel, message) => {
  await connector.initFailoverDetector();
  listeners.get('c')!.emit('ready');
  expect(listeners.get('c')!.subscribe.mock.calls.flat()).toContain(channel);
  listeners.get('c')!.emit('message', channel, message);
  expect(socket.destroy).toHaveBeenCalledOnce();
  expect(asked()).toBe('cab');
});

it('a client that is at the new master already stays there', async () => {
  await connector.initFailoverDetector();
  socket.remoteAddress = '10.0.0.2';
  listeners.get('a')!.emit('message', '+switch-master', SWITCHED);
  expect(socket.destroy).not.toHaveBeenCalled();
});

it('a client stays where it is when another group has a failover', async () => {
  await connector.initFailoverDetector();
  listeners.get('a')!.emit('message', '+switch-master', SWITCHED.replace('ours', 'theirs'));
  listeners
    .get('b')!
    .emit('message', '+promoted-slave', 'slave 10.0.0.2:6379 10.0.0.2 6379 @ theirs 10.0.0.1 6379');
  expect(socket.destroy).not.toHaveBeenCalled();
  expect(asked()).toBe('abc');
});

it('a client that hears of a failover while it asks for the way leaves what it was shown, once', async () => {
  await connector.initFailoverDetector();
  redis.status = 'connecting';
  listeners.get('b')!.emit('message', '+switch-master', SWITCHED);
  expect(socket.destroy).not.toHaveBeenCalled();
  await connector.initFailoverDetector();
  // The one that told it stays in front of the one that has answered, which may not have heard.
  expect(connector.sentinelIterator.reset).toHaveBeenLastCalledWith(false);
  redis.status = 'connect';
  redis.emit('connect');
  expect(socket.destroy).toHaveBeenCalledOnce();
  await connector.initFailoverDetector();
  redis.emit('connect');
  expect(socket.destroy).toHaveBeenCalledOnce();
});

it('a client that waits to connect anew only asks the Sentinel first that told it', async () => {
  await connector.initFailoverDetector();
  redis.status = 'reconnecting';
  listeners.get('b')!.emit('message', '+switch-master', SWITCHED);
  await connector.initFailoverDetector();
  redis.emit('connect');
  expect(socket.destroy).not.toHaveBeenCalled();
  expect(asked()).toBe('bac');
});

it('a connection to a Sentinel that fails disturbs nobody', async () => {
  await connector.initFailoverDetector();
  expect(() => listeners.get('a')!.emit('error', new Error('connect ECONNREFUSED'))).not.toThrow();
});

it('the connections to Sentinels stay while the client connects anew, and are closed with it', async () => {
  await connector.initFailoverDetector();
  const opened = [...listeners.values()];
  connector.failoverDetector!.cleanup();
  connector.sentinelIterator.sentinels.push({ host: 'd' });
  await connector.initFailoverDetector();
  expect(opened).toEqual([...listeners.values()].slice(0, 3));
  for (const { disconnect } of opened) expect(disconnect).not.toHaveBeenCalled();
  redis.manuallyClosing = true;
  connector.failoverDetector!.cleanup();
  expect(listeners.size).toBe(4);
  for (const { disconnect } of listeners.values()) expect(disconnect).toHaveBeenCalledOnce();
});

it('the connections to Sentinels are closed when ioredis gives the client up', async () => {
  await connector.initFailoverDetector();
  redis.emit('end');
  for (const { disconnect } of listeners.values()) expect(disconnect).toHaveBeenCalledOnce();
});

it('the connections to Sentinels are made anew with the credentials that there are by then', async () => {
  await connector.initFailoverDetector();
  redis.options.sentinelPassword = 'changed';
  expect(listeners.get('a')!.options.password).toBe('changed');
});

it('a client listens to ten Sentinels at most', async () => {
  connector.sentinelIterator.sentinels = Array.from({ length: 12 }, (_, host) => ({
    host: String(host),
  }));
  await connector.initFailoverDetector();
  await connector.initFailoverDetector();
  expect(listeners.size).toBe(10);
});

it('a client that was closed while it connected opens none', async () => {
  connector.connecting = false;
  await connector.initFailoverDetector();
  expect(listeners.size).toBe(0);
});

it('another ioredis is left as it is', () => {
  const plain = { connector: { connect: vi.fn() } } as unknown as Redis;
  expect(withFailoversHeard(plain)).toBe(plain);
});
