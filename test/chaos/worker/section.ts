// One acquisition as the checker sees it: called, entered, left; what is written down at each step, and what its holder believes.
import type { Documents, Witnesses } from './documents.js';
import { failureOf, type Journal } from './journal.js';
import type { Held, Locked, Party, PartyLock, PartySemaphore, Request } from './party.js';
import type { WorkTime } from './time.js';

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

/** The sections of one caller with its party; each gets an id of its own. */
export class Sections {
  readonly party: Party;
  readonly #context: SectionsContext;
  readonly #caller: string;
  #count = 0;

  constructor(context: SectionsContext, caller: string, party: Party) {
    this.party = party;
    this.#context = context;
    this.#caller = caller;
  }

  /** What the next section will be called. */
  get nextId(): string {
    return `${this.#caller}.${this.#count}`;
  }

  /** `outer`: within which it is called. */
  call(how: string, locked: Locked, request: Request, outer?: Section): Section {
    const { names, isFair, mayBeKept, half } = locked;
    const { wait, lease, lockAtLeastFor, permits } = request;
    const id = this.#newId();
    this.#context.journal.note({
      what: 'call',
      id,
      how,
      client: this.party.clientId,
      locks: names,
      isFair,
      mayBeKept,
      half,
      permits,
      leaseMs: Math.max(lease ?? this.#context.watchdogMs, lockAtLeastFor ?? 0),
      isWatched: lease === undefined,
      atLeastMs: lockAtLeastFor,
      waitMs: wait,
      inside: outer?.id,
    });
    return new Section(this.#context, id, names[0]!);
  }

  /** forceUnlock: whoever holds it loses it. */
  async force({ lock, names, half }: PartyLock): Promise<void> {
    const id = this.#newId();
    const { journal } = this.#context;
    journal.note({ what: 'forcing', id, locks: names, half });
    const failure = await lock.forceUnlock().then(() => undefined, failureOf);
    journal.note({ what: 'forced', id, locks: names, isKnown: failure === undefined });
  }

  /** A semaphore has so many permits from now on. */
  async setPermits({ semaphore }: PartySemaphore, permits: number): Promise<void> {
    const id = this.#newId();
    const { journal } = this.#context;
    journal.note({ what: 'setting', id, lock: semaphore.name, permits });
    const failure = await semaphore.setPermits(permits).then(() => undefined, failureOf);
    journal.note({ what: 'set', id, isKnown: failure === undefined });
  }

  #newId(): string {
    const { nextId } = this;
    this.#count++;
    return nextId;
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

  /** Asks for a longer lease. That it failed is told by the release, too. */
  async extend(held: Pick<Held, 'extend'>, leaseMs: number): Promise<void> {
    this.#context.journal.note({ what: 'extending', id: this.id, leaseMs });
    await held.extend(leaseMs).catch(() => undefined);
  }

  /** The call, and all that belongs to it. It does not reject: what fails is written down. */
  async during(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.end();
    } catch (error) {
      this.end(error);
    }
  }

  /** What is done inside, by a call that releases by itself. */
  async within(held: Held, isLookedAt: boolean, work: () => Promise<void>): Promise<void> {
    this.enter(held, isLookedAt);
    try {
      await work();
    } finally {
      this.leave();
    }
  }

  /** Acquires, does something inside, and releases, perhaps more than once. It does not reject. */
  async hold(
    acquire: () => Promise<Held | undefined>,
    inside?: (held: Held) => Promise<void>,
    { isLookedAt = true, releases = 1 } = {},
  ): Promise<void> {
    await this.during(async () => {
      const held = await acquire();
      if (!held) {
        this.refuse();
        return;
      }
      this.enter(held, isLookedAt);
      if (inside) await inside(held);
      this.leave();
      await Promise.all(Array.from({ length: releases }, () => held.release()));
    });
  }

  /**
   * Gives its hold to whoever adopts it, and returns the text. That it is over here is no loss, and need not be told as one; but whether it
   * still believes is asked until `stop()`.
   */
  async passOn(held: Held): Promise<string> {
    const { id } = this;
    const { beliefs, journal } = this.#context;
    journal.note({ what: 'leaving', id });
    try {
      const text = await held.export();
      journal.note({ what: 'exported', id });
      beliefs.mayEnd(id);
      return text;
    } catch (error) {
      beliefs.end(id, held);
      journal.note({ what: 'leaving', id }); // only now
      await held.release();
      throw error;
    }
  }

  /** Its hold was passed on, and whoever wanted it has had it. */
  stop(held: Held): void {
    this.#context.beliefs.end(this.id, held);
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

// What those who hold believe: asked often, and written down with the time before the question.

const LOOK_EVERY_MS = 4;

export class Beliefs {
  readonly #journal: Journal;
  readonly #held = new Map<string, Held>();
  readonly #doubted = new Set<string>();
  readonly #time: WorkTime;
  #isLooking = false;

  constructor(journal: Journal, time: WorkTime) {
    this.#journal = journal;
    this.#time = time;
  }

  /** It was just acquired; `isLookedAt`: it is also asked while its section does nothing. */
  begin(id: string, hold: Held, isLookedAt: boolean): void {
    const leftMs = hold.remaining();
    // After the look: whoever is stopped in between does not believe before it goes on.
    const token = hold.token?.toString();
    this.#journal.note({ what: 'entered', id, owner: hold.ownerId, leftMs, token });
    if (leftMs === 0) this.look(id, hold);
    if (isLookedAt) this.#held.set(id, hold);
    if (!this.#isLooking) void this.#lookAround();
  }

  /**
   * The time of a belief is taken before the look: one who is stopped in between must not seem to believe for longer than it does. That
   * of a doubt after it: the same must not seem to doubt too early.
   */
  look(id: string, hold: Held): void {
    const at = this.#time.nowMs();
    const leftMs = hold.remaining();
    const isAborted = hold.signal.aborted;
    if (leftMs > 0 && !isAborted) this.#journal.note({ what: 'believes', id, leftMs }, at);
    else if (!this.#doubted.has(id)) {
      this.#doubted.add(id);
      const contradicts = isAborted ? hold.remaining() > 0 : leftMs === 0;
      this.#journal.note({ what: 'doubts', id, contradicts });
    }
  }

  /** That it believes no longer is not written down. */
  mayEnd(id: string): void {
    this.#doubted.add(id);
  }

  /** It is about to be released. */
  end(id: string, hold: Held): void {
    this.look(id, hold);
    this.#held.delete(id);
    this.#doubted.delete(id);
  }

  async #lookAround(): Promise<void> {
    this.#isLooking = true;
    while (this.#held.size > 0) {
      await this.#time.sleep(LOOK_EVERY_MS);
      for (const [id, hold] of this.#held) this.look(id, hold);
    }
    this.#isLooking = false;
  }
}
