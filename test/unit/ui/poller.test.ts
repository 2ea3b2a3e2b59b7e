// One poller for all viewers of a page: when it looks, what it sends to whom, and what it remembers.
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Inspection } from '../../../src/api/inspection.js';
import { Poller } from '../../../src/ui/poller.js';

const BEAT_MS = 15_000;

/** What the fake server holds; a name that is here is held by one owner. */
let held: Map<string, string>;
/** Names among them whose client keeps them. */
let kept: Set<string>;
/** Looks that have begun, and those that have ended, in whatever way. */
let begun: number;
let ended: number;
/** Before each lock that is listed. */
let beforeEachLock: () => Promise<void>;
let trouble: Error | undefined;
let poller: Poller;
let viewers: FakeViewer[];

/** The response of a viewer, whose socket may be full. */
class FakeViewer extends EventEmitter {
  readonly socket = Object.assign(new EventEmitter(), { destroyed: false });
  readonly written: string[] = [];
  writableNeedDrain = false;
  destroyed = false;

  writeHead(): this {
    return this;
  }

  write(text: string): boolean {
    this.written.push(text);
    return !this.writableNeedDrain;
  }

  end(): void {
    this.emit('close');
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }

  drain(): void {
    this.writableNeedDrain = false;
    this.emit('drain');
  }

  of<Data = Record<string, unknown>>(event: string): Data[] {
    const head = `event: ${event}\ndata: `;
    return this.written
      .filter((text) => text.startsWith(head))
      .map((text) => JSON.parse(text.slice(head.length)) as Data);
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  held = new Map();
  kept = new Set();
  begun = ended = 0;
  beforeEachLock = () => Promise.resolve();
  trouble = undefined;
  viewers = [];
});

afterEach(() => {
  poller.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function newPoller(limit = 100): void {
  poller = new Poller(
    { list: (options) => looks(options?.limit) },
    { prefix: '', limit, intervalMs: 1_000 },
  );
}

async function* looks(limit = Infinity): AsyncGenerator<Inspection, undefined> {
  begun += 1;
  try {
    if (trouble) throw trouble;
    for (const [name, ownerId] of [...held].slice(0, limit)) {
      await beforeEachLock();
      yield lock(name, ownerId);
    }
  } finally {
    ended += 1;
  }
  return undefined;
}

function lock(name: string, ownerId: string): Inspection {
  const state = kept.has(name) ? ('kept' as const) : ('held' as const);
  const holder = { ownerId, clientId: 'web', leaseLeftMs: -1, state };
  return { name, kind: 'lock', holders: [holder], waiters: [], waitingClients: 0, isCut: false };
}

function addViewer(viewer: FakeViewer): void {
  poller.add(viewer as unknown as IncomingMessage, viewer as unknown as ServerResponse);
}

async function newViewer(): Promise<FakeViewer> {
  const viewer = new FakeViewer();
  viewers.push(viewer);
  addViewer(viewer);
  await vi.advanceTimersByTimeAsync(0);
  return viewer;
}

/** Lets so many looks happen. */
async function look(count = 1): Promise<void> {
  await vi.advanceTimersByTimeAsync(count * 1_000);
}

describe('a poller', () => {
  it('looks only while somebody watches', async () => {
    newPoller();
    await look(3);
    expect(begun).toBe(0);
    const [one, other] = [await newViewer(), await newViewer()];
    await look(2);
    expect(begun).toBe(3);
    one.destroy();
    await look();
    expect(begun).toBe(4);
    other.destroy();
    await look(5);
    expect(begun).toBe(4);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('gives up a look when the last viewer goes, and begins anew for the next', async () => {
    newPoller();
    for (const name of ['a', 'b', 'c']) held.set(name, 'web:1');
    let goOn: () => void = () => undefined;
    beforeEachLock = () => new Promise((resolve) => (goOn = resolve));
    const first = await newViewer();
    goOn();
    first.destroy();
    await vi.advanceTimersByTimeAsync(0);
    expect([begun, ended]).toEqual([1, 1]); // after one lock of three
    beforeEachLock = () => Promise.resolve();
    const next = await newViewer();
    expect(begun).toBe(2);
    expect(next.of<{ rows: unknown[] }>('all')[0]?.rows).toHaveLength(3);
  });

  it('tells a lock that is kept from one that is held', async () => {
    newPoller();
    const viewer = await newViewer();
    held.set('a', 'web:1');
    kept.add('a');
    await look();
    kept.delete('a');
    await look();
    held.delete('a');
    await look();
    const looks = viewer.of<{ changes: { what: string; ownerId: string }[] }>('look');
    const told = looks.flatMap(({ changes }) => changes.map(({ what }) => what));
    expect(told).toEqual(['kept, perhaps idle, by', 'held by', 'released by']);
    expect(looks[0]).toMatchObject({
      changed: [{ holders: [{ ownerId: 'web:1', state: 'kept' }] }],
    });
    expect(looks[1]!.changes).toMatchObject([{ name: 'a', ownerId: 'web:1' }]);
  });

  it('never looks twice at a time, however long a look takes', async () => {
    newPoller();
    held.set('a', 'web:1');
    let goOn: () => void = () => undefined;
    beforeEachLock = () => new Promise((resolve) => (goOn = resolve));
    const first = await newViewer();
    first.destroy();
    await newViewer();
    await look(10);
    expect([begun, ended]).toEqual([1, 0]);
    goOn();
    await look(9);
    expect([begun, ended]).toEqual([1, 1]); // the pause is twice as long as the look
    await look(11);
    expect(begun).toBe(2);
    goOn();
    await vi.advanceTimersByTimeAsync(0);
  });

  it('tells of trouble once, also those who come later, and looks again soon', async () => {
    newPoller();
    trouble = new Error('Redis is gone');
    const one = await newViewer();
    await look(5);
    expect(one.of('trouble')).toEqual([{ message: 'Redis is gone' }]);
    const other = await newViewer();
    expect(other.of('trouble')).toEqual([{ message: 'Redis is gone' }]);
    trouble = undefined;
    await look(3);
    for (const viewer of [one, other]) expect(viewer.of('all')).toHaveLength(1);
    const third = await newViewer();
    expect(third.of('trouble')).toEqual([]);
  });

  it('sends a viewer something every so often, also during a long look', async () => {
    newPoller();
    held.set('a', 'web:1');
    beforeEachLock = () => new Promise(() => undefined);
    const viewer = await newViewer();
    const before = viewer.written.length;
    await vi.advanceTimersByTimeAsync(3 * BEAT_MS);
    expect(viewer.written.slice(before)).toEqual(Array(3).fill(': still there\n\n'));
  });

  it('sends nothing to a viewer whose socket is full, and everything anew when it is not', async () => {
    newPoller();
    const [slow, quick] = [await newViewer(), await newViewer()];
    slow.writableNeedDrain = true;
    const before = slow.written.length;
    held.set('a', 'web:1');
    await look(3);
    expect(slow.written).toHaveLength(before);
    expect(quick.of('look').length).toBeGreaterThanOrEqual(3);
    slow.drain();
    expect(slow.of<{ rows: unknown[] }>('all').at(-1)?.rows).toHaveLength(1);
    await look();
    expect(slow.of('look')).toHaveLength(1);
  });

  it('drops a viewer that takes nothing for a minute', async () => {
    newPoller();
    const [gone, slow] = [await newViewer(), await newViewer()];
    gone.writableNeedDrain = slow.writableNeedDrain = true;
    await vi.advanceTimersByTimeAsync(3 * BEAT_MS);
    slow.drain();
    slow.writableNeedDrain = true;
    await vi.advanceTimersByTimeAsync(BEAT_MS);
    expect([gone.destroyed, slow.destroyed]).toEqual([true, false]);
  });

  it('keeps the changes of holders', async () => {
    newPoller();
    held.set('a', 'web:1');
    const viewer = await newViewer();
    held.set('a', 'web:2').set('b', 'web:3');
    await look();
    held.delete('a');
    await look();
    const late = await newViewer();
    const [all] = late.of<{ changes: { name: string; what: string; ownerId: string }[] }>('all');
    expect(all?.changes.map(({ name, what, ownerId }) => `${name} ${what} ${ownerId}`)).toEqual([
      'a released by web:1',
      'a held by web:2',
      'b held by web:3',
      'a released by web:2',
    ]);
    expect(viewer.of<{ changes: unknown[] }>('look').flatMap(({ changes }) => changes)).toEqual(
      all?.changes,
    );
  });

  it('takes no lock beyond the limit for a released one', async () => {
    newPoller(2);
    for (const name of ['a', 'b', 'c']) held.set(name, 'web:1');
    const viewer = await newViewer();
    held.delete('a');
    held.set('b', 'web:2').set('d', 'web:1').set('a', 'web:1');
    await look();
    const [told] = viewer.of<{ isCut: boolean; gone: string[]; changes: object[] }>('look');
    expect(told).toMatchObject({ isCut: true, gone: ['a'] });
    expect(told?.changes).toMatchObject([
      { name: 'b', what: 'released by', ownerId: 'web:1' },
      { name: 'b', what: 'held by', ownerId: 'web:2' },
    ]);
  });

  it('keeps at most 600 points from the first one on, with every peak', async () => {
    newPoller();
    await newViewer();
    await look(99);
    held.set('a', 'web:1');
    await look();
    held.delete('a');
    await look(1_900);
    const late = await newViewer();
    const [all] = late.of<{ points: { atMs: number; held: number }[]; nowMs: number }>('all');
    const points = all?.points ?? [];
    expect(points.length).toBeGreaterThanOrEqual(300);
    expect(points.length).toBeLessThanOrEqual(600);
    expect(Math.max(...points.map((point) => point.held))).toBe(1);
    const times = points.map(({ atMs }) => atMs);
    expect(times).toEqual([...times].sort((one, other) => one - other));
    expect(times.at(-1)! - times[0]!).toBeGreaterThan(1_900_000);
  });

  it('ends its viewers, and looks no more, when it is closed', async () => {
    newPoller();
    const viewer = await newViewer();
    const isOver = vi.fn();
    viewer.on('close', isOver);
    poller.close();
    expect(isOver).toHaveBeenCalledOnce();
    await look(3);
    expect(begun).toBe(1);
    expect(poller.isClosed).toBe(true);
  });
});

describe('a viewer that leaves unnoticed, or does not read', () => {
  it.each(['response', 'socket'] as const)('is not added if its %s is destroyed', async (what) => {
    const viewer = new FakeViewer();
    (what === 'socket' ? viewer.socket : viewer).destroyed = true;
    addViewer(viewer);
    await look(3);
    expect([begun, viewer.written]).toEqual([0, []]);
  });

  it('is forgotten when its connection closes, if its response emits no `close`', async () => {
    const viewer = await newViewer();
    await look(2);
    expect(begun).toBe(3);
    viewer.socket.emit('close');
    await look(3);
    expect(begun).toBe(3);
    expect(viewer.socket.listenerCount('close')).toBe(0);
  });

  it('is disconnected when the page is closed, if it does not read', async () => {
    const [full, quick] = [await newViewer(), await newViewer()];
    full.writableNeedDrain = true;
    poller.close();
    expect([full.destroyed, quick.destroyed]).toEqual([true, false]);
  });
});
