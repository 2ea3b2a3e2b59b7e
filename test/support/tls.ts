// A Redis server that also listens for TLS, and a proxy that speaks TLS for one that does not.
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import {
  freePort,
  startRedisProcess,
  topologiesUnavailable,
  type RedisServer,
} from './redis-server.js';

export interface TlsServer extends AsyncDisposable {
  /** Its port without TLS is for whoever looks after it. */
  readonly server: RedisServer;
  readonly port: number;
  /** What a client has to trust. */
  readonly ca: string;
}

/** A certificate that nobody else has signed, and its key, as PEM. Who trusts it names it as `ca`. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

/** Why no certificate can be made here, or undefined. */
export const certificatesUnavailable: string | undefined = hasOpenssl()
  ? undefined
  : 'needs openssl on the PATH';

/** Why there can be none here, or undefined. */
export const tlsUnavailable: string | undefined =
  topologiesUnavailable ??
  certificatesUnavailable ??
  (hasTls() ? undefined : `${program()} was built without TLS`);

/** `names`: for whom it is, such as `DNS:localhost,IP:127.0.0.1`. */
export function makeCertificate(names: string): Certificate {
  const folder = newFolder();
  try {
    const [key, certificate] = makeCertificateIn(folder, names);
    return { certificate: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function startTlsServer(): Promise<TlsServer> {
  const folder = newFolder();
  try {
    const [key, certificate] = makeCertificateIn(folder, 'DNS:localhost,IP:127.0.0.1');
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

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'holdfast-tls-'));
}

/** Returns where its key and the certificate are. */
function makeCertificateIn(folder: string, names: string): [key: string, certificate: string] {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost'],
      ...['-addext', `subjectAltName=${names}`, '-keyout', key, '-out', certificate],
    ],
    { stdio: 'ignore' },
  );
  return [key, certificate];
}

function program(): string {
  return process.env['HOLDFAST_REDIS_SERVER'] ?? 'redis-server';
}

/** A server with TLS misses its certificate; one without does not know the option, or has nothing behind it. */
function hasTls(): boolean {
  const args = ['--port', '0', '--tls-port', '65535', '--save', ''];
  const { error, stdout } = spawnSync(program(), args, { encoding: 'utf8', timeout: 5_000 });
  return !error && stdout.includes('No tls-cert-file configured');
}

function hasOpenssl(): boolean {
  return spawnSync('openssl', ['version'], { timeout: 5_000 }).status === 0;
}

// Speaks TLS in front of a server that does not.

export interface TlsProxy extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** The name that each client asked for, in the order of their connections. */
  readonly serverNames: readonly string[];
}

export async function startTlsProxy(
  targetPort: number,
  { certificate, key }: Certificate,
): Promise<TlsProxy> {
  const host = '127.0.0.1';
  const sockets = new Set<Socket>();
  const serverNames: string[] = [];
  const tied = (one: Socket, other: Socket): void => {
    sockets.add(one);
    one.on('error', () => undefined).pipe(other);
    one.once('close', () => {
      sockets.delete(one);
      other.destroy();
    });
  };
  const server = createServer({ cert: certificate, key }, (client) => {
    // (It is false where the client asked for none.)
    serverNames.push(String((client as TLSSocket & { servername: unknown }).servername));
    const redis = connect(targetPort, host).setNoDelay();
    tied(client.setNoDelay(), redis);
    tied(redis, client);
  });
  await once(server.listen(0, host), 'listening');
  return {
    host,
    port: (server.address() as AddressInfo).port,
    serverNames,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
