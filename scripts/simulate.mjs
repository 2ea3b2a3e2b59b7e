// npm run simulate: sets up, then plays locks on servers in memory, in virtual time. It needs no Redis.
import { installPackages, runNode } from './setup.mjs';

installPackages();
// Its leases are short, so that many pass in a round: the warnings of that would hide what it prints.
const quiet = '--disable-warning=HoldfastWarning';
runNode([quiet, '--import', 'tsx', 'test/simulate/main.ts', ...process.argv.slice(2)]);
