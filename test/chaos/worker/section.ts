// One acquisition as the checker sees it: called, entered, left; what is written down at each step.
import type { AcquireOptions } from '../../../src/index.js';
import type { Beliefs, Held } from './beliefs.js';
import type { Documents } from './documents.js';
import { failureOf, type Half, type Journal } from './journal.js';
import type { Witnesses } from './witnesses.js';

export interface Request {
  readonly wait?: number | undefined;
  readonly lease?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How many of a semaphore. */
  readonly permits?: number | undefined;
}

/** What is asked for, as far as the checker has to know it. */
export interface Locked {
  readonly names: readonly string[];
  readonly isFair: boolean;
  readonly half?: Half;
}

/** Thrown by a section on purpose; its caller must see it. */
export class SectionError extends Error {
  override readonly name = 'SectionError';
}

export interface SectionsContext {
  readonly journal: Journal;
  readonly beliefs: Beliefs;
  readonly watchdogMs: number;
  /** What the locks guard; undefined: they give no tokens. */
  readonly documents: Pick<Documents, 'write'> | undefined;
  /** Who has to know their tokens; undefined: that is the one server's. */
  readonly witnesses: Pick<Witnesses, 'ask'> | undefined;
}

/** The sections of one caller; each gets an id of its own. */
export class Sections {
  readonly #context: SectionsContext;
  readonly #caller: string;
  #count = 0;

  constructor(context: SectionsContext, caller: string) {
    this.#context = context;
    this.#caller = caller;
  }

  /** What the next section will be called. */
  get nextId(): string {
    return `${this.#caller}.${this.#count}`;
  }

  call(
    how: string,
    client: string,
    { names, isFair, half }: Locked,
    { wait, lease, permits }: Request,
    inside?: string,
  ): Section {
    const id = `${this.#caller}.${this.#count++}`;
    this.#context.journal.note({
      what: 'call',
      id,
      how,
      client,
      locks: names,
      isFair,
      half,
      permits,
      leaseMs: lease ?? this.#context.watchdogMs,
      isWatched: lease === undefined,
      waitMs: wait,
      inside,
    });
    return new Section(this.#context, id, names[0]!);
  }

  /** forceUnlock: whoever holds it loses it. */
  async force({ names, half }: Locked, force: () => Promise<boolean>): Promise<void> {
    const id = `${this.#caller}.${this.#count++}`;
    const { journal } = this.#context;
    journal.note({ what: 'forcing', id, locks: names, half });
    const failure = await force().then(() => undefined, failureOf);
    journal.note({ what: 'forced', id, locks: names, isKnown: failure === undefined });
  }

  /** setPermits: a semaphore has so many from now on. */
  async setPermits(
    { names: [lock] }: Locked,
    permits: number,
    set: () => Promise<void>,
  ): Promise<void> {
    const id = `${this.#caller}.${this.#count++}`;
    const { journal } = this.#context;
    journal.note({ what: 'setting', id, lock: lock!, permits });
    const failure = await set().then(() => undefined, failureOf);
    journal.note({ what: 'set', id, isKnown: failure === undefined });
  }
}

export class Section {
  readonly id: string;
  readonly #context: SectionsContext;
  readonly #lock: string;
  #hold: Held | undefined;
  #state: 'called' | 'entered' | 'over' = 'called';

  constructor(context: SectionsContext, id: string, lock: string) {
    this.#context = context;
    this.id = id;
    this.#lock = lock;
  }

  /** It holds the lock now; without a hold, only the success of its unlock can tell, and what token there is. */
  enter(hold?: Held, isLookedAt = true, token?: bigint): void {
    this.#state = 'entered';
    this.#hold = hold;
    if (hold) this.#context.beliefs.begin(this.id, hold, isLookedAt);
    else this.#context.journal.note({ what: 'entered', id: this.id, token: token?.toString() });
  }

  look(): void {
    if (this.#hold) this.#context.beliefs.look(this.id, this.#hold);
  }

  /** Writes to what the lock guards, whether it still has the lock or not; where there are tokens. */
  async write(): Promise<void> {
    const { id } = this;
    const { documents, journal } = this.#context;
    const token = this.#hold?.token;
    if (!documents || token === undefined) return;
    await this.#hear();
    journal.note({ what: 'writing', id });
    const refusedBy = await documents.write(this.#lock, token, id);
    journal.note({ what: 'wrote', id, refusedBy });
    this.look();
  }

  /** Which tokens the masters know while it has the lock. */
  async #hear(): Promise<void> {
    const { witnesses, journal } = this.#context;
    if (!witnesses) return;
    const counters = await witnesses.ask(this.#lock);
    if ((this.#hold?.remaining() ?? 0) > 0) journal.note({ what: 'heard', id: this.id, counters });
  }

  /** Its lease may end later from now on. */
  extending(leaseMs: number): void {
    this.#context.journal.note({ what: 'extending', id: this.id, leaseMs });
  }

  /** Its release begins. */
  leave(): void {
    if (this.#hold) this.#context.beliefs.end(this.id, this.#hold);
    this.#context.journal.note({ what: 'leaving', id: this.id });
  }

  /** The call is over: it was released, or it failed. */
  end(error?: unknown): void {
    if (this.#state === 'over') return;
    const { id } = this;
    const { journal } = this.#context;
    if (this.#state === 'called') journal.note({ what: 'refused', id, ...failureOf(error) });
    else journal.note({ what: 'left', id, ...(error === undefined ? {} : failureOf(error)) });
    this.#state = 'over';
  }

  /** Somebody else had it. */
  refuse(): void {
    this.end({ code: 'FALSE', message: 'somebody else had it' });
  }
}

export function optionsOf(request: Request): AcquireOptions {
  return { wait: request.wait, lease: request.lease, signal: request.signal };
}
