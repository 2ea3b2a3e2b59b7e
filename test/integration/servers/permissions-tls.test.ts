// A user with just the permissions that the README names for a server, over TLS: all kinds of locks work.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { lockContract } from '../../support/lock-contract.js';
import { readmePermissions } from '../../support/users.js';
import { startTlsServer, tlsUnavailable, type TlsServer } from '../../support/tls.js';

const PREFIX = 'app-under-test:';
const RULES = readmePermissions('server', PREFIX).filter((rule) => !rule.startsWith('>'));

if (tlsUnavailable !== undefined) console.log(`left out, permissions over TLS: ${tlsUnavailable}`);

describe.skipIf(tlsUnavailable)('over TLS', () => {
  let tls: TlsServer;

  beforeAll(async () => {
    tls = await startTlsServer();
    const admin = new Redis(tls.server.url);
    await admin.call('ACL', 'SETUSER', 'app', 'reset', '>secret', ...RULES);
    admin.disconnect();
  });

  afterAll(async () => {
    await tls[Symbol.asyncDispose]();
  });

  function newClient(options: Partial<HoldfastOptions>): Holdfast {
    const { host } = tls.server;
    const credentials = { username: 'app', password: 'secret' };
    const redis = { host, port: tls.port, tls: { ca: tls.ca }, ...credentials };
    return new Holdfast({ redis, keyPrefix: PREFIX, ...options });
  }

  lockContract('reentrant lock of a user with just its permissions', {
    className: 'Lock',
    newClient,
    getLock: (client, name) => client.getLock(name),
  });

  lockContract('fair lock of a user with just its permissions', {
    className: 'FairLock',
    newClient,
    getLock: (client, name) => client.getFairLock(name),
  });
});
