// The keys of a server in memory, each with its type and its expiry.

export type Value = string | Map<string, string> | SortedSet;

export interface Entry {
  readonly value: Value;
  /** When the key expires, in milliseconds since 1970; Infinity: never. */
  untilMs: number;
}

/** How many writes can be undone. */
export const MOST_UNDONE = 1_000;

/** An error with Redis' text. */
export class RedisError extends Error {}

/** The changes of one command or script: each key as it was before, undefined if there was none. */
interface Write {
  readonly atMs: number;
  readonly before: Map<string, Entry | undefined>;
}

export class Keyspace {
  /** The server's time in microseconds, which stands still while a command or a script runs. */
  nowUs = 0;
  #writeCount = 0;
  #entries = new Map<string, Entry>();
  readonly #isUndoable: boolean;
  readonly #changed: (keys: Iterable<string>) => void;
  /** The newest writes, if they can be undone. */
  readonly #writes: Write[] = [];
  /** The changes so far of the command or script that runs. */
  #current: Write['before'] = new Map();

  /** `changed`: called with the keys that a command or a script has changed, and with each that is found to have expired. */
  constructor(isUndoable: boolean, changed: (keys: Iterable<string>) => void) {
    this.#isUndoable = isUndoable;
    this.#changed = changed;
  }

  get nowMs(): number {
    return Math.floor(this.nowUs / 1_000);
  }

  /** How many commands and scripts have changed something. */
  get writeCount(): number {
    return this.#writeCount;
  }

  get names(): string[] {
    return [...this.#entries.keys()].filter((key) => this.entry(key)).sort();
  }

  /** Runs a command or a script; returns whether it has changed anything. */
  run(nowUs: number, work: () => void): boolean {
    this.nowUs = nowUs;
    const before = (this.#current = new Map<string, Entry | undefined>());
    work();
    if (before.size === 0) return false;
    this.#writeCount++;
    this.#changed(before.keys());
    if (!this.#isUndoable) return true;
    this.#writes.push({ atMs: this.nowMs, before });
    if (this.#writes.length > MOST_UNDONE) this.#writes.shift();
    return true;
  }

  /** How many writes came after that time. */
  writesSince(atMs: number): number {
    return this.#writes.filter((write) => write.atMs > atMs).length;
  }

  /** Undoes so many of the newest writes. */
  undo(count: number): void {
    for (const { before } of this.#writes
      .splice(Math.max(this.#writes.length - count, 0))
      .reverse())
      for (const [key, entry] of before)
        if (entry) this.#entries.set(key, entry);
        else this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#writes.length = 0;
  }

  entry(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    // In the millisecond of its expiry a key is still there.
    if (!entry || entry.untilMs >= this.nowMs) return entry;
    this.#entries.delete(key);
    this.#changed([key]);
    return undefined;
  }

  text(key: string): string | undefined {
    const value = this.entry(key)?.value;
    if (value === undefined || typeof value === 'string') return value;
    throw wrongType();
  }

  hash(key: string): Map<string, string> | undefined {
    return this.#value(key, Map<string, string>);
  }

  sortedSet(key: string): SortedSet | undefined {
    return this.#value(key, SortedSet);
  }

  #value<T extends Value & object>(key: string, Type: new () => T): T | undefined {
    const value = this.entry(key)?.value;
    if (value === undefined || value instanceof Type) return value;
    throw wrongType();
  }

  /** The hash or sorted set at this key, for a change; an empty one if there is none. */
  hashToChange(key: string): Map<string, string> {
    return this.#toChange(key, this.hash(key) ?? new Map<string, string>());
  }

  sortedSetToChange(key: string): SortedSet {
    return this.#toChange(key, this.sortedSet(key) ?? new SortedSet());
  }

  #toChange<T extends Value>(key: string, value: T): T {
    this.#changes(key);
    if (!this.#entries.has(key)) this.set(key, value, Infinity);
    return value;
  }

  set(key: string, value: Value, untilMs: number): void {
    this.#changes(key);
    this.#entries.set(key, { value, untilMs });
  }

  /** Sets the expiry; returns whether the key exists. A time in the past, or now, ends it at once. */
  end(key: string, untilMs: number): boolean {
    const entry = this.entry(key);
    if (!entry) return false;
    this.#changes(key);
    entry.untilMs = untilMs;
    if (untilMs <= this.nowMs) this.#entries.delete(key);
    return true;
  }

  delete(key: string): boolean {
    return this.end(key, -Infinity);
  }

  /** Called before a key is changed. */
  #changes(key: string): void {
    if (this.#current.has(key)) return;
    const entry = this.#isUndoable ? this.entry(key) : undefined;
    this.#current.set(key, entry && { ...entry, value: copyOf(entry.value) });
  }
}

function copyOf(value: Value): Value {
  if (typeof value === 'string') return value;
  return value instanceof Map ? new Map(value) : value.copy();
}

function wrongType(): RedisError {
  return new RedisError('WRONGTYPE Operation against a key holding the wrong kind of value');
}

export class SortedSet {
  #scores = new Map<string, number>();
  /** In order of the score, and of the bytes if the scores are equal. */
  #members: string[] = [];

  get members(): readonly string[] {
    return this.#members;
  }

  copy(): SortedSet {
    const copy = new SortedSet();
    copy.#scores = new Map(this.#scores);
    copy.#members = [...this.#members];
    return copy;
  }

  score(member: string): number | undefined {
    return this.#scores.get(member);
  }

  /** Returns whether the member is new. */
  add(member: string, score: number): boolean {
    const isNew = !this.delete(member);
    this.#members.splice(this.#indexOf(member, score), 0, member);
    this.#scores.set(member, score);
    return isNew;
  }

  delete(member: string): boolean {
    const score = this.#scores.get(member);
    if (score === undefined) return false;
    this.#members.splice(this.#indexOf(member, score), 1);
    return this.#scores.delete(member);
  }

  /** The index at which it stands, or would stand. */
  #indexOf(member: string, score: number): number {
    let [low, high] = [0, this.#members.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#members[middle] ?? '';
      const otherScore = this.#scores.get(other) ?? 0;
      if (otherScore < score || (otherScore === score && isBefore(other, member))) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Compares by the bytes of UTF-8: only surrogates have another order in UTF-16. */
function isBefore(one: string, other: string): boolean {
  if (!/[\ud800-\udfff]/.test(one + other)) return one < other;
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) < 0;
}
