// Looks at the locks every so often, once for all viewers of a page, and only while there are any. Keeps what has changed since.

import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  howHeld,
  type InspectedHolder,
  type InspectedOwner,
  type Inspection,
} from '../api/inspection.js';
import type { Holdfast } from '../holdfast.js';

/** How many points of the charts, and how many changes, are kept. The page keeps as many. */
const MOST_POINTS = 600;
const MOST_CHANGES = 2_000;

/** How often a viewer gets something at least, in milliseconds, so that proxies keep the connection. */
const BEAT_MS = 15_000;

/** A viewer that takes nothing for so many beats is dropped: it has gone, and its socket does not know. */
const MOST_MISSED_BEATS = 4;

/** The longest pause after a look that failed, in milliseconds: the page is to recover soon. */
const LONGEST_PAUSE_AFTER_FAILURE_MS = 3_000;

/** For how long leases may differ from what the viewers were told, in milliseconds. */
const LEASE_TOLERANCE_MS = 1_500;

/** A lock as the page gets it: times as milliseconds since 1970, by this process's clock. */
interface Row extends Omit<Inspection, 'holders' | 'waiters'> {
  readonly holders: readonly RowHolder[];
  readonly waiters: readonly RowOwner[];
}

interface RowHolder extends RowOwner, Pick<InspectedHolder, 'state' | 'holdCount'> {
  /** How it has the lock, in words that stand before its owner. */
  readonly how: string;
  /** Whether `sinceMs` is when it got the lock, not when it asked for it. */
  readonly isHeldSince: boolean;
}

interface RowOwner extends Omit<InspectedOwner, 'since' | 'leaseLeftMs'> {
  readonly sinceMs?: number;
  /** Left out: the lock has no expiry. */
  readonly endsAtMs?: number;
}

interface Point {
  readonly atMs: number;
  readonly held: number;
  readonly waiting: number;
  readonly longestWaitMs: number;
}

interface Change {
  readonly atMs: number;
  readonly name: string;
  /** What happened, in words that stand before the owner. */
  readonly what: string;
  readonly ownerId: string;
}

export interface PollerOptions {
  readonly prefix: string;
  readonly limit: number;
  readonly intervalMs: number;
}

/** How a viewer takes what it is sent. */
interface Viewer {
  /** Its socket was full, so it was left out, and needs everything anew. */
  isBehind: boolean;
  /** For how many beats its socket has been full. */
  missedBeats: number;
}

export class Poller {
  readonly #holdfast: Pick<Holdfast, 'list'>;
  readonly #options: PollerOptions;
  readonly #viewers = new Map<ServerResponse, Viewer>();
  #rows = new Map<string, Row>();
  #points: Point[] = [];
  #changes: Change[] = [];
  /** Why the latest look failed; undefined: it did not. */
  #trouble: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #beats: NodeJS.Timeout | undefined;
  #isLooking = false;
  #hasLooked = false;
  /** Whether there may be more locks than `limit`. */
  #isCut = false;
  #isClosed = false;

  constructor(holdfast: Pick<Holdfast, 'list'>, options: PollerOptions) {
    this.#holdfast = holdfast;
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Sends server-sent events to a viewer until it has gone. */
  add({ socket }: IncomingMessage, response: ServerResponse): void {
    if (response.destroyed || socket.destroyed) return; // it left while the app was deciding: no `close` will follow
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      // `no-transform`: a middleware that compresses would keep events back.
      'Cache-Control': 'no-store, no-transform',
      'X-Accel-Buffering': 'no',
    });
    const viewer: Viewer = { isBehind: false, missedBeats: 0 };
    this.#viewers.set(response, viewer);
    const gone = (): void => {
      socket.off('close', gone);
      if (this.#viewers.delete(response) && this.#viewers.size === 0) this.#rest();
    };
    response.on('close', gone);
    socket.once('close', gone); // a response queued behind another one on its connection emits no `close`
    response.on('error', () => undefined); // `close` follows
    response.on('drain', () => {
      viewer.missedBeats = 0;
      if (viewer.isBehind) this.#sendAll(response, viewer);
    });
    response.write(': holdfast\n\n'); // so that the page knows that it is connected
    this.#sendAll(response, viewer);
    if (this.#viewers.size > 1) return;
    this.#beats = setInterval(() => {
      this.#beat();
    }, BEAT_MS);
    this.#beats.unref();
    void this.#look();
  }

  /** Tells one viewer, and no other, what it is to know. */
  tell(response: ServerResponse, facts: object): void {
    if (this.#viewers.has(response)) response.write(eventOf('facts', facts));
  }

  /** Ends the viewers' connections, and looks no more. */
  close(): void {
    this.#isClosed = true;
    for (const response of this.#viewers.keys()) {
      response.end();
      if (response.writableNeedDrain) response.destroy(); // it does not read, so it would never take the end
    }
    this.#viewers.clear();
    this.#rest();
  }

  /** Nobody looks: what is known is out of date soon. */
  #rest(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#beats);
    this.#timer = this.#beats = undefined;
    this.#rows = new Map();
    this.#points = [];
    this.#changes = [];
    this.#trouble = undefined;
    this.#hasLooked = this.#isCut = false;
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return; // its viewers went, and others came
    this.#isLooking = true;
    const startedAtMs = Date.now();
    let hasFailed = false;
    try {
      const rows = await this.#list();
      if (rows && this.#viewers.size > 0) this.#looked(rows);
    } catch (error) {
      hasFailed = true;
      this.#failed(error instanceof Error ? error.message : String(error));
    } finally {
      this.#isLooking = false;
    }
    if (this.#viewers.size === 0) return;
    // A server with millions of keys is asked for a third of the time at most.
    const tookMs = Date.now() - startedAtMs;
    const pauseMs = Math.max(this.#options.intervalMs - tookMs, 2 * tookMs);
    const longestMs = hasFailed ? LONGEST_PAUSE_AFTER_FAILURE_MS : Infinity;
    this.#timer = setTimeout(() => void this.#look(), Math.min(pauseMs, longestMs));
    this.#timer.unref();
  }

  /** All locks; undefined: its viewers went meanwhile, so it was given up. */
  async #list(): Promise<Map<string, Row> | undefined> {
    const { prefix, limit } = this.#options;
    const rows = new Map<string, Row>();
    for await (const lock of this.#holdfast.list({ prefix, limit })) {
      if (this.#viewers.size === 0) return undefined;
      rows.set(lock.name, rowOf(lock));
    }
    return rows;
  }

  #looked(rows: Map<string, Row>): void {
    const before = this.#rows;
    const isFirst = !this.#hasLooked;
    const wasCut = this.#isCut;
    this.#isCut = rows.size >= this.#options.limit;
    const changed: Row[] = [];
    const news: Change[] = [];
    const atMs = Date.now();
    // A lock that was beyond the limit at one of the two looks was perhaps held at both.
    const isComparable = (name: string): boolean =>
      !isFirst && ((!wasCut && !this.#isCut) || (before.has(name) && rows.has(name)));
    for (const [name, row] of rows) {
      const known = before.get(name);
      if (known && isAlike(known, row)) {
        rows.set(name, known); // with the times that the viewers were told
        continue;
      }
      changed.push(row);
      if (isComparable(name)) news.push(...changesBetween(known, row, atMs));
    }
    const gone = [...before.keys()].filter((name) => !rows.has(name));
    for (const name of gone)
      if (isComparable(name)) news.push(...changesBetween(before.get(name), undefined, atMs));
    const point = pointOf(rows.values(), atMs);
    this.#rows = rows;
    this.#hasLooked = true;
    this.#trouble = undefined;
    this.#points = thinned([...this.#points, point]);
    this.#changes = [...this.#changes, ...news].slice(-MOST_CHANGES);
    if (isFirst) for (const [response, viewer] of this.#viewers) this.#sendAll(response, viewer);
    else {
      const isCut = this.#isCut;
      this.#send(eventOf('look', { nowMs: atMs, isCut, changed, gone, point, changes: news }));
    }
  }

  #failed(message: string): void {
    const isNews = message !== this.#trouble;
    this.#trouble = message;
    if (isNews) this.#send(eventOf('trouble', { message }));
  }

  /** Sends to all viewers. Whose socket is full gets everything anew when it has taken what it was sent before. */
  #send(event: string): void {
    for (const [response, viewer] of this.#viewers) {
      viewer.isBehind ||= response.writableNeedDrain;
      if (!viewer.isBehind) response.write(event);
    }
  }

  #sendAll(response: ServerResponse, viewer: Viewer): void {
    viewer.isBehind = response.writableNeedDrain;
    if (viewer.isBehind) return;
    if (this.#hasLooked) {
      const [points, changes, rows] = [this.#points, this.#changes, [...this.#rows.values()]];
      const all = { nowMs: Date.now(), isCut: this.#isCut, rows, points, changes };
      response.write(eventOf('all', all));
    }
    if (this.#trouble !== undefined) response.write(eventOf('trouble', { message: this.#trouble }));
  }

  #beat(): void {
    for (const [response, viewer] of this.#viewers) {
      if (!response.writableNeedDrain) response.write(': still there\n\n');
      else if (++viewer.missedBeats >= MOST_MISSED_BEATS) response.destroy();
    }
  }
}

function eventOf(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A lock as the page gets it. */
export function rowOf(lock: Inspection): Row {
  const nowMs = Date.now();
  const ownerOf = ({ since, leaseLeftMs, ...owner }: InspectedOwner): RowOwner => ({
    ...owner,
    ...(since ? { sinceMs: Number(since) } : {}),
    ...(leaseLeftMs < 0 ? {} : { endsAtMs: nowMs + leaseLeftMs }),
  });
  const holders = lock.holders.map(({ heldSince, state, ...holder }): RowHolder => {
    const isHeldSince = heldSince !== undefined;
    return { ...ownerOf(holder), state, how: howHeld(state), isHeldSince };
  });
  return { ...lock, holders, waiters: lock.waiters.map(ownerOf) };
}

/** Whether only times differ, and those by little. */
function isAlike(one: Row, other: Row): boolean {
  const withoutEnds = ({ holders, waiters, ...row }: Row): string =>
    JSON.stringify([row, [holders, waiters].map((owners) => owners.map(withoutEnd))]);
  const ends = ({ holders, waiters }: Row): number[] =>
    [...holders, ...waiters].map(({ endsAtMs }) => endsAtMs ?? 0);
  if (withoutEnds(one) !== withoutEnds(other)) return false;
  const now = ends(other);
  return ends(one).every((end, index) => Math.abs(end - (now[index] ?? 0)) < LEASE_TOLERANCE_MS);
}

function withoutEnd(owner: RowOwner): RowOwner {
  return { ...owner, endsAtMs: 0 };
}

function changesBetween(before: Row | undefined, now: Row | undefined, atMs: number): Change[] {
  const [had, has] = [holdersOf(before), holdersOf(now)];
  const name = now?.name ?? before?.name ?? '';
  const changes: Change[] = [];
  for (const ownerId of had.keys())
    if (!has.has(ownerId)) changes.push({ atMs, name, what: 'released by', ownerId });
  // (A lock that is no longer kept may still be held, by the same owner.)
  for (const [ownerId, what] of has)
    if (had.get(ownerId) !== what) changes.push({ atMs, name, what, ownerId });
  return changes;
}

/** Owner -> how it has the lock. */
function holdersOf(row: Row | undefined): Map<string, string> {
  return new Map(row?.holders.map(({ ownerId, how }) => [ownerId, how]));
}

function pointOf(rows: Iterable<Row>, atMs: number): Point {
  let [held, waiting, longestWaitMs] = [0, 0, 0];
  for (const { holders, waiters, waitingClients } of rows) {
    held += holders.filter(({ state }) => state !== 'released').length;
    waiting += waiters.length > 0 ? waiters.length : waitingClients; // a client listens on for a moment after its wait
    for (const { sinceMs } of waiters)
      longestWaitMs = Math.max(longestWaitMs, atMs - (sinceMs ?? atMs));
  }
  return { atMs, held, waiting, longestWaitMs };
}

/** Too many points become half as many, each the larger of two: the charts begin when the page was opened, and show every peak. */
function thinned(points: Point[]): Point[] {
  if (points.length <= MOST_POINTS) return points;
  return points.flatMap((point, index) => {
    const before = points[index - 1];
    if (index % 2 === 0 || !before) return index === points.length - 1 ? [point] : [];
    const longestWaitMs = Math.max(before.longestWaitMs, point.longestWaitMs);
    const [held, waiting] = [
      Math.max(before.held, point.held),
      Math.max(before.waiting, point.waiting),
    ];
    return [{ atMs: point.atMs, held, waiting, longestWaitMs }];
  });
}
