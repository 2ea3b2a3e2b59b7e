// Installs Chromium for the tests of the live page, where Debian's package manager is there and may be used without asking. `.ci/run` calls
// it, `npm test` does not: without a Chromium these tests are left out, and the end of the run names them.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Where browsers are that the tests can use. */
const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

const SCRIPT = `
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 chromium > /dev/null
`;

const mayInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get');
if (BROWSERS.some((path) => existsSync(path))) {
  console.log('setup: there is a Chromium');
} else if (!mayInstall) {
  console.log('setup: no Chromium: the tests of the live page in a browser are left out');
} else {
  console.log('setup: installing Chromium with apt-get, for the tests of the live page');
  spawnSync('sh', ['-c', SCRIPT], { stdio: ['ignore', 'inherit', 'inherit'] });
}
