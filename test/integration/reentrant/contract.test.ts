// Each kind of lock keeps the contract that all kinds of lock keep.
import { newClient } from '../../support/clients.js';
import { lockContract } from '../../support/lock-contract.js';

lockContract('reentrant lock', {
  className: 'Lock',
  newClient,
  getLock: (client, name) => client.getLock(name),
});

lockContract('fair lock', {
  className: 'FairLock',
  newClient,
  getLock: (client, name) => client.getFairLock(name),
});

lockContract('multi lock', {
  className: 'MultiLock',
  newClient,
  membersTell: true,
  getLock: (client, name) =>
    client.getMultiLock(client.getLock(`${name}:reentrant`), client.getFairLock(`${name}:fair`)),
});
