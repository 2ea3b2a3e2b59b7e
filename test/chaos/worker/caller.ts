// One caller: does one thing after the other with the locks of its party, at random, until it is told to stop.
import { paceMs } from '../plan.js';
import { Random } from '../random.js';
import type { Held, Party, Request, Target } from './party.js';
import type { Post } from './post.js';
import { Sections, type Section, type SectionsContext } from './section.js';
import type { WorkTime } from './time.js';
import type { WorkOrder } from './work-order.js';

export interface Action {
  readonly weight: number;
  readonly act: (caller: Caller) => Promise<void>;
}

interface CallerContext {
  readonly sections: Sections;
  readonly partner?: Sections | undefined;
  readonly rival?: Sections | undefined;
  readonly random: Random;
  /** By which it measures how long it does something: the watchdog's lease, or less where that is long. */
  readonly watchdogMs: number;
  readonly time: WorkTime;
  readonly post: Post;
}

export class Caller {
  readonly party: Party;
  readonly sections: Sections;
  /** Another client of the process, and its part in what two of them do; undefined: there is none, or the locks are Redlocks. */
  readonly partner: Sections | undefined;
  /** The same where they are Redlocks. */
  readonly rival: Sections | undefined;
  readonly random: Random;
  readonly watchdogMs: number;
  readonly time: WorkTime;
  /** For holds that pass to another process. */
  readonly post: Post;
  #isStopping = false;

  constructor({ sections, partner, rival, random, watchdogMs, time, post }: CallerContext) {
    this.party = sections.party;
    this.sections = sections;
    this.partner = partner;
    this.rival = rival;
    this.random = random;
    this.watchdogMs = watchdogMs;
    this.time = time;
    this.post = post;
  }

  /** The same for another client of the process; this one, where there is none. */
  besides(): Caller {
    const { partner, random, watchdogMs, time, post } = this;
    return partner ? new Caller({ sections: partner, random, watchdogMs, time, post }) : this;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Nothing new begins. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Does these, at random. Resolves when it has stopped. */
  async work(actions: readonly Action[]): Promise<void> {
    while (!this.#isStopping) {
      await this.random.weighted(actions).act(this);
      await this.time.sleep(this.random.between(0, 25));
    }
  }

  /** How it is asked for: with or without a limit, a lease, a signal. */
  someRequest(target: Target): Request {
    const { random, watchdogMs } = this;
    const lease = random.chance(0.25) ? random.whole(100, Math.round(1.5 * watchdogMs)) : undefined;
    const wait = random.chance(0.5) ? random.whole(0, 3 * watchdogMs) : undefined;
    const signal = random.chance(0.1) ? this.time.timeout(random.whole(1, watchdogMs)) : undefined;
    return { lease, wait, signal, permits: this.somePermits(target) };
  }

  /** Of a semaphore mostly one, now and then several, or all. */
  somePermits({ declared }: Target): number | undefined {
    const { random } = this;
    if (declared === undefined) return undefined;
    return random.chance(0.6) ? 1 : random.whole(1, declared);
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

  /** The same with looks at what the section believes; where there are tokens, it perhaps writes to what the lock guards. */
  async stepsIn(section: Section): Promise<void> {
    await this.steps(() => {
      section.look();
    });
    if (this.party.isFenced && this.random.chance(0.5)) await section.write();
  }

  async extend(held: Pick<Held, 'extend'>, section: Section): Promise<void> {
    await section.extend(held, this.random.whole(100, 2 * this.watchdogMs));
  }
}

/** The callers of all clients of a process; what two clients do, a caller does with the next one, if there are several. */
export function callersOf(
  parties: readonly Party[],
  order: Pick<WorkOrder, 'kind' | 'seed' | 'callersPerClient' | 'watchdogMs' | 'isLong'>,
  name: string,
  context: SectionsContext & { readonly post: Post },
  time: WorkTime,
): Caller[] {
  const { kind, seed, callersPerClient } = order;
  return parties.flatMap((party, client) =>
    Array.from({ length: callersPerClient }, (_, index) => {
      const caller = `${name}c${client}k${index}`;
      const next = (client + 1) % parties.length;
      const other =
        next === client
          ? undefined
          : new Sections(context, `${name}c${next}p${index}`, parties[next]!);
      return new Caller({
        sections: new Sections(context, caller, party),
        ...(kind === 'red' ? { rival: other } : { partner: other }),
        random: new Random(seed, caller),
        watchdogMs: paceMs(order),
        time,
        post: context.post,
      });
    }),
  );
}
