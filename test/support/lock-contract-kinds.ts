// The kinds of lock that keep the contract of all locks.
import type { Holdfast, HoldfastOptions, RedLockOptions } from '../../src/index.js';
import type { LockKind } from './lock-contract-context.js';

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

export type KindName = keyof typeof KINDS;

/** A kind of lock on one server. */
export function kindOf(name: KindName, newClient: LockKind['newClient']): LockKind {
  return { ...KINDS[name], newClient };
}

/** A kind of Redlock; `newClients`: one for each master. */
export function redlockKind(
  name: 'Redlock' | 'fenced Redlock',
  newClients: (options: Partial<HoldfastOptions>) => Holdfast[],
  options: RedLockOptions,
): LockKind {
  /** For the client of the first master, those of all. */
  const members = new WeakMap<Holdfast, readonly Holdfast[]>();
  const isFenced = name === 'fenced Redlock';
  return {
    className: isFenced ? 'FencedRedLock' : 'RedLock',
    newClient(given) {
      const all = newClients(given);
      const [client, ...rest] = all as [Holdfast, ...Holdfast[]];
      members.set(client, all);
      const close = client.close.bind(client);
      client.close = async () => {
        await Promise.all([close(), ...rest.map((other) => other.close())]);
      };
      return client;
    },
    connected: (client) => Promise.all(members.get(client)!.map((member) => member.ping())),
    getLock(client, lockName) {
      const all = members.get(client)!;
      return isFenced
        ? client.getRedLock(...all.map((each) => each.getFencedLock(lockName)), options)
        : client.getRedLock(...all.map((each) => each.getLock(lockName)), options);
    },
  };
}
