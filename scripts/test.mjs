// npm test: sets up, then runs the tests; further arguments go to vitest, e.g. npm test -- --project unit.
import { installPackages, root, runNode, setup } from './setup.mjs';

await setup({ preferDocker: true });
installPackages(`${root}test/support/nest-11`);
runNode(['node_modules/vitest/vitest.mjs', 'run', ...process.argv.slice(2)]);
