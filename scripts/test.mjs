// npm test: sets up, then runs the tests; further arguments go to vitest, e.g. npm test -- --project unit.
import { installChromium } from './install-chromium.mjs';
import { installPackages, root, runNode, setup } from './setup.mjs';

await setup({ preferDocker: true });
installPackages(`${root}test/support/nest-11`);
// Only a run of all tests needs a browser.
if (process.argv.length === 2) installChromium();
runNode(['node_modules/vitest/vitest.mjs', 'run', ...process.argv.slice(2)]);
