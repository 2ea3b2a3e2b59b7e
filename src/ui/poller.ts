// Looks at the locks every so often, once for all viewers of a page, and only while there are any. Keeps what has changed since.

import type { ServerResponse } from 'node:http';
import type { InspectedHolder, Inspection } from '../api/inspection.js';
import type { Holdfast } from '../holdfast.js';

/** How many points of the charts, and how many changes, are kept. */
const MOST_POINTS = 600;
const MOST_CHANGES = 500;

/** A viewer that is behind by more bytes than this is dropped; its page connects again. */
const MOST_UNSENT_BYTES = 8 * 2 ** 20;

/** How often a viewer gets something at least, in milliseconds, so that proxies keep the connection. */
const BEAT_MS = 15_000;

/** For how long leases may differ from what the viewers were told, in milliseconds. */
const LEASE_TOLERANCE_MS = 1_500;

/** A lock as the page gets it: times as milliseconds since 1970, by this process's clock. */
interface Row extends Omit<Inspection, 'holders' | 'waiters'> {
  readonly holders: readonly RowOwner[];
  readonly waiters: readonly RowOwner[];
}

interface RowOwner extends Omit<InspectedHolder, 'since' | 'leaseLeftMs'> {
  readonly sinceMs?: number;
  /** Left out: the lease has no end. */
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
  readonly what: 'held' | 'released';
  readonly ownerId: string;
}

export interface PollerOptions {
  readonly prefix: string;
  readonly limit: number;
  readonly intervalMs: number;
}

export class Poller {
  readonly #holdfast: Pick<Holdfast, 'list'>;
  readonly #options: PollerOptions;
  readonly #viewers = new Set<ServerResponse>();
  #rows = new Map<string, Row>();
  #points: Point[] = [];
  #changes: Change[] = [];
  /** Why the latest look failed; undefined: it did not. */
  #trouble: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #hasLooked = false;
  #beatenAtMs = 0;

  constructor(holdfast: Pick<Holdfast, 'list'>, options: PollerOptions) {
    this.#holdfast = holdfast;
    this.#options = options;
  }

  get viewerCount(): number {
    return this.#viewers.size;
  }

  /** Sends server-sent events to a viewer until it has gone. `facts`: what the page is to know from the start. */
  add(response: ServerResponse, facts: object): void {
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    this.#viewers.add(response);
    response.on('close', () => {
      this.#viewers.delete(response);
      if (this.#viewers.size === 0) this.#rest();
    });
    response.on('error', () => undefined); // `close` follows
    response.write(eventOf('facts', facts));
    if (this.#hasLooked) this.#sendAll(response);
    if (this.#viewers.size === 1) void this.#look();
  }

  /** Ends the viewers' connections, and looks no more. */
  close(): void {
    for (const viewer of this.#viewers) viewer.end();
    this.#rest();
  }

  /** Nobody looks: what is known is out of date soon. */
  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#rows = new Map();
    this.#points = [];
    this.#changes = [];
    this.#trouble = undefined;
    this.#hasLooked = false;
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return; // its viewers went, and others came
    this.#isLooking = true;
    const startedAtMs = Date.now();
    try {
      const { prefix, limit } = this.#options;
      const rows = new Map<string, Row>();
      for await (const lock of this.#holdfast.list({ prefix, limit }))
        rows.set(lock.name, rowOf(lock));
      if (this.#viewers.size > 0) this.#looked(rows);
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error));
    } finally {
      this.#isLooking = false;
    }
    if (this.#viewers.size === 0) return;
    // A server with millions of keys is asked for a third of the time at most.
    const tookMs = Date.now() - startedAtMs;
    const pauseMs = Math.max(this.#options.intervalMs - tookMs, 2 * tookMs);
    this.#timer = setTimeout(() => void this.#look(), pauseMs);
    this.#timer.unref();
  }

  #looked(rows: Map<string, Row>): void {
    const before = this.#rows;
    const isFirst = !this.#hasLooked;
    const changed: Row[] = [];
    const news: Change[] = [];
    const atMs = Date.now();
    for (const [name, row] of rows) {
      const known = before.get(name);
      if (known && isAlike(known, row)) {
        rows.set(name, known); // with the times that the viewers were told
        continue;
      }
      changed.push(row);
      if (!isFirst) news.push(...changesBetween(known, row, atMs));
    }
    const gone = [...before.keys()].filter((name) => !rows.has(name));
    for (const name of gone) news.push(...changesBetween(before.get(name), undefined, atMs));
    const point = pointOf(rows.values(), atMs);
    this.#rows = rows;
    this.#hasLooked = true;
    this.#trouble = undefined;
    this.#points = [...this.#points, point].slice(-MOST_POINTS);
    this.#changes = [...this.#changes, ...news].slice(-MOST_CHANGES);
    if (isFirst) for (const viewer of this.#viewers) this.#sendAll(viewer);
    else this.#send(eventOf('look', { nowMs: atMs, changed, gone, point, changes: news }));
  }

  #failed(message: string): void {
    const isNews = message !== this.#trouble;
    this.#trouble = message;
    if (isNews) this.#send(eventOf('trouble', { message }));
    else if (Date.now() - this.#beatenAtMs > BEAT_MS) this.#send(': still there\n\n');
  }

  #sendAll(viewer: ServerResponse): void {
    const [points, changes, rows] = [this.#points, this.#changes, [...this.#rows.values()]];
    this.#write(viewer, eventOf('all', { nowMs: Date.now(), rows, points, changes }));
    if (this.#trouble !== undefined)
      this.#write(viewer, eventOf('trouble', { message: this.#trouble }));
  }

  #send(event: string): void {
    this.#beatenAtMs = Date.now();
    for (const viewer of this.#viewers) this.#write(viewer, event);
  }

  #write(viewer: ServerResponse, event: string): void {
    viewer.write(event);
    if (viewer.writableLength > MOST_UNSENT_BYTES) viewer.destroy();
  }
}

function eventOf(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A lock as the page gets it. */
export function rowOf(lock: Inspection): Row {
  const nowMs = Date.now();
  const ownerOf = ({ since, leaseLeftMs, ...owner }: InspectedHolder): RowOwner => ({
    ...owner,
    ...(since ? { sinceMs: Number(since) } : {}),
    ...(leaseLeftMs < 0 ? {} : { endsAtMs: nowMs + leaseLeftMs }),
  });
  return { ...lock, holders: lock.holders.map(ownerOf), waiters: lock.waiters.map(ownerOf) };
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
  const [had, has] = [before, now].map((row) => (row?.holders ?? []).map(({ ownerId }) => ownerId));
  const name = now?.name ?? before?.name ?? '';
  const of = (what: Change['what'], owners: string[], others: string[]): Change[] =>
    owners
      .filter((ownerId) => !others.includes(ownerId))
      .map((ownerId) => ({ atMs, name, what, ownerId }));
  return [...of('released', had ?? [], has ?? []), ...of('held', has ?? [], had ?? [])];
}

function pointOf(rows: Iterable<Row>, atMs: number): Point {
  let [held, waiting, longestWaitMs] = [0, 0, 0];
  for (const { holders, waiters, waitingClients } of rows) {
    held += holders.length;
    waiting += Math.max(waiters.length, waitingClients);
    for (const { sinceMs } of waiters)
      longestWaitMs = Math.max(longestWaitMs, atMs - (sinceMs ?? atMs));
  }
  return { atMs, held, waiting, longestWaitMs };
}
