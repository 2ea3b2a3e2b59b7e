// A client without Redis: real scopes, holds and locks over a server in memory.
import { vi } from 'vitest';
import { type Reachable, runAsOneOwner, Session } from '../../src/core/session.js';
import type { HoldfastEvents } from '../../src/api/events.js';
import { Listeners } from '../../src/core/events.js';
import type { Lock } from '../../src/api/lock.js';
import { outsideScopes } from '../../src/scopes/scope.js';
import { SingleLock } from '../../src/locks/single-lock.js';
import { FakeNode, FakeServer } from './fake-backend.js';

export interface FakeOptions {
  server?: FakeServer;
  clientId?: string;
  lockWatchdogTimeout?: number;
  commandTimeout?: number;
}

export interface FakeHoldfast {
  readonly server: FakeServer;
  readonly session: Session;
  readonly events: Listeners;
  /** Everything that was passed to process.emitWarning. */
  readonly processWarnings: string[];
  readonly getLock: (name: string) => Lock;
  readonly run: <T>(fn: () => T | Promise<T>) => Promise<T>;
  readonly detach: <T>(fn: () => T) => T;
  /** All events of one kind so far, those of `run` included. */
  readonly told: <Name extends keyof HoldfastEvents>(
    name: Name,
  ) => Parameters<HoldfastEvents[Name]>[0][];
}

/** A connection that is always there. */
export const alwaysReady: Reachable = {
  isReady: true,
  whenReady: () => Promise.resolve(),
  lastError: undefined,
};

export function fakeHoldfast(options: FakeOptions = {}): FakeHoldfast {
  const { server = new FakeServer(), clientId = 'me', lockWatchdogTimeout = 30_000 } = options;
  const { commandTimeout = lockWatchdogTimeout / 3 } = options;
  const events = new Listeners();
  const times = { lockWatchdogTimeoutMs: lockWatchdogTimeout, commandTimeoutMs: commandTimeout };
  const session = new Session({ clientId, ...times }, alwaysReady, events);
  const node = new FakeNode(server, clientId, lockWatchdogTimeout, session.schedule);
  const processWarnings: string[] = [];
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
    processWarnings.push(String(warning));
  });
  const told = new Map<keyof HoldfastEvents, unknown[]>();
  for (const name of EVENT_NAMES) {
    const list: unknown[] = [];
    told.set(name, list);
    const listen = (event: unknown): void => void list.push(event);
    (events as EventEmitterLike).on(name, listen);
  }
  return {
    server,
    session,
    events,
    processWarnings,
    getLock: (name) => new SingleLock(session, node.lock(name)),
    run: (fn) => runAsOneOwner(fn, session.warnings),
    detach: outsideScopes,
    told: (name) => told.get(name) as Parameters<HoldfastEvents[typeof name]>[0][],
  };
}

interface EventEmitterLike {
  on(name: string, listener: (event: unknown) => void): unknown;
}

const EVENT_NAMES = [
  'acquired',
  'released',
  'waiting',
  'renewed',
  'lost',
  'warning',
  'error',
] as const satisfies (keyof HoldfastEvents)[];
