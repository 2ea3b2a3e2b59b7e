// Finds a Redis for the demo, the benchmarks and the tests, and installs one where that is allowed.
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { findDockerEngine } from './docker-engine.mjs';
import { installRedis } from './install-redis.mjs';

/**
 * Returns the environment that tells a child process where Redis is: HOLDFAST_REDIS_URL (a running server), HOLDFAST_REDIS_SERVER (the path
 * of a server program), and HOLDFAST_TEST_BACKEND, which says how further servers are started: `process`, `docker` or `none`.
 */
export async function findRedis({ preferDocker }) {
  const forced = process.env.HOLDFAST_TEST_BACKEND;
  if (forced === 'none') return givenOnly();
  if (forced === 'process') return serverProgram() ?? installedServer() ?? fail(NO_REDIS);
  if (forced === 'docker') return (await dockerEngine()) ?? fail(NO_ENGINE);
  if (forced) fail(`HOLDFAST_TEST_BACKEND is "${forced}"; it may be "process", "docker" or "none"`);

  const found = preferDocker
    ? ((await dockerEngine()) ?? serverProgram())
    : (serverProgram() ?? (await dockerEngine()));
  if (found) return found;
  if (process.env.HOLDFAST_REDIS_URL) return givenOnly();
  return installedServer() ?? fail(NO_REDIS);
}

const NO_ENGINE =
  'HOLDFAST_TEST_BACKEND is "docker", but no Docker engine with a Redis image answers';
const NO_REDIS = `no Redis found. One of these helps:
  - install Redis 6.2 or newer, or Valkey, so that redis-server or valkey-server is on the PATH
  - HOLDFAST_REDIS_SERVER=/path/to/redis-server
  - start a Docker engine
  - HOLDFAST_REDIS_URL=redis://host:6379 names a server that is already running`;

function givenOnly() {
  console.log(
    'setup: Redis is the one at HOLDFAST_REDIS_URL; tests that start servers are left out',
  );
  return { HOLDFAST_TEST_BACKEND: 'none' };
}

function serverProgram() {
  const path = serverPath();
  if (!path) return undefined;
  const { status, stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
  if (status !== 0) fail(`"${path} --version" does not answer`);
  console.log(`setup: Redis is ${path} (${/v=(\S+)/.exec(stdout)?.[1] ?? 'version unknown'})`);
  return { HOLDFAST_TEST_BACKEND: 'process', HOLDFAST_REDIS_SERVER: path };
}

function installedServer() {
  installRedis();
  return serverProgram();
}

async function dockerEngine() {
  const engine = await findDockerEngine();
  if (!engine) return undefined;
  console.log(`setup: Redis is ${engine.image} on the Docker engine ${engine.version}`);
  const path = serverPath();
  return { HOLDFAST_TEST_BACKEND: 'docker', ...(path && { HOLDFAST_REDIS_SERVER: path }) };
}

function serverPath() {
  return process.env.HOLDFAST_REDIS_SERVER ?? onPath('redis-server') ?? onPath('valkey-server');
}

function onPath(program) {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.map((folder) => join(folder, program)).find(isExecutable);
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function fail(message) {
  throw new Error(message);
}
