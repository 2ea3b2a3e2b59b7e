// Where subscriptions stand when servers refuse them, come and go.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Connection } from '../../../src/redis/connection.js';
import type { RedisClient } from '../../../src/redis/driver.js';
import { replyError } from '../../../src/redis/failure.js';
import type { Homes } from '../../../src/redis/homes.js';
import type { Link, SubscriptionListener } from '../../../src/redis/link.js';
import { Subscribers } from '../../../src/redis/subscribers.js';
import { expectPending, settle } from '../../support/occupancy.js';

const NOPERM = replyError("NOPERM this user has no permissions to run the 'subscribe' command");
const LOADING = replyError('LOADING Redis is loading the dataset in memory');
const CHANNEL = 'redisson_lock__channel:{orders}';

/** How long it takes to learn anew which server has what. */
const REFRESH_MS = 2;

/** A connection for subscriptions, to a server that answers at once. */
class FakeLink {
  isReady = true;
  isClosed = false;
  refusal: Error | undefined;
  readonly asked: string[] = [];
  readonly left: string[] = [];
  readonly client = {
    shardedChannels: new Set<string>(),
    subscribe: (
      channels: readonly string[],
      _isSharded: boolean,
      answered: (refusal: Error | undefined) => void,
    ): void => {
      this.asked.push(...channels);
      answered(this.refusal);
    },
    unsubscribe: (channel: string): void => {
      this.left.push(channel);
    },
  };
  readonly ask = (): Promise<string> => Promise.resolve('PONG');
  readonly role: string;
  readonly #listener: SubscriptionListener;

  constructor(role: string, listener: SubscriptionListener) {
    this.role = role;
    this.#listener = listener;
  }

  /** Resolves when the socket is gone. */
  close(): Promise<void> {
    this.isClosed = true;
    return goodbye;
  }

  lose(): void {
    this.isReady = false;
    this.#listener.closed(new Error('gone'));
  }

  comeBack(): void {
    this.isReady = true;
    this.#listener.ready();
  }
}

let present: string[];
let isAt: string;
let links: FakeLink[];
let told: string[];
let changed: () => void;
let refusal: Error | undefined;
/** Which other servers are chosen, one after the other; then the first. */
let chosen: string[];
/** The roles of links that never get ready. */
let unreachable: readonly string[];
/** The roles of links to servers that permit no subscription. */
let refusing: readonly string[];
let refreshes: number;
let refreshTimer: NodeJS.Timeout | undefined;
let goodbye: Promise<void>;
let subscribers: Subscribers;

beforeEach(() => {
  vi.useFakeTimers();
  [present, isAt, links, told, refusal] = [[''], '', [], [], undefined];
  [refreshes, goodbye, unreachable, chosen] = [0, Promise.resolve(), [], []];
  refusing = [];
  const homes: Homes = {
    of: (_slot, otherThan) => {
      if (otherThan === isAt)
        isAt = chosen.shift() ?? present.find((home) => home !== otherThan) ?? isAt;
      return present.includes(isAt) ? isAt : undefined;
    },
    has: (home) => present.includes(home),
    connect: (home) => (present.includes(home) ? ({} as RedisClient) : undefined),
    refresh: () => {
      refreshes++;
      refreshTimer ??= setTimeout(() => {
        refreshTimer = undefined;
        changed();
      }, REFRESH_MS);
    },
    onChange: (listener) => {
      changed = listener;
    },
  };
  const linkSubscriber: Connection['linkSubscriber'] = (_client, role, listener) => {
    const link = new FakeLink(role, listener);
    link.refusal = refusing.includes(role) ? NOPERM : refusal;
    link.isReady = !unreachable.includes(role);
    links.push(link);
    return link as unknown as Link;
  };
  const connection = { homes, silenceLimitMs: 1_000_000, linkSubscriber };
  subscribers = new Subscribers(connection as unknown as Connection, {
    subscribed: () => told.push('subscribed'),
    lost: () => told.push('lost'),
    denied: () => told.push('denied'),
    message: () => undefined,
  });
});

afterEach(async () => {
  await subscribers.close();
  clearTimeout(refreshTimer);
  refreshTimer = undefined;
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** The server at this home is there, alone, and has all slots. */
function only(home: string): void {
  [present, isAt] = [[home], home];
  changed();
}

it('a subscription that is denied is asked for again every 30 s, until it is permitted', async () => {
  refusal = NOPERM;
  subscribers.subscribe(CHANNEL, false);
  await settle();
  expect(told).toEqual(['denied']);
  const [link] = links as [FakeLink];
  await pass(29_000);
  expect(link.asked).toHaveLength(1);
  await pass(2_000);
  expect(link.asked).toHaveLength(2);
  await pass(30_000);
  expect(link.asked).toHaveLength(3);
  link.refusal = undefined;
  await pass(30_000);
  expect(link.asked).toEqual(Array(4).fill(CHANNEL));
  expect(told.at(-1)).toBe('subscribed');
  await pass(120_000);
  expect(link.asked).toHaveLength(4);
});

it('a subscription that was denied is asked for on a new connection at once', async () => {
  refusal = NOPERM;
  subscribers.subscribe(CHANNEL, false);
  await settle();
  const [link] = links as [FakeLink];
  link.lose();
  link.refusal = undefined;
  link.comeBack();
  await settle();
  expect(link.asked).toHaveLength(2);
  expect(told).toEqual(['denied', 'subscribed']);
  link.lose();
  link.comeBack();
  await settle();
  expect(link.asked).toHaveLength(3);
  expect(told).toEqual(['denied', 'subscribed', 'lost', 'subscribed']);
});

it('a subscription that is denied is not asked for when nobody wants it any more', async () => {
  refusal = NOPERM;
  subscribers.subscribe(CHANNEL, false);
  await settle();
  subscribers.unsubscribe(CHANNEL);
  const [link] = links as [FakeLink];
  link.lose();
  link.comeBack();
  await pass(120_000);
  expect(link.asked).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(0);
});

it('a connection to a server that is gone is closed as soon as the subscription stands elsewhere', async () => {
  only('x');
  subscribers.subscribe(CHANNEL, true);
  await settle();
  const [x] = links as [FakeLink];
  x.lose();
  only('y');
  expect(x.isClosed).toBe(false); // it may come back before the other one answers
  await settle();
  expect(told).toEqual(['subscribed', 'lost', 'subscribed']);
  expect(links.map(({ role, isClosed }) => [role, isClosed])).toEqual([
    ['sharded subscriber (x)', true],
    ['sharded subscriber (y)', false],
  ]);
});

it('a connection to a server that is gone is closed when nobody wants its last channel any more', async () => {
  only('x');
  subscribers.subscribe(CHANNEL, true);
  await settle();
  links[0]!.lose();
  [present, isAt] = [['y'], 'x']; // who has the slot is not known yet
  changed();
  expect(links[0]!.isClosed).toBe(false);
  subscribers.unsubscribe(CHANNEL);
  expect(links.map(({ isClosed }) => isClosed)).toEqual([true]);
});

it('a connection to a server that is gone is closed when its last channel is refused there', async () => {
  only('x');
  refusal = NOPERM;
  subscribers.subscribe(CHANNEL, true);
  present = ['y'];
  await settle();
  expect(links.map(({ isClosed }) => isClosed)).toEqual([true]);
});

it('classic and sharded channels at one server go by connections of their own', async () => {
  only('x');
  subscribers.subscribe(CHANNEL, false);
  subscribers.subscribe('holdfast_grants:{orders}:me', true);
  await settle();
  expect(links.map(({ role, asked }) => [role, asked])).toEqual([
    ['subscriber (x)', [CHANNEL]],
    ['sharded subscriber (x)', ['holdfast_grants:{orders}:me']],
  ]);
  subscribers.unsubscribe(CHANNEL);
  expect(links.map(({ left }) => left)).toEqual([[CHANNEL], []]);
});

it('a server that refuses for now is asked now and then, and so is who has the slots', async () => {
  only('x');
  refusal = LOADING;
  subscribers.subscribe(CHANNEL, true);
  await pass(1_000);
  const [x] = links as [FakeLink];
  expect(x.asked.length).toBeGreaterThan(1);
  expect(x.asked.length).toBeLessThan(10);
  expect(refreshes).toBeLessThan(20);
  x.refusal = undefined;
  await pass(5_000);
  expect(told).toEqual(['subscribed']);
});

it('after a server has refused for now, another one that has the slot then is asked at once', async () => {
  only('x');
  refusal = LOADING;
  subscribers.subscribe(CHANNEL, true);
  await settle();
  refusal = undefined;
  only('y');
  await settle();
  expect(links.map(({ role }) => role)).toEqual([
    'sharded subscriber (x)',
    'sharded subscriber (y)',
  ]);
  expect(told).toEqual(['subscribed']);
});

it('a server that refused for now is asked at once when it gets the slot back from one that took the channel', async () => {
  only('x');
  refusal = LOADING;
  subscribers.subscribe(CHANNEL, true);
  await settle();
  refusal = undefined;
  [present, isAt] = [['x', 'y'], 'y'];
  changed();
  await settle();
  links[0]!.refusal = undefined;
  isAt = 'x';
  changed();
  await settle();
  expect(told).toEqual(['subscribed', 'subscribed']);
  expect(links[0]!.asked).toHaveLength(2);
});

it('closing waits for connections that were being closed already', async () => {
  let gone!: () => void;
  goodbye = new Promise((resolve) => (gone = resolve));
  only('x');
  subscribers.subscribe(CHANNEL, true);
  await settle();
  [present, isAt] = [['y'], 'x'];
  changed();
  subscribers.unsubscribe(CHANNEL);
  expect(links.map(({ isClosed }) => isClosed)).toEqual([true]);
  const closed = subscribers.close();
  await expectPending(closed);
  gone();
  await closed;
});

it('a classic subscription whose server cannot be reached goes to another one, as do those that come since', async () => {
  only('a');
  present = ['a', 'b'];
  subscribers.subscribe(CHANNEL, false);
  await settle();
  links[0]!.lose();
  await pass(1_000);
  expect(told).toEqual(['subscribed', 'lost', 'subscribed']);
  expect(links.map(({ asked }) => asked)).toEqual([[CHANNEL], [CHANNEL]]);
  subscribers.subscribe('another', false);
  await settle();
  expect(links[1]!.asked).toEqual([CHANNEL, 'another']);
});

it('a classic subscription whose first server is never reached goes to another one', async () => {
  only('a');
  present = ['a', 'b'];
  unreachable = ['subscriber (a)'];
  subscribers.subscribe(CHANNEL, false);
  await pass(5_000);
  expect(told).toEqual(['subscribed']);
  expect(links.map(({ role, asked }) => [role, asked])).toEqual([
    ['subscriber (a)', []],
    ['subscriber (b)', [CHANNEL]],
  ]);
});

it('while the first server of a sharded subscription is not reached, it is looked up who has the slot', async () => {
  only('a');
  unreachable = ['sharded subscriber (a)'];
  subscribers.subscribe(CHANNEL, true);
  await pass(5_000);
  expect(refreshes).toBeGreaterThan(0);
  expect(refreshes).toBeLessThan(10);
});

it('a first connection that takes a while is waited for: no other server is asked, nor who has the slots', async () => {
  only('a');
  present = ['a', 'b'];
  unreachable = ['subscriber (a)'];
  subscribers.subscribe(CHANNEL, false);
  await pass(1_500);
  links[0]!.comeBack();
  await pass(60_000);
  expect(told).toEqual(['subscribed']);
  expect(links).toHaveLength(1);
  expect(refreshes).toBe(0);
});

it('when all subscriptions stand, no retry is due any more, and nobody was asked who has the slots', async () => {
  only('a');
  subscribers.subscribe(CHANNEL, false);
  subscribers.subscribe('another', true);
  await pass(1_000);
  expect(links).toHaveLength(2);
  expect(vi.getTimerCount()).toBe(2); // until the next PING on each connection
  expect(refreshes).toBe(0);
});

it('a classic subscription goes on until it is at a server that can be reached', async () => {
  only('a');
  present = ['a', 'b', 'c'];
  unreachable = ['subscriber (b)'];
  chosen = ['b', 'a', 'c'];
  subscribers.subscribe(CHANNEL, false);
  await settle();
  links[0]!.lose();
  await pass(10_000);
  expect(told).toEqual(['subscribed', 'lost', 'subscribed']);
  expect(links.map(({ role }) => role).at(-1)).toBe('subscriber (c)');
});

it('a classic subscription that cannot be had again goes past a server that refuses it, too', async () => {
  only('a');
  present = ['a', 'b', 'c'];
  refusing = ['subscriber (b)'];
  chosen = ['b', 'c'];
  subscribers.subscribe(CHANNEL, false);
  await settle();
  links[0]!.lose();
  await pass(10_000);
  expect(told).toEqual(['subscribed', 'lost', 'denied', 'subscribed']);
  expect(links.map(({ role, isClosed }) => [role, isClosed])).toEqual([
    ['subscriber (a)', true],
    ['subscriber (b)', true],
    ['subscriber (c)', false],
  ]);
});

it('a classic subscription goes past the first server, too, if that refuses it for now', async () => {
  only('a');
  present = ['a', 'b', 'c'];
  refusal = LOADING;
  subscribers.subscribe(CHANNEL, false);
  refusal = undefined;
  await pass(5_000);
  expect(told).toEqual(['subscribed']);
  expect(links.map(({ role }) => role)).toEqual(['subscriber (a)', 'subscriber (b)']);
});

it('or if that does not permit it, when it is asked for anew', async () => {
  only('a');
  present = ['a', 'b', 'c'];
  refusing = ['subscriber (a)'];
  subscribers.subscribe(CHANNEL, false);
  await pass(60_000);
  expect(told).toEqual(['denied', 'subscribed']);
  expect(links.map(({ role }) => role)).toEqual(['subscriber (a)', 'subscriber (b)']);
});

it('a classic subscription leaves no connection to the servers that it has tried', async () => {
  only('a');
  present = ['a', 'b', 'c'];
  unreachable = ['subscriber (b)'];
  chosen = ['b', 'c'];
  subscribers.subscribe(CHANNEL, false);
  await settle();
  links[0]!.lose();
  await pass(10_000);
  expect(links.map(({ role, isClosed }) => [role, isClosed])).toEqual([
    ['subscriber (a)', true],
    ['subscriber (b)', true],
    ['subscriber (c)', false],
  ]);
});

it('a classic subscription stays where it is when there is no other server', async () => {
  only('a');
  subscribers.subscribe(CHANNEL, false);
  await settle();
  links[0]!.lose();
  await pass(1_000);
  links[0]!.comeBack();
  await settle();
  expect(told).toEqual(['subscribed', 'lost', 'subscribed']);
  expect(links).toHaveLength(1);
});
