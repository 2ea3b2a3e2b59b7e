// npm run chaos: sets up, then runs the fault campaign. It needs servers of its own, which it kills and freezes.
import { runNode, setup } from './setup.mjs';

await setup();
runNode(['--import', 'tsx', 'test/chaos/main.ts', ...process.argv.slice(2)]);
