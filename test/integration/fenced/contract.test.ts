// A fenced lock keeps the contract that all kinds of lock keep.
import { newClient } from '../../support/clients.js';
import { lockContract } from '../../support/lock-contract.js';

lockContract('fenced lock', {
  className: 'FencedLock',
  newClient,
  getLock: (client, name) => client.getFencedLock(name),
});

lockContract('fenced fair lock', {
  className: 'FencedFairLock',
  newClient,
  getLock: (client, name) => client.getFencedLock(name, { fair: true }),
});
