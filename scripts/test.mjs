// npm test: sets up, then runs the tests; further arguments go to vitest, e.g. npm test -- --project unit.
import { runNode, setup } from './setup.mjs';

await setup({ preferDocker: true });
runNode(['node_modules/vitest/vitest.mjs', 'run', ...process.argv.slice(2)]);
