// Each other kind of lock works on a real server: the contract in full is kept in memory (test/unit/contract).
import { newClient } from '../../support/clients.js';
import { kindOf } from '../../support/lock-contract-kinds.js';
import { lockCase } from '../../support/lock-contract.js';

for (const name of [
  'fenced lock',
  'fenced fair lock',
  'write lock',
  'read lock',
  'multi lock',
] as const) {
  lockCase(name, kindOf(name, newClient));
}
