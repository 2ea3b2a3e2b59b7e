// The journals of the workers, combined: each call as one section, on the machine's common time axis.
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { CallNote, Entry, Failure, Half } from '../worker/journal.js';

/** A call to acquire, and its outcome. */
export interface Section extends Omit<CallNote, 'what'> {
  /** Its process, such as `w0.2.`: the third incarnation of the first worker. */
  readonly process: string;
  readonly worker: number;
  /** The number of its client, over all workers. */
  readonly clientIndex: number;
  readonly calledAt: number;
  enteredAt?: number;
  /** How many milliseconds it could rely on the lock when it entered; undefined: unknown. */
  leftAtEntryMs?: number | undefined;
  owner?: string | undefined;
  /** Of a fenced lock. */
  token?: bigint;
  /** The last token that each master of a Redlock named while this section had the lock; undefined: it did not answer. */
  readonly heard: { readonly at: number; readonly counters: readonly (bigint | undefined)[] }[];
  /** To the document that the lock guards. */
  readonly writes: Write[];
  /** The section to which the server granted the lock, which was passed on within the process since. */
  inherits?: Section;
  /** When its client took it, or the hold around it, from what it had kept; undefined: it did not. */
  keptAt?: number | undefined;
  /** When it reported that it believed, and for how much longer. */
  readonly beliefs: { readonly at: number; readonly leftMs: number }[];
  doubtedAt?: number;
  contradicts?: boolean;
  /** The longest lease that it asked for. */
  longestLeaseMs: number;
  /** When its hold became one that another client may adopt. */
  exportedAt?: number;
  leavingAt?: number;
  /** When the call was over: refused, or released. */
  endedAt?: number;
  failure?: Failure;
}

export interface Write {
  readonly from: number;
  /** Infinity: its outcome is unknown. */
  until: number;
  /** The larger token that the document had seen; undefined: the write was accepted, if that is known. */
  refusedBy?: bigint;
}

interface Forcing {
  readonly locks: readonly string[];
  /** For a read-write lock: a reader or a writer. */
  readonly half?: Half | undefined;
  readonly from: number;
  until: number;
  isKnown: boolean;
}

/** A semaphore is to have this many permits. */
export interface Setting {
  readonly lock: string;
  readonly permits: number;
  readonly from: number;
  until: number;
  isKnown: boolean;
}

interface Closing {
  readonly client: string;
  readonly process: string;
  readonly from: number;
  until: number;
}

interface Noted {
  readonly at: number;
  readonly process: string;
}

export class History {
  readonly sections = new Map<string, Section>();
  readonly forcings = new Map<string, Forcing>();
  readonly settings = new Map<string, Setting>();
  /** The clients' answers at the end, when nobody held permits any more. */
  readonly available: (Noted & {
    readonly client: string;
    readonly lock: string;
    readonly permits: number;
  })[] = [];
  readonly closings = new Map<string, Closing>();
  readonly lost: (Noted & {
    readonly owner: string;
    readonly lock: string;
    readonly reason: string;
  })[] = [];
  /** How many holds began on a grant that their client had kept. */
  keptCount = 0;
  readonly waiting: (Noted & { readonly owner: string; readonly lock: string })[] = [];
  readonly troubles: (Noted & { readonly message: string })[] = [];
  /** The errors and warnings of the clients. */
  readonly warnings: (Noted & { readonly message: string })[] = [];
  readonly lags: (Noted & { readonly ms: number })[] = [];
  /** The last line of each process. */
  readonly lastNoteAt = new Map<string, number>();
  readonly #clientsPerWorker: number;
  /** Of those with the same owner, the one that entered first. */
  readonly #firstOf = new Map<string, Section>();
  /** When a hold last began on what its client had kept, by owner. */
  readonly #keptAt = new Map<string, number>();

  constructor(clientsPerWorker: number) {
    this.#clientsPerWorker = clientsPerWorker;
  }

  /** Those that held the lock at some time, in the order in which they entered. */
  get entered(): Section[] {
    return [...this.sections.values()]
      .filter(({ enteredAt }) => enteredAt !== undefined)
      .sort((one, other) => one.enteredAt! - other.enteredAt!);
  }

  /** The section and those around it, innermost first. */
  around(section: Section): Section[] {
    const outer = section.inside === undefined ? undefined : this.sections.get(section.inside);
    return outer ? [section, ...this.around(outer)] : [section];
  }

  /** The outermost section around it, which alone acquired the lock on the server. */
  root(section: Section): Section {
    return this.around(section).at(-1)!;
  }

  take(entry: Entry, process: string): void {
    const { at } = entry;
    this.lastNoteAt.set(process, at);
    switch (entry.what) {
      case 'call':
        this.sections.set(entry.id, this.#called(entry, process));
        return;
      case 'entered': {
        const section = this.sections.get(entry.id)!;
        section.enteredAt = at;
        section.owner = entry.owner;
        section.leftAtEntryMs = entry.leftMs;
        if (entry.token !== undefined) section.token = BigInt(entry.token);
        if (entry.owner !== undefined) {
          const first = this.#firstOf.get(entry.owner);
          if (first) section.inherits = first;
          else this.#firstOf.set(entry.owner, section);
          section.keptAt = this.#keptAt.get(entry.owner);
        }
        if (entry.leftMs) section.beliefs.push({ at, leftMs: entry.leftMs });
        return;
      }
      case 'believes':
        this.sections.get(entry.id)!.beliefs.push(entry);
        return;
      case 'doubts': {
        const section = this.sections.get(entry.id)!;
        section.doubtedAt = at;
        section.contradicts = entry.contradicts;
        return;
      }
      case 'extending': {
        const section = this.sections.get(entry.id)!;
        section.longestLeaseMs = Math.max(section.longestLeaseMs, entry.leaseMs);
        return;
      }
      case 'heard': {
        const counters = entry.counters.map((counter) =>
          counter == null ? undefined : BigInt(counter),
        );
        this.sections.get(entry.id)!.heard.push({ at, counters });
        return;
      }
      case 'writing':
        this.sections.get(entry.id)!.writes.push({ from: at, until: Infinity });
        return;
      case 'wrote': {
        const write = this.sections.get(entry.id)!.writes.at(-1)!;
        write.until = at;
        if (entry.refusedBy !== undefined) write.refusedBy = BigInt(entry.refusedBy);
        return;
      }
      case 'leaving':
        this.sections.get(entry.id)!.leavingAt = at;
        return;
      case 'exported':
        this.sections.get(entry.id)!.exportedAt = at;
        return;
      case 'left':
      case 'refused': {
        const section = this.sections.get(entry.id)!;
        section.endedAt = at;
        const { code, message, reason } = entry;
        if (code !== undefined) section.failure = { code, message: message ?? '', reason };
        return;
      }
      case 'forcing': {
        const { id, locks, half } = entry;
        this.forcings.set(id, { locks, half, from: at, until: Infinity, isKnown: false });
        return;
      }
      case 'forced':
        Object.assign(this.forcings.get(entry.id)!, { until: at, isKnown: entry.isKnown });
        return;
      case 'setting': {
        const { id, lock, permits } = entry;
        this.settings.set(id, { lock, permits, from: at, until: Infinity, isKnown: false });
        return;
      }
      case 'set':
        Object.assign(this.settings.get(entry.id)!, { until: at, isKnown: entry.isKnown });
        return;
      case 'available':
        this.available.push({ ...entry, process });
        return;
      case 'opened':
        return;
      case 'warned':
        this.warnings.push({ ...entry, process });
        return;
      case 'closing':
        this.closings.set(entry.client, {
          client: entry.client,
          process,
          from: at,
          until: Infinity,
        });
        return;
      case 'closed':
        this.closings.get(entry.client)!.until = at;
        return;
      case 'waiting':
        this.waiting.push({ ...entry, process });
        return;
      case 'kept':
        this.keptCount++;
        this.#keptAt.set(entry.owner, at);
        return;
      case 'lost':
        this.lost.push({ ...entry, process });
        return;
      case 'trouble':
        this.troubles.push({ ...entry, process });
        return;
      case 'lagged':
        this.lags.push({ ...entry, process });
    }
  }

  #called(call: CallNote & { readonly at: number }, process: string): Section {
    const { at, ...rest } = call;
    const [, worker, client] = /^w(\d+)\.\d+\.c(\d+)/.exec(call.id)!.map(Number);
    const clientIndex = worker! * this.#clientsPerWorker + client!;
    return {
      ...rest,
      process,
      worker: worker!,
      clientIndex,
      calledAt: at,
      beliefs: [],
      heard: [],
      writes: [],
      longestLeaseMs: call.leaseMs,
    };
  }
}

/** When it surely believed that it held the lock: from, until; undefined: never. */
export function belief(section: Section): readonly [number, number] | undefined {
  const { enteredAt, leavingAt, owner, beliefs, failure } = section;
  if (enteredAt === undefined) return undefined;
  if (owner === undefined) {
    // lock() and unlock() show nothing in between; a successful unlock() shows that the lock was held until then.
    const isProven = section.endedAt !== undefined && !failure && leavingAt !== undefined;
    return isProven ? [enteredAt, leavingAt] : undefined;
  }
  const [first] = beliefs;
  const last = beliefs.at(-1);
  return first && last && last.at > first.at ? [first.at, last.at] : undefined;
}

interface Tail {
  readonly file: number;
  readonly process: string;
  offset: number;
  /** The beginning of a line that is not complete yet. */
  rest: string;
}

/** Reads the journals while the workers write them. */
export class Journals implements Disposable {
  readonly #folder: string;
  readonly #history: History;
  readonly #tails = new Map<string, Tail>();

  constructor(folder: string, history: History) {
    this.#folder = folder;
    this.#history = history;
  }

  /** Reads the new lines; returns how many of them are by callers. */
  read(): number {
    let count = 0;
    for (const name of readdirSync(this.#folder).sort()) {
      const tail = this.#tails.get(name) ?? this.#open(name);
      for (const line of this.#lines(tail)) {
        const entry = JSON.parse(line) as Entry;
        this.#history.take(entry, tail.process);
        if ('id' in entry) count++;
      }
    }
    return count;
  }

  [Symbol.dispose](): void {
    for (const { file } of this.#tails.values()) closeSync(file);
  }

  #open(name: string): Tail {
    const process = name.replace(/jsonl$/, '');
    const tail = { file: openSync(join(this.#folder, name), 'r'), process, offset: 0, rest: '' };
    this.#tails.set(name, tail);
    return tail;
  }

  #lines(tail: Tail): string[] {
    const bytes = Buffer.alloc(fstatSync(tail.file).size - tail.offset);
    const length = readSync(tail.file, bytes, 0, bytes.length, tail.offset);
    tail.offset += length;
    // Whole characters: the workers write whole lines, and a killed one leaves at most an incomplete last one.
    const lines = (tail.rest + bytes.toString('utf8', 0, length)).split('\n');
    tail.rest = lines.pop()!;
    return lines;
  }
}

/** Map.groupBy, which the oldest supported Node.js lacks. */
export function grouped<T, K>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
