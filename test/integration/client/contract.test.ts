// Each kind of lock on one server keeps the contract that all kinds of lock keep.
import { newClient } from '../../support/clients.js';
import { lockContracts } from '../../support/lock-contract.js';

lockContracts(newClient);
