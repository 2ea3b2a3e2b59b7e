// Masters of a Redlock that exist only in memory, for fake timers: tests decide how long each link takes.
import type { KeepReply } from '../../src/core/protocol.js';
import { Session } from '../../src/core/session.js';
import { Listeners } from '../../src/core/events.js';
import { Cleanup } from '../../src/core/cleanup.js';
import type { FencedLock, Lock } from '../../src/api/lock.js';
import { fencedLockOver, type TokenCounter } from '../../src/locks/fenced.js';
import type { ReentrantLockBackend, VoteReply } from '../../src/locks/plain.js';
import {
  FencedRedLockBackend,
  QuorumServices,
  RedLockBackend,
} from '../../src/locks/redlock/redlock.js';
import { Master, parseRedLockOptions, type RedLockParts } from '../../src/locks/redlock/master.js';
import type { RestartGuard } from '../../src/locks/redlock/restart-guard.js';
import type { RedLockOptions } from '../../src/index.js';
import { SingleLock } from '../../src/locks/single-lock.js';
import { LostError } from '../../src/redis/failure.js';
import { Refusals } from '../../src/redis/reconnecting.js';
import { PROCESS_CLOCK } from '../../src/runtime/clock.js';
import type { ChannelListener, Subscription } from '../../src/waiting/channels.js';
import { expectOutages } from './expected-warnings.js';
import { FakeServer } from './fake-backend.js';
import { alwaysReady } from './fake-holdfast.js';

const NAME = 'orders';

/** How long one command takes on the way to the server, and its reply on the way back, in milliseconds. */
export interface Delays {
  readonly upMs: number;
  readonly downMs: number;
}

/** What a master does with a fencing token; as the scripts do by default. */
export interface TokenRules {
  /** What it keeps when it has given its vote with this token. */
  readonly voted: (last: bigint, token: bigint) => bigint;
  /** What it keeps when a token is written back, and answers. */
  readonly raised: (last: bigint, token: bigint) => { last: bigint; answer: bigint | undefined };
}

const RULES: TokenRules = {
  voted: (last) => last,
  raised: (last, token) =>
    token > last ? { last: token, answer: undefined } : { last, answer: last },
};

export class SimulatedMaster {
  readonly server = new FakeServer();
  /** How much its clock is ahead of the true time. */
  clockAheadMs = 0;
  lastToken = 0n;
  rules = RULES;
  isUp = true;
  /** How often it was started again. */
  restarts = 0;
  #startedAtMs = -1e9;
  #longestLeaseMs = 0;
  #rememberedUntilMs = 0;

  /** It crashes, and is back at once with nothing in it; what was on its way there or back is lost. */
  restart(): void {
    this.server.delete(NAME);
    this.#rememberedUntilMs = 0;
    this.lastToken = 0n;
    this.restarts++;
    this.#startedAtMs = performance.now();
  }

  get ageMs(): number {
    return performance.now() - this.#startedAtMs;
  }

  /** The longest lease that was asked for, until all are over. */
  get longestLeaseMs(): number {
    return this.#rememberedUntilMs > performance.now() ? this.#longestLeaseMs : 0;
  }

  remember(leaseMs: number): void {
    this.#longestLeaseMs = Math.max(this.longestLeaseMs, leaseMs);
    this.#rememberedUntilMs = Math.max(this.#rememberedUntilMs, performance.now() + leaseMs);
  }

  /** The token that it votes with. */
  vote(): bigint {
    const nowUs = BigInt(Math.round((performance.now() + this.clockAheadMs) * 1_000));
    const token = nowUs > this.lastToken ? nowUs : this.lastToken + 1n;
    this.lastToken = this.rules.voted(this.lastToken, token);
    return token;
  }

  raise(token: bigint): bigint | undefined {
    const { last, answer } = this.rules.raised(this.lastToken, token);
    this.lastToken = last;
    return answer;
  }

  get holder(): string | undefined {
    return this.server.holder(NAME)?.owner;
  }
}

export interface SimulatedClientOptions extends RedLockOptions {
  clientId: string;
  lockWatchdogTimeout?: number;
  /** What the next command to the master of this index takes; nothing by default. */
  delays?: (master: number) => Delays;
  /** Whether the master of this index can be reached now; all can by default. */
  reaches?: (master: number) => boolean;
  /** In place of the guard that the options make. */
  guard?: (longestLeaseMs: number) => RestartGuard;
}

/** The Redlock of one program over these masters. */
export function simulatedRedLock(
  masters: readonly SimulatedMaster[],
  options: SimulatedClientOptions,
): { lock: Lock; events: Listeners } {
  const { parts, services, events } = simulatedParts(masters, options, false);
  return { lock: new SingleLock(services.session, new RedLockBackend(parts, services)), events };
}

/** The same of fenced locks. */
export function simulatedFencedRedLock(
  masters: readonly SimulatedMaster[],
  options: SimulatedClientOptions,
): { lock: FencedLock; events: Listeners } {
  const { parts, services, events } = simulatedParts(masters, options, true);
  const backend = new FencedRedLockBackend(parts, services);
  return { lock: fencedLockOver(services.session, backend), events };
}

function simulatedParts(
  masters: readonly SimulatedMaster[],
  {
    clientId,
    lockWatchdogTimeout = 30_000,
    delays,
    reaches,
    guard,
    ...options
  }: SimulatedClientOptions,
  isFenced: boolean,
): { parts: RedLockParts; services: QuorumServices; events: Listeners } {
  expectOutages();
  const events = new Listeners();
  let last = 0;
  const newOwnerId = (): string => `${clientId}:${++last}`;
  const times = { lockWatchdogTimeoutMs: lockWatchdogTimeout, commandTimeoutMs: 10_000 };
  const owner = new Session({ clientId, ...times, newOwnerId }, alwaysReady, events);
  const services = new QuorumServices(owner, events);
  const links = masters.map((master, index) => {
    const link = new SimulatedLink(
      master,
      clientId,
      () => delays?.(index) ?? AT_ONCE,
      () => reaches?.(index) ?? true,
      isFenced,
    );
    return new Master(link as unknown as ReentrantLockBackend, new Cleanup());
  });
  const settings = { ...parseRedLockOptions(NAME, options, isFenced), ...(guard && { guard }) };
  return { parts: { name: NAME, masters: links, isFenced, settings }, services, events };
}

const AT_ONCE: Delays = { upMs: 0, downMs: 0 };

/** The connection of one client to one master: commands and replies keep their order. */
class SimulatedLink {
  readonly name = NAME;
  readonly id: string;
  readonly batchKey = '';
  readonly counter: Pick<TokenCounter, 'key' | 'last' | 'raise'> | undefined;
  readonly connection: Pick<
    ReentrantLockBackend['connection'],
    'place' | 'isReady' | 'lastError' | 'server' | 'listen' | 'refusals'
  >;
  readonly #master: SimulatedMaster;
  readonly #delays: () => Delays;
  readonly #isReached: () => boolean;
  #lastArrival: Promise<unknown> = Promise.resolve();
  #lastReply: Promise<unknown> = Promise.resolve();

  constructor(
    master: SimulatedMaster,
    clientId: string,
    delays: () => Delays,
    isReached: () => boolean,
    isFenced: boolean,
  ) {
    this.#master = master;
    this.#delays = delays;
    this.#isReached = isReached;
    this.id = `${clientId} ${++links}`;
    if (isFenced) {
      this.counter = {
        key: 'counter',
        last: () => this.#ask(() => master.lastToken),
        raise: (token) => this.#ask(() => master.raise(token)),
      };
    }
    this.connection = {
      place: this.id,
      refusals: new Refusals(new Listeners(), PROCESS_CLOCK, () => this.id),
      listen: () => () => undefined, // it sees no need to tell: a restart takes no time
      get isReady() {
        return master.isUp && isReached();
      },
      get lastError() {
        return this.isReady ? undefined : new Error('it is down');
      },
      server: {
        isSharded: false,
        id: undefined,
        get ageMs() {
          return master.ageMs;
        },
        isAgeTold: true,
      },
    };
  }

  vote(ownerId: string, leaseMs: number): Promise<VoteReply> {
    return this.#ask((server) => {
      const { longestLeaseMs } = this.#master;
      this.#master.remember(leaseMs);
      const reply = server.acquire(NAME, ownerId, leaseMs);
      const isGiven = this.counter && reply.outcome === 'acquired';
      return { reply: isGiven ? { ...reply, token: this.#master.vote() } : reply, longestLeaseMs };
    });
  }

  remember(_: unknown, leaseMs: number): Promise<void> {
    return this.#ask(() => {
      this.#master.remember(leaseMs);
    });
  }

  reenter(ownerId: string, count: number, leaseMs: number): Promise<KeepReply> {
    return this.#ask((server) => server.keep(NAME, ownerId, count, leaseMs));
  }

  renewMany(_: unknown, ownerIds: readonly string[], leaseMs: number): Promise<KeepReply[]> {
    return this.#ask((server) =>
      ownerIds.map((ownerId) => server.keep(NAME, ownerId, undefined, leaseMs)),
    );
  }

  release(ownerId: string): Promise<boolean> {
    return this.#ask((server) => server.release(NAME, ownerId));
  }

  withdraw(ownerId: string): Promise<boolean> {
    return this.#ask((server) => {
      if (server.holder(NAME)?.owner !== ownerId) return false;
      server.delete(NAME);
      return true;
    });
  }

  subscribeToUnlocks(listener: ChannelListener): Subscription {
    return this.#master.server.subscribe(NAME, listener);
  }

  async #ask<T>(execute: (server: FakeServer) => T): Promise<T> {
    const { upMs, downMs } = this.#delays();
    const { restarts } = this.#master;
    const assertConnected = (): void => {
      const isConnected = this.#master.isUp && this.#isReached();
      if (!isConnected || this.#master.restarts !== restarts) throw new LostError();
    };
    this.#lastArrival = Promise.all([this.#lastArrival, passed(upMs)]);
    await this.#lastArrival;
    assertConnected();
    const reply = execute(this.#master.server);
    this.#lastReply = Promise.all([this.#lastReply, passed(downMs)]);
    await this.#lastReply;
    assertConnected();
    return reply;
  }
}

let links = 0;

function passed(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms));
}
