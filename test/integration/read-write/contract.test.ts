// Both halves of a read-write lock keep the contract that all kinds of lock keep.
import { newClient } from '../../support/clients.js';
import { lockContract } from '../../support/lock-contract.js';

lockContract('write lock', {
  className: 'WriteLock',
  newClient,
  getLock: (client, name) => client.getReadWriteLock(name).writeLock(),
});

lockContract('read lock', {
  className: 'ReadLock',
  newClient,
  getLock: (client, name) => client.getReadWriteLock(name).readLock(),
  getRival: (client, name) => client.getReadWriteLock(name).writeLock(),
});
