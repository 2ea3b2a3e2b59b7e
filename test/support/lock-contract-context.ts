// What the parts of the lock contract share: for each test, a new lock of one kind as two clients see it.
import { afterEach, beforeEach } from 'vitest';
import type { Holdfast, HoldfastOptions, Lock } from '../../src/index.js';
import { uniqueName } from './unique-name.js';

export interface LockKind {
  /** A client with these options; the suite closes it. */
  newClient(options: Partial<HoldfastOptions>): Holdfast;
  /** Waits until the client is connected to all servers; left out for one server, whose connection every call waits for. */
  readonly connected?: (client: Holdfast) => Promise<unknown>;
  /** Its name in `util.inspect`. */
  readonly className: string;
  /** Its events are those of its members, each by its own client. */
  readonly membersTell?: boolean;
  /** The lock of this kind and name, as this client sees it. */
  getLock(client: Holdfast, name: string): Lock;
  /** A lock that excludes it; left out: the lock itself, which one owner has at a time. */
  getRival?(client: Holdfast, name: string): Lock;
}

/** What the tests of the suite share. */
export interface ContractContext {
  /** The client under test. */
  readonly client: Holdfast;
  /** Another client of the same servers. */
  readonly stranger: Holdfast;
  readonly lock: Lock;
  /** Its name in `util.inspect`. */
  readonly className: string;
  /** A part of its name, and of those of its members. */
  readonly name: string;
  /** The same lock, as the other client sees it. */
  readonly seen: Lock;
  /** A lock that excludes it, of the client under test: the lock itself, unless several may have that. */
  readonly rival: Lock;
  /** The same, of the other client. */
  readonly strangers: Lock;
  /** Whether several may have the lock at a time. */
  readonly isShared: boolean;
  /** Both clients' default lease. */
  readonly leaseMs: number;
  /** One more client, which the caller closes, and the same lock as that client has it. */
  readonly newThird: () => { readonly third: Holdfast; readonly thirds: Lock };
}

/** New clients, and a new lock, for each test of the current group; returns the current test's. */
export function contextPerTest(
  kindName: string,
  kind: LockKind,
  leaseMs: number,
): () => ContractContext {
  let context: ContractContext;

  beforeEach(async () => {
    const options = { lockWatchdogTimeout: leaseMs, commandTimeout: 5_000 };
    const client = kind.newClient(options);
    const stranger = kind.newClient(options);
    if (kind.connected) await Promise.all([client, stranger].map(kind.connected));
    const name = uniqueName(kindName.replaceAll(' ', '-'));
    const lock = kind.getLock(client, name);
    const seen = kind.getLock(stranger, name);
    context = {
      client,
      stranger,
      lock,
      className: kind.className,
      name,
      seen,
      rival: kind.getRival?.(client, name) ?? lock,
      strangers: kind.getRival?.(stranger, name) ?? seen,
      isShared: kind.getRival !== undefined,
      leaseMs,
      newThird: () => {
        const third = kind.newClient(options);
        return { third, thirds: (kind.getRival ?? kind.getLock)(third, name) };
      },
    };
  });

  afterEach(async () => {
    await Promise.all([context.client.close(), context.stranger.close()]);
  });

  return () => context;
}
