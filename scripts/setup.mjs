// Makes a fresh clone runnable: installs the npm packages and finds a Redis. Plain Node, without any package.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findRedis } from './find-redis.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** Prepares packages and Redis; afterwards process.env tells every child process where Redis is. */
export async function setup({ preferDocker = false } = {}) {
  checkNodeVersion();
  installPackages();
  try {
    Object.assign(process.env, await findRedis({ preferDocker }));
  } catch (error) {
    fail(error.message);
  }
}

/** Runs a Node program of this repository in the foreground and exits with its exit code. */
export function runNode(args) {
  const { status, signal } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  process.exit(status ?? (signal === 'SIGINT' ? 130 : 1));
}

function checkNodeVersion() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    fail(`holdfast needs Node.js 20.19 or newer; this is ${process.versions.node}`);
  }
}

export function installPackages(folder = root) {
  if (packagesAreInstalled(folder)) return;
  console.log(`setup: installing the npm packages (npm ci in ${folder})`);
  // No package here needs its install script; without them nothing is compiled.
  const { status } = spawnSync(
    'npm',
    ['ci', '--include=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'],
    { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' },
  );
  if (status !== 0) fail('npm ci failed; see above');
}

// Compared by content: checking out another commit changes file times, but seldom packages.
function packagesAreInstalled(folder) {
  const installedLock = join(folder, 'node_modules/.package-lock.json');
  if (!existsSync(installedLock)) return false;
  const installed = readPackages(installedLock);
  return Object.entries(readPackages(join(folder, 'package-lock.json'))).every(
    ([path, wanted]) =>
      path === '' || wanted.optional || installed[path]?.version === wanted.version,
  );
}

function readPackages(lockFile) {
  return JSON.parse(readFileSync(lockFile, 'utf8')).packages;
}

function fail(message) {
  console.error(`setup: ${message}`);
  process.exit(1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await setup();
