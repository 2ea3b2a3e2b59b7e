// A Redis server that also listens for TLS, with a certificate made for it.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.js';
import { startRedisProcess } from './redis-process.js';
import { topologiesUnavailable, type RedisServer } from './redis-server.js';

export interface TlsServer extends AsyncDisposable {
  /** Its port without TLS is for whoever looks after it. */
  readonly server: RedisServer;
  readonly port: number;
  /** What a client has to trust. */
  readonly ca: string;
}

/** Why there can be none here, or undefined. */
export const tlsUnavailable: string | undefined =
  topologiesUnavailable ??
  (hasOpenssl() ? undefined : 'needs openssl on the PATH') ??
  (hasTls() ? undefined : `${program()} was built without TLS`);

export async function startTlsServer(): Promise<TlsServer> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tls-'));
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  try {
    execFileSync(
      'openssl',
      [
        ...[
          'req',
          '-x509',
          '-newkey',
          'rsa:2048',
          '-nodes',
          '-days',
          '2',
          '-subj',
          '/CN=localhost',
        ],
        ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key],
        ...['-out', certificate],
      ],
      { stdio: 'ignore' },
    );
    const port = await freePort();
    const server = await startRedisProcess({
      args: [
        ...[
          '--tls-port',
          String(port),
          '--tls-auth-clients',
          'no',
          '--tls-ca-cert-file',
          certificate,
        ],
        ...['--tls-cert-file', certificate, '--tls-key-file', key],
      ],
    });
    return {
      server,
      port,
      ca: readFileSync(certificate, 'utf8'),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function program(): string {
  return process.env['HOLDFAST_REDIS_SERVER'] ?? 'redis-server';
}

/** A server without TLS does not know the first of these options; one with it stumbles over the second. */
function hasTls(): boolean {
  try {
    execFileSync(program(), ['--port', '0', '--tls-port', '0', '--tls-replication', 'neither'], {
      encoding: 'utf8',
      stdio: 'pipe',
      timeout: 5_000,
    });
    return true;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return !(stdout + stderr).includes('Bad directive');
  }
}

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore', timeout: 5_000 });
    return true;
  } catch {
    return false;
  }
}
