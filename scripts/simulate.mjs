// npm run simulate: sets up, then plays locks on servers in memory, in virtual time. It needs no Redis.
import { installPackages, runNode } from './setup.mjs';

installPackages();
runNode(['--import', 'tsx', 'test/simulate/main.ts', ...process.argv.slice(2)]);
