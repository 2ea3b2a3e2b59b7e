// npm run demo: sets up, then runs the demo.
import { runNode, setup } from './setup.mjs';

await setup();
runNode(['--import', 'tsx', 'demo/main.ts', ...process.argv.slice(2)]);
