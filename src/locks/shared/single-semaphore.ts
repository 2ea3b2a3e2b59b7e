// A semaphore on one Redis: its permits are the weight of a weighted lock.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected } from '../../api/description.js';
import { LockTimeoutError, OptionError } from '../../api/errors.js';
import {
  parseFunction,
  parseName,
  parseOptions,
  parseRequest,
  type Subject,
} from '../../api/options.js';
import type {
  PermitHold,
  PermitOptions,
  PermitWaiter,
  Semaphore,
  SemaphoreDescription,
} from '../../api/semaphore.js';
import { shown } from '../../api/shown.js';
import { acquire } from '../../core/acquire.js';
import { Grant } from '../../core/grant.js';
import type { SelfWait } from '../../core/request.js';
import type { Server } from '../../core/server.js';
import type { Session } from '../../core/session.js';
import type { SingleHold } from '../../core/single-hold.js';
import { whileHeld } from '../../core/while-held.js';
import { currentScope, holdersAround, outsideScopes, Scope } from '../../scopes/scope.js';
import { addMissingMethods } from '../missing-methods.js';
import { HeldPermits } from './held-permits.js';
import { SemaphoreBackend } from './semaphore-backend.js';
import { insidePermits, parsePermits, parseSemaphore } from './semaphore-settings.js';
import type { WeightedView } from './weighted-replies.js';

const ALL_OPTIONS = ['permits', 'wait', 'lease', 'signal'] as const;

type Guarded<T> = (hold: PermitHold) => T | Promise<T>;

export class SingleSemaphore implements Semaphore {
  static {
    addMissingMethods(SingleSemaphore, 'semaphore', {
      withLock: 'withPermits(fn)',
      lock: 'acquire(), and release() of the hold that it returns',
      tryLock: 'tryAcquire(), and release() of the hold that it returns',
      unlock: 'release() of the hold that acquire() returned',
    });
  }

  readonly name: string;
  readonly #session: Session;
  readonly #server: Server;
  readonly #declared: number;

  constructor(session: Session, server: Server, name: unknown, options: unknown) {
    this.#session = session;
    this.#server = server;
    this.name = parseName(name);
    this.#declared = parseSemaphore(this.name, options);
  }

  async acquire(options?: PermitOptions): Promise<PermitHold> {
    const { defaultWaitMs } = this.#session;
    const { permits, hold } = this.#acquire('the options of acquire()', options, defaultWaitMs);
    return new HeldPermits(await hold, permits);
  }

  async tryAcquire(options?: PermitOptions): Promise<PermitHold | undefined> {
    const { permits, hold } = this.#acquire('the options of tryAcquire()', options, 0);
    try {
      return new HeldPermits(await hold, permits);
    } catch (error) {
      if (error instanceof LockTimeoutError) return undefined;
      throw error;
    }
  }

  async withPermits<T>(fn: Guarded<T>): Promise<T>;
  async withPermits<T>(options: PermitOptions, fn: Guarded<T>): Promise<T>;
  async withPermits<T>(...args: [Guarded<T>] | [PermitOptions, Guarded<T>]): Promise<T> {
    const [options, fn] = args.length === 1 ? [undefined, args[0]] : args;
    if (typeof options === 'function') {
      throw new OptionError(
        `semaphore "${this.name}": withPermits() was given a function and then ${shown(fn)}: its options come first, then the function`,
        { lockName: this.name },
      );
    }
    parseFunction(fn, 'the function given to withPermits()', this.#subject);
    const { defaultWaitMs } = this.#session;
    const { permits, hold } = this.#acquire('the options of withPermits()', options, defaultWaitMs);
    return await whileHeld(hold, (held) => {
      const scope = new Scope(currentScope(), false);
      held.enterInto(scope);
      return scope.run(() => fn(new HeldPermits(held, permits)));
    });
  }

  async setPermits(permits: number): Promise<void> {
    const capacity = parsePermits(permits, 'permits', this.name);
    const backend = this.#backend(1);
    await this.#session.ask(backend, (limit) => backend.setCapacity(capacity, limit));
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
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }

  /** Outside all scopes: each acquisition is an owner of its own, whatever the caller holds. */
  #acquire(
    what: string,
    options: PermitOptions | undefined,
    waitMs: number,
  ): { readonly permits: number; readonly hold: Promise<SingleHold> } {
    const given =
      options === undefined ? {} : parseOptions(what, options, ALL_OPTIONS, this.#subject);
    const permits = parsePermits(
      given.permits === undefined ? 1 : given.permits,
      'permits',
      this.name,
    );
    const request = parseRequest(this.#subject, given, waitMs);
    const backend = this.#backend(permits);
    const selfWait = this.#selfWait(backend);
    const terms = [this.#session, backend, request, 'acquire'] as const;
    const hold = outsideScopes(() => acquire(...terms, undefined, undefined, selfWait));
    return { permits, hold };
  }

  /** How a call inside `withPermits()` waits for itself: what is held around it, and what it wants, is more than there is. */
  #selfWait({ id, weight }: SemaphoreBackend): SelfWait | undefined {
    const around = holdersAround(currentScope(), id).map(({ grant }) => grant);
    if (around.length === 0) return undefined;
    return () => {
      let permits = 0;
      for (const grant of around)
        if (
          grant instanceof Grant &&
          grant.lock instanceof SemaphoreBackend &&
          grant.remaining() > 0
        )
          permits += grant.lock.weight;
      if (permits + weight <= this.#declared) return undefined;
      return {
        ownerId: around[0]?.ownerId ?? '',
        why: insidePermits(permits, this.#declared, weight),
      };
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
