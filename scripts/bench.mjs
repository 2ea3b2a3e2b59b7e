// npm run bench: sets up, builds, then runs the benchmarks; -- --quick takes about a minute, -- --smoke only checks that it works.
import { spawnSync } from 'node:child_process';
import { root, runNode, setup } from './setup.mjs';

await setup();
// They measure what ships: dist/.
const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
  cwd: root,
  stdio: 'inherit',
  shell: process.platform === 'win32',
});
if (status !== 0) process.exit(1);
const library = ['--import', './test/support/library-under-test.mjs'];
runNode(['--import', 'tsx', ...library, 'benchmarks/main.ts', ...process.argv.slice(2)]);
