// Asks whether a Docker engine answers, and whether it has (or can pull) the Redis image, over the engine's own HTTP API.
import { request } from 'node:http';
import { homedir } from 'node:os';
import { join } from 'node:path';

const REDIS_IMAGE = process.env.HOLDFAST_REDIS_IMAGE ?? 'redis:7.4-alpine';

/** The first engine that answers and has the image, as { version, image }, or undefined. */
export async function findDockerEngine() {
  for (const engine of engineAddresses()) {
    const version = await engineVersion(engine);
    if (!version) continue;
    if (await hasImage(engine)) return { version, image: REDIS_IMAGE };
    console.log(`setup: a Docker engine answers, but cannot get ${REDIS_IMAGE}: not using it`);
  }
  return undefined;
}

function engineAddresses() {
  const host = process.env.DOCKER_HOST;
  if (host?.startsWith('unix://')) return [{ socketPath: host.slice('unix://'.length) }];
  if (host?.startsWith('tcp://')) {
    const { hostname, port } = new URL(host);
    return [{ host: hostname, port: port || 2375 }];
  }
  return [
    '/var/run/docker.sock',
    join(process.env.XDG_RUNTIME_DIR ?? '/run/user/0', 'docker.sock'),
    join(homedir(), '.docker/run/docker.sock'),
    join(homedir(), '.docker/desktop/docker.sock'),
  ].map((socketPath) => ({ socketPath }));
}

async function engineVersion(engine) {
  const reply = await call(engine, 'GET', '/version', 2_000);
  return reply?.status === 200 ? JSON.parse(reply.body).Version : undefined;
}

async function hasImage(engine) {
  if (await imageIsThere(engine)) return true;
  console.log(`setup: pulling ${REDIS_IMAGE}`);
  const [name, tag] = REDIS_IMAGE.split(':');
  await call(engine, 'POST', `/images/create?fromImage=${name}&tag=${tag ?? 'latest'}`, 120_000);
  return imageIsThere(engine);
}

async function imageIsThere(engine) {
  const reply = await call(engine, 'GET', `/images/${REDIS_IMAGE}/json`, 5_000);
  return reply?.status === 200;
}

/** One call to the engine; undefined when it does not answer in time. */
function call(engine, method, path, timeoutMs) {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const sent = request({ ...engine, method, path, signal }, (response) => {
      let body = '';
      response.on('data', (chunk) => (body += chunk));
      response.on('end', () => resolve({ status: response.statusCode, body }));
      response.on('error', () => resolve(undefined));
    });
    sent.on('error', () => resolve(undefined));
    sent.end();
  });
}
