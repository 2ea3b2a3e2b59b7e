// npm run bench: sets up, then runs the benchmarks; -- --smoke runs each only long enough to see that it works.
import { runNode, setup } from './setup.mjs';

await setup();
runNode(['--import', 'tsx', 'benchmarks/main.ts', ...process.argv.slice(2)]);
