// The promises of every kind of lock, as one suite: the whole public surface, on a real server or on one in memory.
import { describe } from 'vitest';
import type { Holdfast, HoldfastOptions, Lock, RedLockOptions } from '../../src/index.js';
import { callTests, lookingTests, WAKING_LEASE_MS, wakingTests } from './lock-contract-calls.js';
import { contextPerTest, type LockKind } from './lock-contract-context.js';
import { descriptionTests, eventTests, holdTests } from './lock-contract-holds.js';

/** The default lease: short enough to see renewals, long enough for a busy machine, which may delay a process for over a second. */
const LEASE_MS = 3_000;

/** Runs the suite for one kind of lock. */
function lockContract(kindName: string, kind: LockKind): void {
  describe(`the contract of a ${kindName}`, () => {
    describe('whose clients have short leases', () => {
      const current = contextPerTest(kindName, kind, LEASE_MS);
      describe("Redisson's three methods", () => {
        callTests(current);
      });
      describe('holds', () => {
        holdTests(current);
      });
      describe('queries and forceUnlock()', () => {
        lookingTests(current);
      });
      describe('descriptions', () => {
        descriptionTests(current);
      });
      if (!kind.membersTell) {
        describe('events', () => {
          eventTests(current);
        });
      }
    });

    describe('whose clients poll only after long', () => {
      wakingTests(contextPerTest(kindName, kind, WAKING_LEASE_MS));
    });
  });
}

type OnOneServer = Omit<LockKind, 'newClient'>;

const KINDS = {
  'reentrant lock': { className: 'Lock', getLock: (client, name) => client.getLock(name) },
  'fair lock': { className: 'FairLock', getLock: (client, name) => client.getFairLock(name) },
  'fenced lock': { className: 'FencedLock', getLock: (client, name) => client.getFencedLock(name) },
  'fenced fair lock': {
    className: 'FencedFairLock',
    getLock: (client, name) => client.getFencedLock(name, { fair: true }),
  },
  'write lock': {
    className: 'WriteLock',
    getLock: (client, name) => client.getReadWriteLock(name).writeLock(),
  },
  'read lock': {
    className: 'ReadLock',
    getLock: (client, name) => client.getReadWriteLock(name).readLock(),
    getRival: (client, name) => client.getReadWriteLock(name).writeLock(),
  },
  'multi lock': {
    className: 'MultiLock',
    membersTell: true,
    getLock: (client, name) =>
      client.getMultiLock(client.getLock(`${name}:reentrant`), client.getFairLock(`${name}:fair`)),
  },
} as const satisfies Record<string, OnOneServer>;

type KindName = keyof typeof KINDS;

/** Runs the suite for kinds of locks on one server, all by default; `words`: the description of their users. */
export function lockContracts(
  newClient: LockKind['newClient'],
  names: readonly KindName[] = Object.keys(KINDS) as KindName[],
  words = '',
): void {
  for (const name of names) {
    const kind: OnOneServer = KINDS[name];
    lockContract(`${name}${words}`, { ...kind, newClient });
  }
}

/** Runs the suite for Redlocks; `newClients`: one for each master. */
export function redlockContracts(
  newClients: (options: Partial<HoldfastOptions>) => Holdfast[],
  plain: RedLockOptions,
  fenced: RedLockOptions,
): void {
  /** For the client of the first master, those of all. */
  const members = new WeakMap<Holdfast, readonly Holdfast[]>();
  const newClient = (options: Partial<HoldfastOptions>): Holdfast => {
    const all = newClients(options);
    const [client, ...rest] = all as [Holdfast, ...Holdfast[]];
    members.set(client, all);
    const close = client.close.bind(client);
    client.close = async () => {
      await Promise.all([close(), ...rest.map((other) => other.close())]);
    };
    return client;
  };
  const connected = (client: Holdfast): Promise<unknown> =>
    Promise.all(members.get(client)!.map((member) => member.ping()));
  const over = <T extends Lock>(client: Holdfast, get: (member: Holdfast) => T): T[] =>
    members.get(client)!.map(get);
  lockContract('Redlock', {
    className: 'RedLock',
    newClient,
    connected,
    getLock: (client, name) =>
      client.getRedLock(...over(client, (each) => each.getLock(name)), plain),
  });
  lockContract('fenced Redlock', {
    className: 'FencedRedLock',
    newClient,
    connected,
    getLock: (client, name) =>
      client.getRedLock(...over(client, (each) => each.getFencedLock(name)), fenced),
  });
}
