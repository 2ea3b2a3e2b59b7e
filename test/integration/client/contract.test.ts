// Each kind of lock on one server keeps the contract of all locks.
import { newClient } from '../../support/clients.js';
import { lockContracts } from '../../support/lock-contract.js';

lockContracts(newClient);
