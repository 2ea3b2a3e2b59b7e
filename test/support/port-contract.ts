// What the port promises of one connection, whatever the client library (src/redis/port.ts).
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failureKind, isReply, UnsentError } from '../../src/redis/failure.js';
import type { Library, Purpose } from '../../src/redis/port.js';
import { hasShardedChannels } from './cluster.js';
import { freePort, startRedis, type RedisServer } from './redis-server.js';
import {
  AGAIN_MS,
  Attempt,
  closed,
  NO_SHARDED,
  portPromises,
  SECRET,
  type PortWorld,
} from './port-promises.js';
import { startProxy } from './tcp-proxy.js';
import { startTlsServer, tlsUnavailable } from './tls.js';

/** The options that all libraries have in common here; each is read when a connection begins. */
export interface ContractOptions {
  readonly username?: string;
  readonly password?: string;
  readonly ca?: string;
}

/** `libraryOf` makes the library from options in its own form. */
export function portContract(
  title: string,
  libraryOf: (options: ContractOptions) => Library,
): void {
  describe(`one connection of ${title}`, () => {
    let server: RedisServer;
    let admin: Redis;
    let library: Library;
    let address: { readonly host: string; readonly port: number };

    beforeAll(async () => {
      server = await startRedis();
      address = { host: server.host, port: server.port };
      admin = new Redis(server.url);
      const rules = [
        'reset',
        'on',
        `>${SECRET}`,
        '~*',
        '+@all',
        '-flushall',
        'resetchannels',
        '&open*',
        '&__redis__:invalidate',
      ];
      await admin.call('ACL', 'SETUSER', 'app', ...rules);
      library = libraryOf({ username: 'app', password: SECRET });
    });

    afterAll(async () => {
      admin.disconnect();
      await server[Symbol.asyncDispose]();
    });

    const world: PortWorld = {
      hasSharded: () => hasShardedChannels(admin),
      attempt: (purpose) => new Attempt(library, address, purpose),
      unheard: async () => new Attempt(library, { host: address.host, port: await freePort() }),
      async connectionCount() {
        const list = (await admin.client('LIST')) as string;
        return list.split('\n').filter((line) => line.includes('user=app ')).length;
      },
      async kill() {
        await expect.poll(() => admin.info('clients')).toContain('blocked_clients:1');
        await admin.client('KILL', 'USER', 'app');
      },
      publish: (channel, payload, isSharded) =>
        admin.call(isSharded ? 'SPUBLISH' : 'PUBLISH', channel, payload) as Promise<number>,
      flush: () => admin.flushall(), // of a server of its own
      async evict() {
        await admin.config('SET', 'maxmemory-policy', 'allkeys-lru');
        await admin.config('SET', 'maxmemory', '1');
        await expect.poll(() => admin.dbsize()).toBe(0);
        await admin.config('SET', 'maxmemory', '0');
      },
    };

    portPromises(() => world);

    async function opened(purpose?: Purpose): Promise<Attempt> {
      const attempt = world.attempt(purpose);
      await attempt.ready;
      return attempt;
    }

    it('reads whatever a server may answer', async () => {
      const attempt = await opened();
      const script = "return {1, 'ü', false, {2, {}}, redis.status_reply('FINE')}";
      await expect(attempt.ask('eval', script, 0)).resolves.toEqual([
        1,
        'ü',
        null,
        [2, []],
        'FINE',
      ]);
      await closed(world, attempt);
    });

    it('speaks RESP2, though the options ask for RESP3', async () => {
      const attempt = await opened();
      const answer = (await attempt.ask('hello')) as unknown[];
      expect(answer[answer.indexOf('proto') + 1]).toBe(2);
      await closed(world, attempt);
    });

    it('reports a command that is not permitted', async () => {
      const attempt = await opened();
      const denied = await attempt.failureOf('flushall');
      expect(denied.name).toBe('ReplyError');
      expect(denied.message).toMatch(/^NOPERM /);
      await closed(world, attempt);
    });

    it("ends with the server's words when the password is wrong, and is never ready", async () => {
      const wrong = libraryOf({ username: 'app', password: `wrong-${SECRET}` });
      const attempt = new Attempt(wrong, address);
      const reason = await attempt.ended;
      expect(isReply(reason)).toBe(true);
      expect(reason?.message).toMatch(/^WRONGPASS /);
      expect(inspect(reason, { depth: Infinity, showHidden: true })).not.toContain(SECRET);
      await sleep(AGAIN_MS);
      expect(attempt.told).toEqual(['ended']);
    });

    it('is ready if the server wants no password', async () => {
      const attempt = new Attempt(libraryOf({}), address);
      await attempt.ready;
      await expect(attempt.ask('echo', 'here')).resolves.toBe('here');
      expect(attempt.connection.isTls).toBe(false);
      await closed(world, attempt);
    });

    it('that is reset ends once, and does not reconnect', async () => {
      await using proxy = await startProxy(address.port, address.host);
      const attempt = new Attempt(library, { host: proxy.host, port: proxy.port });
      await attempt.ready;
      const failure = attempt.failureOf('blpop', 'nothing', 0);
      await sleep(50);
      proxy.cut();
      expect(failureKind(await failure)).toBe('unanswered');
      await attempt.ended;
      await sleep(AGAIN_MS);
      expect(attempt.told).toEqual(['ready', 'ended']);
      expect(proxy.connections).toBe(1);
    });

    it('is not ready while a server accepts and says nothing, and can be closed', async () => {
      await using silent = await listening(() => undefined);
      const attempt = new Attempt(library, silent.address);
      await expect.poll(() => silent.sockets.length).toBe(1);
      await sleep(50);
      expect(attempt.told).toEqual([]);
      await closed(world, attempt);
      await expect.poll(() => silent.sockets[0]?.closed).toBe(true);
    });

    it('is not ready while a server accepts and says nothing, if there are no credentials', async () => {
      await using silent = await listening(() => undefined);
      const attempt = new Attempt(libraryOf({}), silent.address);
      await expect.poll(() => silent.sockets.length).toBe(1);
      await sleep(50);
      expect(attempt.told).toEqual([]);
      await closed(world, attempt);
    });

    it('can be closed while nobody answers its SYN', async () => {
      const attempt = new Attempt(library, { host: '10.255.255.1', port: 6379 });
      await sleep(50);
      await closed(world, attempt);
    });

    it.for([
      ['classic', false],
      ['sharded', true],
    ] as const)(
      'reports that %s channels are refused, and continues to work',
      async ([, isSharded], { skip }) => {
        skip(isSharded && !(await world.hasSharded()), NO_SHARDED);
        const attempt = await opened('subscriptions');
        const answers: (Error | undefined)[] = [];
        attempt.connection.subscribe(['closed'], isSharded, (refusal) => answers.push(refusal));
        await expect.poll(() => answers).toHaveLength(1);
        expect(failureKind(answers[0])).toBe('denied');
        await expect(attempt.ask('echo', 'ü')).resolves.toBe('ü');
        await expect(attempt.ask('command', 'GETKEYS', 'get', 'k')).resolves.toEqual(['k']);
        expect(await attempt.subscribe(['open'], isSharded)).toBeUndefined();
        expect(answers).toHaveLength(1);
        await closed(world, attempt);
      },
    );

    it('reads one refusal for several channels, and continues to run commands', async () => {
      const attempt = await opened('subscriptions');
      const answers: (Error | undefined)[] = [];
      const channels = ['open.1', 'closed'];
      attempt.connection.subscribe(channels, false, (refusal) => answers.push(refusal));
      await expect.poll(() => answers).toHaveLength(1);
      expect(failureKind(answers[0])).toBe('denied');
      await expect(attempt.ask('ping', 'ü')).resolves.toBe('ü');
      await closed(world, attempt);
    });

    it('reads the options anew for each attempt', async () => {
      let password = 'expired';
      const changing = libraryOf({
        username: 'app',
        get password() {
          return password;
        },
      });
      const refused = new Attempt(changing, address);
      expect((await refused.ended)?.message).toMatch(/^WRONGPASS /);
      password = SECRET;
      const attempt = new Attempt(changing, address);
      await attempt.ready;
      await closed(world, attempt);
    });

    it('ends with the error that the options throw', async () => {
      const throwing = libraryOf({
        username: 'app',
        get password(): string {
          throw new Error('no token today');
        },
      });
      const attempt = new Attempt(throwing, address);
      expect((await attempt.ended)?.message).toBe('no token today');
      expect(attempt.told).toEqual(['ended']);
      expect(await attempt.failureOf('ping')).toBeInstanceOf(UnsentError);
      await attempt.connection.close();
    });

    it('ends at a reply without a command, and does not repeat it', async () => {
      await using relay = await listening((socket) => {
        const redis = connect(address.port, address.host).on('error', () => undefined);
        socket.pipe(redis).pipe(socket);
        socket.on('close', () => redis.destroy());
      });
      const attempt = new Attempt(library, relay.address);
      await attempt.ready;
      await attempt.ask('ping');
      relay.sockets[0]?.write(
        `-ERR unknown command 'AUTH', with args beginning with: '${SECRET}'\r\n`,
      );
      const reason = await attempt.ended;
      expect(reason).toBeInstanceOf(Error);
      expect(inspect(reason, { depth: Infinity, showHidden: true })).not.toContain(SECRET);
      await closed(world, attempt);
      expect(attempt.told).toEqual(['ready', 'ended']);
    });

    it('reports a server that speaks another protocol', async () => {
      const page = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n';
      await using web = await listening((socket) => {
        socket.on('data', () => socket.end(page));
      });
      const attempt = new Attempt(library, web.address);
      void attempt.ready.then(() => attempt.failureOf('ping'));
      expect((await attempt.ended)?.message).toMatch(/Protocol error, got|Unknown RESP type/);
      await sleep(50);
      expect(attempt.told.filter((each) => each === 'ended')).toHaveLength(1);
    });

    it.skipIf(tlsUnavailable)(
      'connects by TLS, and names the certificate it does not trust',
      async () => {
        await using tls = await startTlsServer();
        const { host } = tls.server;
        const trusting = new Attempt(libraryOf({ ca: tls.ca }), { host, port: tls.port });
        await trusting.ready;
        await expect(trusting.ask('echo', 'by TLS')).resolves.toBe('by TLS');
        expect(trusting.connection.isTls).toBe(true);
        await trusting.connection.close();
        expect(await trusting.ended).toBeUndefined();
        const wary = new Attempt(libraryOf({ ca: '' }), { host, port: tls.port });
        expect((await wary.ended)?.message).toContain('self-signed certificate');
        expect(wary.told).toEqual(['ended']);
      },
    );
  });
}

interface Listening extends AsyncDisposable {
  readonly address: { readonly host: string; readonly port: number };
  readonly sockets: readonly Socket[];
}

/** A server that is not Redis. */
async function listening(serve: (socket: Socket) => void): Promise<Listening> {
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined).resume();
    serve(socket);
  });
  const port = await freePort();
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    address: { host: '127.0.0.1', port },
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
