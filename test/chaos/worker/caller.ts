// One caller: does one thing after the other with the locks of its party, at random, until it is told to stop.
import type { Random } from '../random.js';
import { ACTIONS, type Action } from './actions.js';
import { DESERTIONS } from './desertions.js';
import { LATE_WRITES } from './late-writes.js';
import type { Party } from './party.js';
import { PERMIT_ACTIONS } from './permits.js';
import { RACES } from './races.js';
import { READ_WRITE_ACTIONS } from './read-write.js';
import type { Request, Sections } from './section.js';
import type { WorkTime } from './time.js';
import { UNDERCUTS } from './undercuts.js';

/** Another client of the same process, and where its part in what two of them do is written down. */
export interface Partner {
  readonly party: Party;
  readonly sections: Sections;
}

export interface CallerContext {
  readonly party: Party;
  readonly partner?: Partner | undefined;
  readonly rival?: Partner | undefined;
  readonly random: Random;
  readonly sections: Sections;
  readonly watchdogMs: number;
  readonly time: WorkTime;
}

export class Caller {
  readonly party: Party;
  /** undefined: its client is the only one of this process, or the locks are Redlocks. */
  readonly partner: Partner | undefined;
  /** The same where they are Redlocks. */
  readonly rival: Partner | undefined;
  readonly random: Random;
  readonly sections: Sections;
  readonly watchdogMs: number;
  readonly time: WorkTime;
  #isStopping = false;

  constructor({ party, partner, rival, random, sections, watchdogMs, time }: CallerContext) {
    this.party = party;
    this.partner = partner;
    this.rival = rival;
    this.random = random;
    this.sections = sections;
    this.watchdogMs = watchdogMs;
    this.time = time;
  }

  /** The same for another client of the process; this one, where there is none. */
  besides(): Caller {
    const { partner, random, watchdogMs, time } = this;
    return partner ? new Caller({ ...partner, random, watchdogMs, time }) : this;
  }

  /** Nothing new begins. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Resolves when it has stopped. */
  async work(): Promise<void> {
    const actions = this.#actions;
    while (!this.#isStopping) {
      await this.random.weighted(actions).act(this);
      await this.time.sleep(this.random.between(0, 25));
    }
  }

  get #actions(): readonly Action[] {
    const { kind, isFenced } = this.party;
    if (kind === 'semaphore') return PERMIT_ACTIONS;
    const everywhere = [...ACTIONS, ...UNDERCUTS, ...DESERTIONS];
    if (kind === 'read-write') return [...everywhere, ...READ_WRITE_ACTIONS];
    if (!isFenced) return everywhere;
    return [...everywhere, ...LATE_WRITES, ...(kind === 'red' ? RACES : [])];
  }

  /** How a lock is asked for: with or without a limit, a lease, a signal. */
  someRequest(): Request {
    const { random, watchdogMs } = this;
    const lease = random.chance(0.25) ? random.whole(100, Math.round(1.5 * watchdogMs)) : undefined;
    const wait = random.chance(0.5) ? random.whole(0, 3 * watchdogMs) : undefined;
    const signal = random.chance(0.1) ? this.time.timeout(random.whole(1, watchdogMs)) : undefined;
    return { lease, wait, signal };
  }

  /** What is done inside: a few short steps; now and then something longer than a lease. */
  async steps(look: () => void): Promise<void> {
    const { random, watchdogMs } = this;
    const isLong = random.chance(0.05);
    const steps = isLong ? random.whole(20, 60) : random.whole(0, 4);
    const stepMs = isLong ? watchdogMs / 12 : 10;
    for (let step = 0; step < steps; step++) {
      look();
      await this.time.sleep(random.between(0, stepMs));
    }
    look();
  }
}
