// A fair lock keeps the contract of all locks, on a real server.
import { newClient } from '../../support/clients.js';
import { kindOf } from '../../support/lock-contract-kinds.js';
import { lockContract } from '../../support/lock-contract.js';

lockContract('fair lock', kindOf('fair lock', newClient), 'real');
