// A semaphore on one Redis: a weighted lock, whose weights are numbers of permits.

import { inspect, type InspectOptions } from 'node:util';
import { inspected } from '../api/description.js';
import { OptionError } from '../api/errors.js';
import {
  type ExportOptions,
  invalid,
  isWholeNumber,
  ONE_ATTEMPT,
  parseName,
  parseOptions,
  parseRequest,
  type Subject,
  type Wait,
} from '../api/options.js';
import type {
  PermitHold,
  PermitHoldDescription,
  PermitOptions,
  PermitWaiter,
  Semaphore,
  SemaphoreDescription,
} from '../api/semaphore.js';
import { acquire } from '../core/acquisition.js';
import type { OwnHold, SelfWait, KeyInTheWay, Transfer } from '../core/protocol.js';
import type { Server } from '../core/server.js';
import type { Session } from '../core/session.js';
import { type SingleHold, whileHeld } from '../core/hold.js';
import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import { currentScope, holdersAround, outsideScopes } from '../scopes/scope.js';
import { type Guarded, parseGuarded, unlessHeldElsewhere } from './base-lock.js';
import { PERMITS_TTL_MS, type Refusal, WeightedBackend, type WeightedView } from './weighted.js';
import { grantNext } from '../queue/queue.js';
import { scripts } from '../redis/scripts.generated.js';
import type { TimeLimit } from '../runtime/clock.js';

const ALL_OPTIONS = ['permits', 'wait', 'lease', 'lockAtLeastFor', 'signal', 'label'] as const;

type WithPermits<T> = (hold: PermitHold) => T | Promise<T>;

export class SingleSemaphore implements Semaphore {
  static {
    explainWrongCalls(SingleSemaphore, KINDS.semaphore);
  }

  readonly name: string;
  readonly #session: Session;
  readonly #server: Server;
  readonly #declared: number;

  constructor(session: Session, server: Server, name: unknown, options: unknown) {
    this.#session = session;
    this.#server = server;
    this.name = parseName(name);
    const subject = { semaphore: this.name };
    const what = 'the options of getSemaphore()';
    this.#declared = parsePermits(
      subject,
      parseOptions(what, options, ['permits'], subject).permits,
    );
  }

  async acquire(options?: PermitOptions): Promise<PermitHold> {
    const asked = this.#acquire('the options of acquire()', options, this.#session.defaultWait);
    return this.#handedOut(await asked.hold, asked);
  }

  async tryAcquire(options?: PermitOptions): Promise<PermitHold | undefined> {
    const asked = this.#acquire('the options of tryAcquire()', options, ONE_ATTEMPT);
    const held = await unlessHeldElsewhere(() => asked.hold);
    return held && this.#handedOut(held, asked);
  }

  async withPermits<T>(fn: WithPermits<T>): Promise<T>;
  async withPermits<T>(options: PermitOptions, fn: WithPermits<T>): Promise<T>;
  async withPermits<T>(...args: Guarded<PermitOptions, WithPermits<T>>): Promise<T> {
    const [options, fn] = parseGuarded('withPermits()', this.#subject, args);
    const asked = this.#acquire('the options of withPermits()', options, this.#session.defaultWait);
    const { permits, hold } = asked;
    return await whileHeld('withPermits()', hold, (held) =>
      held.run(() => held.runInside(() => fn(new HeldPermits(held, permits)))),
    );
  }

  async setPermits(permits: number): Promise<void> {
    const capacity = parsePermits(this.#subject, permits);
    const backend = this.#backend(1);
    const set = (limit: TimeLimit): Promise<void> => backend.setCapacity(capacity, limit);
    await this.#session.ask(backend, set, 'not known to have another number of permits');
  }

  async availablePermits(): Promise<number> {
    const { capacity, holders } = await this.#look();
    const used = holders.reduce((sum, { weight }) => sum + weight, 0);
    return Math.max(capacity - used, 0);
  }

  async getWaiters(): Promise<PermitWaiter[]> {
    const { waiters } = await this.#look();
    return waiters.map(({ ownerId, weight }) => ({ ownerId, permits: weight }));
  }

  toJSON(): SemaphoreDescription {
    return { kind: 'Semaphore', name: this.name, permits: this.#declared };
  }

  /** What `toJSON` tells, for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptions): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }

  /** What the caller gets. */
  #handedOut(hold: SingleHold, { permits, stack }: Asked): PermitHold {
    const held = new HeldPermits(hold, permits);
    return this.#session.holdWatch?.handOut(held, hold, stack) ?? held;
  }

  /** Acquires outside all scopes: each acquisition has an owner of its own, whatever the caller holds. */
  #acquire(what: string, options: PermitOptions | undefined, defaultWait: Wait): Asked {
    const given =
      options === undefined ? {} : parseOptions(what, options, ALL_OPTIONS, this.#subject);
    const { permits: wanted = 1 } = given;
    const permits = parsePermits(this.#subject, wanted);
    const request = parseRequest(this.#subject, given, defaultWait);
    const backend = this.#backend(permits);
    const selfWait = this.#selfWait(backend);
    const terms = [this.#session, backend, request, 'acquire'] as const;
    const hold = outsideScopes(() => acquire(...terms, undefined, undefined, selfWait));
    return { permits, hold, stack: this.#session.holdWatch?.here ?? '' };
  }

  /** Detects a call inside `withPermits()` that waits for itself: the permits held around it and those that it wants exceed the total. */
  #selfWait({ id, weight }: SemaphoreBackend): SelfWait | undefined {
    const around = holdersAround(currentScope(), id).map(({ grant }) => grant);
    if (around.length === 0) return undefined;
    return () => {
      let permits = 0;
      for (const grant of this.#session.grants.of(id))
        if (around.includes(grant) && grant.lock instanceof SemaphoreBackend)
          permits += grant.remaining() > 0 ? grant.lock.weight : 0;
      if (permits + weight <= this.#declared) return undefined;
      const ownerId = around[0]?.ownerId ?? '';
      const why =
        `the call is made inside withPermits(), which holds ${String(permits)} of the ${String(this.#declared)} permits, and waits for ${String(weight)} of them itself. ` +
        'Permits are never re-entered: ask for all that are needed at once, or ask outside';
      return { ownerId, why };
    };
  }

  get #subject(): Subject {
    return { semaphore: this.name };
  }

  #look(): Promise<WeightedView> {
    const backend = this.#backend(1);
    return this.#session.ask(backend, () => backend.look());
  }

  #backend(weight: number): SemaphoreBackend {
    const { newOwnerId } = this.#session;
    return new SemaphoreBackend(this.#server, newOwnerId, this.name, this.#declared, weight);
  }
}

/** An acquisition under way. */
interface Asked {
  readonly permits: number;
  readonly hold: Promise<SingleHold>;
  /** Where it was called, if that is traced. */
  readonly stack: string;
}

// The backend of a semaphore, for one number of wanted permits: a weighted lock whose capacity can be changed.

export class SemaphoreBackend extends WeightedBackend {
  override readonly kind = 'Semaphore';

  /** `declared`: the total number of permits that this client declares. */
  constructor(
    server: Server,
    newOwnerId: () => string,
    name: string,
    declared: number,
    weight: number,
  ) {
    const kind = { family: 'semaphore', expected: 'a semaphore' } as const;
    super(server, newOwnerId, { name, ...kind, capacity: declared, weight });
  }

  override get transfer(): Transfer {
    const { capacity: declared, weight: held } = this.terms;
    return this.transferOf({ permits: { declared, held } });
  }

  protected override refused({ why, capacity }: Refusal): OptionError {
    const { name: lockName, terms, weight } = this;
    const message =
      why === 'declared'
        ? `semaphore "${lockName}" is declared with ${String(terms.capacity)} permits here, and in use with ${String(capacity)}: declare the same number everywhere, or change it by setPermits()`
        : `semaphore "${lockName}": ${String(weight)} permits were asked for, and there are ${String(capacity)}`;
    return new OptionError(message, { lockName });
  }

  /**
   * Sets the total number of permits, overriding what clients declare; then grants free permits to the queue. Replicas must acknowledge
   * the change, or a failover would undo it.
   */
  async setCapacity(capacity: number, limit: TimeLimit): Promise<void> {
    const { lock, permits } = this.keys;
    try {
      await this.server.connection.runReplicated(
        scripts.weightedSetCapacity,
        [lock, permits],
        [capacity, PERMITS_TTL_MS],
        () => undefined,
        () => true,
        limit,
      );
    } finally {
      // Also if too few replicas have acknowledged the change, since the master has it. If this fails, the next renewal of a place grants
      // the free permits.
      grantNext(this).catch(() => undefined);
    }
  }

  override async keyInTheWay(): Promise<KeyInTheWay | undefined> {
    const found = await super.keyInTheWay();
    const { permits: key, lock } = this.keys;
    if (found && found.key !== lock) return found;
    const set = await this.server.connection.command('get', key).catch(() => null);
    if (typeof set !== 'string' || /^\d+$/.test(set)) return found;
    return { key, type: 'string', expected: 'the capacity that was set of a semaphore' };
  }
}

/** The largest number of permits. Lua still counts exactly with far larger numbers. */
const MOST_PERMITS = 2 ** 31 - 1;

function parsePermits(subject: Subject, permits: unknown): number {
  if (isWholeNumber(permits, 1, MOST_PERMITS)) return permits;
  throw invalid('permits', permits, `a whole number from 1 to ${String(MOST_PERMITS)}`, subject);
}

// The hold of one acquisition of a semaphore: like that of a lock, without what only the owner of a lock can do.

class HeldPermits implements PermitHold {
  static {
    explainWrongCalls(HeldPermits, KINDS.permits);
  }

  readonly permits: number;
  readonly #hold: OwnHold;

  constructor(hold: OwnHold, permits: number) {
    this.#hold = hold;
    this.permits = permits;
  }

  get lockName(): string {
    return this.#hold.lockName;
  }

  get ownerId(): string {
    return this.#hold.ownerId;
  }

  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  remaining(): number {
    return this.#hold.remaining();
  }

  assertHeld(): void {
    this.#hold.assertHeld();
  }

  extend(lease: number): Promise<void> {
    return this.#hold.extend(lease);
  }

  release(): Promise<void> {
    return this.#hold.release();
  }

  export(options?: ExportOptions): Promise<string> {
    return this.#hold.export(options);
  }

  toJSON(): PermitHoldDescription {
    return { ...this.#hold.toJSON(), permits: this.permits };
  }

  /** For `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptions): string {
    return inspected('PermitHold', this.toJSON(), depth, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#hold.releaseQuietly();
  }
}
