// Whether the connection for subscriptions is left where it is, or has to go where the commands go.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Link, SubscriptionListener } from '../../../src/redis/link.js';
import { SameServer } from '../../../src/redis/same-server.js';

const A = 'run_id:aaaa';
const B = 'run_id:bbbb';

let idOfCommands: string | undefined;
let listener: SubscriptionListener;
let answer: ((info: string) => void) | undefined;
let reconnects: number;
let subscribed: number;
let isReady: boolean;
let same: SameServer;

beforeEach(() => {
  vi.useFakeTimers();
  [idOfCommands, answer, reconnects, subscribed, isReady] = [undefined, undefined, 0, 0, false];
  same = new SameServer(() => idOfCommands);
  const link = {
    get isReady() {
      return isReady;
    },
    ask: (_command: string, _args: string[], read: (info: string) => void) => {
      answer = read;
      return new Promise<void>(() => undefined);
    },
    reconnect: () => {
      reconnects++;
      gone();
    },
  };
  same.watch(
    (observed) => {
      listener = observed;
      return link as unknown as Link;
    },
    {
      ready: () => {
        subscribed++;
      },
      closed: () => undefined,
      outOfStep: () => undefined,
      message: () => undefined,
      moved: () => undefined,
    },
  );
});

afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function connected(info?: string): void {
  isReady = true;
  listener.ready();
  if (info !== undefined) answer!(info);
}

function gone(): void {
  isReady = false;
  listener.closed(new Error('gone'));
}

/** Commands go there now. */
function commands(id: string): void {
  same.follow(id);
  idOfCommands = id;
}

it('one that was there first stays, also later', () => {
  commands('aaaa');
  connected(A);
  gone();
  connected(B); // commands are still at the former one, as far as is known
  commands('bbbb');
  vi.advanceTimersByTime(120_000);
  expect(reconnects).toBe(0);
});

it('one that is there before the commands are anywhere stays', () => {
  commands('aaaa');
  connected(A);
  gone();
  idOfCommands = undefined;
  connected(B);
  vi.advanceTimersByTime(20_000);
  commands('bbbb');
  vi.advanceTimersByTime(120_000);
  expect(reconnects).toBe(0);
});

it('one that is elsewhere follows at once', () => {
  commands('aaaa');
  connected(A);
  commands('bbbb');
  expect(reconnects).toBe(1);
  connected(B);
  vi.advanceTimersByTime(120_000);
  expect(reconnects).toBe(1);
});

it('one that is led elsewhere tries again, less and less often, and then no more', () => {
  commands('bbbb');
  const atMs: number[] = [];
  const from = Date.now();
  connected(A);
  while (vi.getTimerCount() > 0) {
    vi.runOnlyPendingTimers();
    atMs.push(Date.now() - from);
    connected(A);
  }
  expect(atMs).toEqual([500, 1_500, 3_500, 7_500, 15_500, 31_500]);
  expect(reconnects).toBe(atMs.length);
  commands('cccc'); // that is news
  connected(A);
  vi.runOnlyPendingTimers();
  expect(reconnects).toBe(atMs.length + 2);
  connected('run_id:cccc');
});

it('one that does not say where it is, is given some time', () => {
  connected();
  commands('aaaa');
  expect(reconnects).toBe(0);
  vi.advanceTimersByTime(600);
  expect(reconnects).toBe(1);
  connected(A);
  expect(reconnects).toBe(1);
});

it('where servers do not say which they are, it connects anew once, now or when it is connected', () => {
  connected('');
  expect(subscribed).toBe(1);
  same.follow(undefined);
  expect(reconnects).toBe(1);
  same.follow(undefined);
  connected('');
  expect([reconnects, subscribed]).toEqual([2, 1]);
  connected('');
  vi.advanceTimersByTime(120_000);
  expect([reconnects, subscribed]).toEqual([2, 2]);
});
