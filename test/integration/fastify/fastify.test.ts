// The plugin for Fastify: routes whose handlers run under a lock, with the real Fastify.
import { request as httpRequest } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, inject, it } from 'vitest';
import fastifyHoldfast, {
  type FastifyHoldfastSettings,
  type RouteLock,
} from '../../../src/adapters/fastify.js';
import { type Holdfast, LockLostError, LockTimeoutError, OptionError } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { newClient } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

type OfOrder = FastifyRequest<{ Params: { id: string } }>;

const apps: FastifyInstance[] = [];
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

/** An app whose locks are on the shared server, below a prefix. */
async function newApp(
  keyPrefix: string,
  options?: FastifyHoldfastSettings,
): Promise<FastifyInstance> {
  const app = Fastify();
  apps.push(app);
  await app.register(fastifyHoldfast, { redis: inject('redisUrl'), keyPrefix, ...options });
  return app;
}

/** Listens, and returns where. */
async function listening(app: FastifyInstance): Promise<string> {
  return await app.listen({ port: 0, host: '127.0.0.1' });
}

const post = (url: string): Promise<Response> =>
  fetch(url, { method: 'POST', headers: { connection: 'close' } });

/** Something that happens once, and can be waited for. */
function signal(): { readonly happened: Promise<void>; readonly now: () => void } {
  let now!: () => void;
  const happened = new Promise<void>((resolve) => (now = resolve));
  return { happened, now };
}

/** A request whose sender hangs up when told to. */
function sendAndHangUp(url: string): () => void {
  const sent = httpRequest(url, { method: 'POST' }).on('error', () => undefined);
  sent.end();
  return () => void sent.destroy();
}

const isHeld = (holdfast: Holdfast, name: string): Promise<boolean> =>
  holdfast.getLock(name).isLocked();

describe('a route with a lock', () => {
  it('runs its handler alone, in all processes', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    let balance = 0;
    const addresses = await Promise.all(
      ['one', 'other'].map(async () => {
        const app = await newApp(keyPrefix);
        const lock: RouteLock = { name: ({ params }: OfOrder) => `account:${params.id}` };
        app.post('/accounts/:id', { config: { lock } }, async () => {
          const before = balance;
          await sleep(10);
          return { balance: (balance = before + 1) };
        });
        return await listening(app);
      }),
    );
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => post(`${addresses[i % 2]!}/accounts/7`)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(balance).toBe(10);
  });

  it('answers 409 and when to try again, while the lock is held elsewhere', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    await using other = newClient({ keyPrefix });
    const app = await newApp(keyPrefix);
    let calls = 0;
    const errors: Error[] = [];
    app.addHook('onError', (_request, _reply, error, done) => {
      errors.push(error);
      done();
    });
    app.post('/report', { config: { lock: { name: 'report', wait: 0 } } }, () => ++calls);
    await using hold = await other.getLock('report').acquire({ lease: 20_000 });
    const answer = await app.inject({ method: 'POST', url: '/report' });
    expect(hold.remaining()).toBeGreaterThan(18_000);
    expect(answer.statusCode).toBe(409);
    expect(answer.headers['retry-after']).toBe('1'); // and not how long the lease lasts
    expect(answer.json()).toEqual({
      statusCode: 409,
      code: 'LOCK_TIMEOUT',
      error: 'Conflict',
      message: 'the lock is taken',
    });
    expect(errors[0]?.cause).toBeInstanceOf(LockTimeoutError);
    expect(calls).toBe(0);
  });

  it('answers with the status and the time to try again that the route gives, or the plugin', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    const redis = new Redis(inject('redisUrl'));
    const app = await newApp(keyPrefix, { wait: 0, retryAfter: 3_000 });
    const lock: RouteLock = { name: 'report', busyStatus: 429 };
    app.post('/report', { config: { lock } }, () => 'sent');
    const brief: RouteLock = { ...lock, retryAfter: 1_001 };
    app.post('/brief', { config: { lock: brief } }, () => 'sent');
    await redis.hset(`${keyPrefix}report`, 'somebody:1', '1'); // for ever
    const answer = await app.inject({ method: 'POST', url: '/report' });
    expect([answer.statusCode, answer.headers['retry-after']]).toEqual([429, '3']);
    const briefly = await app.inject({ method: 'POST', url: '/brief' });
    expect(briefly.headers['retry-after']).toBe('2');
    await redis.del(`${keyPrefix}report`);
    expect((await app.inject({ method: 'POST', url: '/report' })).body).toBe('sent');
    await redis.quit();
  });

  it('answers 503 and when to try again, while Redis is down', async () => {
    const app = Fastify();
    apps.push(app);
    const redis = new MemoryRedis();
    await app.register(fastifyHoldfast, { redis });
    app.holdfast.on('error', () => undefined);
    let calls = 0;
    app.post(
      '/report',
      { config: { lock: { name: 'report', wait: 50 } } },
      () => `sent ${++calls}`,
    );
    redis.down();
    const answer = await app.inject({ method: 'POST', url: '/report' });
    expect(answer.statusCode).toBe(503);
    expect(answer.headers['retry-after']).toBe('5');
    expect(answer.json()).toMatchObject({
      code: 'REDIS_UNAVAILABLE',
      message: 'the lock is not available',
    });
    expect(calls).toBe(0);
    redis.up();
    await expect
      .poll(async () => (await app.inject({ method: 'POST', url: '/report' })).statusCode)
      .toBe(200);
  });

  it('answers 503 when its client is closed', async () => {
    const app = Fastify();
    apps.push(app);
    await using client = newClient({ redis: new MemoryRedis() });
    await app.register(fastifyHoldfast, { client });
    app.post('/report', { config: { lock: { name: 'report' } } }, () => 'sent');
    await client.close();
    const answer = await app.inject({ method: 'POST', url: '/report' });
    expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '5']);
  });

  it('answers 500 if the lock is lost while the handler works', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    await using other = newClient({ keyPrefix });
    const app = await newApp(keyPrefix);
    app.post('/report', { config: { lock: { name: 'report' } } }, async (request) => {
      await other.getLock('report').forceUnlock();
      await request.hold?.extend(60_000).catch(() => undefined);
      return { aborted: request.hold?.signal.aborted };
    });
    const answer = await app.inject({ method: 'POST', url: '/report' });
    expect(answer.statusCode).toBe(500);
    expect(answer.json()).toMatchObject({
      code: 'LOCK_LOST',
      message: 'the lock was lost: see what was done before you repeat it',
    });
  });

  it("leaves the handler's own errors alone, also those of another lock", async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    await using other = newClient({ keyPrefix });
    const app = await newApp(keyPrefix);
    app.setErrorHandler((error, _request, reply) =>
      reply.code(error instanceof LockTimeoutError ? 418 : 400).send((error as Error).message),
    );
    app.post('/inner', { config: { lock: { name: 'outer' } } }, async () => {
      await app.holdfast.getLock('inner').withLock({ wait: 0 }, () => 'done');
    });
    app.post('/failing', { config: { lock: { name: 'outer' } } }, () => {
      throw new Error('no such report');
    });
    await using hold = await other.getLock('inner').acquire();
    expect((await app.inject({ method: 'POST', url: '/inner' })).statusCode).toBe(418);
    expect((await app.inject({ method: 'POST', url: '/failing' })).body).toBe('no such report');
    expect(await isHeld(other, 'outer')).toBe(false);
    expect(hold.signal.aborted).toBe(false);
  });

  it('has released the lock when its answer arrives', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    const app = await newApp(keyPrefix, { wait: 0 });
    app.post('/report', { config: { lock: { name: 'report' } } }, () => 'sent');
    const url = `${await listening(app)}/report`;
    for (let i = 0; i < 20; i++) expect((await post(url)).status).toBe(200);
  });

  it('re-enters the lock in what its handler calls', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    const app = await newApp(keyPrefix, { wait: 0 });
    app.post('/report', { config: { lock: { name: 'report' } } }, async ({ hold }) => {
      await sleep(1);
      const inner = await app.holdfast
        .getLock('report')
        .withLock(({ ownerId }) => Promise.resolve(ownerId));
      return { isSame: inner === hold?.ownerId, label: app.holdfast.held()[0]?.label };
    });
    const answer = await app.inject({ method: 'POST', url: '/report' });
    expect(answer.json()).toEqual({ isSame: true, label: 'POST /report' });
  });

  it('sees the locks of routes in other plugins, below their prefix', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    await using other = newClient({ keyPrefix });
    const app = await newApp(keyPrefix, { wait: 0 });
    const held = (request: FastifyRequest): string => request.hold?.lockName ?? 'none';
    await app.register(
      (api, _options, done) => {
        api.get('/', { config: { lock: { name: 'root' } } }, held);
        api.get('/orders/:id', { config: { lock: { name: ({ url }) => url } } }, held);
        api.get('/free', held);
        done();
      },
      { prefix: '/api' },
    );
    const bodies: string[] = [];
    for (const url of ['/api', '/api/', '/api/orders/7', '/api/free'])
      bodies.push((await app.inject(url)).body);
    expect(bodies).toEqual(['root', 'root', '/api/orders/7', 'none']);
    await using hold = await other.getLock('root').acquire();
    for (const url of ['/api', '/api/'])
      expect((await app.inject(url)).json()).toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect((await app.inject({ method: 'HEAD', url: '/api' })).statusCode).toBe(409);
    expect(hold.signal.aborted).toBe(false);
  });

  it('runs its hooks before it has the lock, and its validation, too', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
    const seen: unknown[] = [];
    app.addHook('preHandler', (request, _reply, done) => {
      seen.push(request.hold, app.holdfast.held().length);
      done();
    });
    const params = { type: 'object', properties: { id: { type: 'integer' } } };
    const config = { lock: { name: ({ params }: OfOrder) => `order:${params.id}` } };
    app.get('/orders/:id', { schema: { params }, config }, () => app.holdfast.held().length);
    expect((await app.inject('/orders/7')).body).toBe('1');
    expect(seen).toEqual([null, 0]);
    expect((await app.inject('/orders/x')).statusCode).toBe(400);
  });
});

describe('a route without a lock', () => {
  it('keeps its handler as it is', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
    const handlers: unknown[] = [];
    app.addHook('onRoute', ({ handler }) => void handlers.push(handler));
    const handler = (): string => 'here';
    app.get('/', { exposeHeadRoute: false }, handler);
    expect(handlers).toEqual([handler]);
    expect((await app.inject('/')).body).toBe('here');
    expect((await app.inject('/nowhere')).statusCode).toBe(404);
  });
});

describe('a handler under a lock that answers by reply.send()', () => {
  it('keeps the lock until it has called that, however late', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
    const seen: number[] = [];
    const held = (): number => app.holdfast.held().length;
    const config = { lock: { name: 'report' } };
    app.get('/callback', { config }, (_request, reply) => {
      setTimeout(() => {
        seen.push(held());
        void reply.code(201).send('later');
      }, 20);
    });
    app.get('/reply', { config }, async (_request, reply) => {
      setTimeout(() => {
        seen.push(held());
        void reply.code(201).send('later');
      }, 20);
      return await reply;
    });
    app.get('/at-once', { config }, (_request, reply) => {
      seen.push(held());
      void reply.code(201).send('later');
    });
    app.get('/at-once-and-reply', { config }, async (_request, reply) => {
      seen.push(held());
      void reply.code(201).send('later');
      return await reply;
    });
    for (const url of ['/callback', '/reply', '/at-once', '/at-once-and-reply']) {
      const answer = await app.inject(url);
      expect([answer.statusCode, answer.body]).toEqual([201, 'later']);
      await expect.poll(held).toBe(0);
    }
    expect(seen).toEqual([1, 1, 1, 1]);
  });

  it.each(['callback', 'reply'])(
    'keeps the lock until then also if the client has gone (%s)',
    async (how) => {
      const keyPrefix = `${uniqueName('fastify')}:`;
      const app = await newApp(keyPrefix);
      const [begun, goOn, left] = [signal(), signal(), signal()];
      app.post('/report', { config: { lock: { name: 'report' } } }, (_request, reply) => {
        reply.raw.once('close', left.now);
        begun.now();
        void goOn.happened.then(() => reply.send('nobody reads this'));
        return how === 'reply' ? reply : undefined;
      });
      const hangUp = sendAndHangUp(`${await listening(app)}/report`);
      await begun.happened;
      hangUp();
      await left.happened;
      await sleep(50);
      expect(await isHeld(app.holdfast, 'report')).toBe(true);
      goOn.now();
      await expect.poll(() => isHeld(app.holdfast, 'report')).toBe(false);
    },
  );

  it.each(['callback', 'reply'])(
    'keeps the lock until then also if Fastify has answered by its handlerTimeout (%s)',
    async (how) => {
      const app = Fastify({ handlerTimeout: 50 });
      apps.push(app);
      await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
      const goOn = signal();
      app.get('/report', { config: { lock: { name: 'report' } } }, (_request, reply) => {
        void goOn.happened.then(() => reply.send('nobody reads this'));
        return how === 'reply' ? reply : undefined;
      });
      expect((await app.inject('/report')).statusCode).toBe(503);
      await sleep(20);
      expect(app.holdfast.held()).toHaveLength(1);
      goOn.now();
      await expect.poll(() => app.holdfast.held()).toEqual([]);
    },
  );

  it('answers 500 if the handler resolves to a generator object, and frees the lock', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
    app.get('/', { config: { lock: { name: 'report' } } }, function* () {
      yield 'a';
    });
    const answer = await app.inject('/');
    expect(answer.statusCode).toBe(500);
    expect(answer.json()).toMatchObject({ message: 'the lock cannot be used' });
    expect(app.holdfast.held()).toEqual([]);
  });

  it('keeps the lock until a stream has been read', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
    const held = (): number => app.holdfast.held().length;
    const config = { lock: { name: 'report' } };
    const streams: PassThrough[] = [];
    const stream = (): PassThrough => {
      const made = new PassThrough();
      made.write('a');
      streams.push(made);
      return made;
    };
    app.get('/returned', { config }, async () => Promise.resolve(stream()));
    app.get('/sent', { config }, (_request, reply) => void reply.send(stream()));
    app.get('/web', { config }, () => new Response(Readable.toWeb(stream()) as ReadableStream));
    app.get('/raw', { config }, (_request, reply) => {
      reply.hijack();
      stream().pipe(reply.raw);
    });
    const address = await listening(app);
    for (const path of ['/returned', '/sent', '/web', '/raw']) {
      const answer = await fetch(address + path);
      expect(held()).toBe(1);
      streams.pop()!.end('b');
      expect(await answer.text()).toBe('ab');
      await expect.poll(held).toBe(0);
    }
  });
});

describe('a client that goes away', () => {
  it('leaves the lock to the handler until that ends', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    const app = await newApp(keyPrefix);
    const [begun, goOn, left] = [signal(), signal(), signal()];
    app.post('/report', { config: { lock: { name: 'report' } } }, async (_request, reply) => {
      reply.raw.once('close', left.now);
      begun.now();
      await goOn.happened;
      return 'nobody reads this';
    });
    const hangUp = sendAndHangUp(`${await listening(app)}/report`);
    await begun.happened;
    hangUp();
    await left.happened;
    await sleep(50);
    expect(await isHeld(app.holdfast, 'report')).toBe(true);
    goOn.now();
    await expect.poll(() => isHeld(app.holdfast, 'report')).toBe(false);
  });

  it('does not wait for the lock any longer', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    await using other = newClient({ keyPrefix });
    const app = await newApp(keyPrefix);
    let calls = 0;
    app.post('/report', { config: { lock: { name: 'report', wait: Infinity } } }, () => ++calls);
    const address = await listening(app);
    const hold = await other.getLock('report').acquire();
    const hangUp = sendAndHangUp(`${address}/report`);
    await expect.poll(() => app.holdfast.stats().waiting).toBe(1);
    hangUp();
    await expect.poll(() => app.holdfast.stats().waiting).toBe(0);
    await hold.release();
    expect(await isHeld(other, 'report')).toBe(false);
    expect(calls).toBe(0);
  });
});

describe('closing the app', () => {
  it('lets a request in flight keep its lock until it ends, and then closes the client', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    await using other = newClient({ keyPrefix });
    const app = await newApp(keyPrefix);
    const [begun, goOn] = [signal(), signal()];
    app.post('/report', { config: { lock: { name: 'report' } } }, async ({ hold }) => {
      begun.now();
      await goOn.happened;
      return { aborted: hold?.signal.aborted };
    });
    const answer = post(`${await listening(app)}/report`);
    await begun.happened;
    const closing = app.close();
    await expect.poll(() => app.server.listening).toBe(false);
    expect(app.holdfast.status).toBe('ready');
    expect(await isHeld(other, 'report')).toBe(true);
    goOn.now();
    expect(await (await answer).json()).toEqual({ aborted: false });
    await closing;
    expect(app.holdfast.status).toBe('closed');
  });

  it('waits for a handler whose client has gone', async () => {
    const keyPrefix = `${uniqueName('fastify')}:`;
    const app = await newApp(keyPrefix);
    const [begun, goOn] = [signal(), signal()];
    const ends: unknown[] = [];
    app.post('/report', { config: { lock: { name: 'report' } } }, async ({ hold }) => {
      begun.now();
      await goOn.happened;
      ends.push(hold?.signal.aborted);
    });
    const hangUp = sendAndHangUp(`${await listening(app)}/report`);
    await begun.happened;
    hangUp();
    const closing = app.close();
    await sleep(50);
    goOn.now();
    await closing;
    expect(ends).toEqual([false]);
  });

  it('takes the lock from a handler that has not answered within drainTimeout', async () => {
    const app = Fastify();
    await app.register(fastifyHoldfast, { redis: new MemoryRedis(), drainTimeout: 50 });
    const begun = signal();
    let held: FastifyRequest['hold'] | undefined;
    app.post('/never', { config: { lock: { name: 'never' } } }, ({ hold }) => {
      held = hold;
      begun.now();
    });
    const hangUp = sendAndHangUp(`${await listening(app)}/never`);
    await begun.happened;
    hangUp();
    await app.close();
    expect(held?.signal.reason).toMatchObject({ lossReason: 'closed' });
  });

  it('leaves a client that it was given open', async () => {
    await using client = newClient({ redis: new MemoryRedis() });
    const app = Fastify();
    await app.register(fastifyHoldfast, { client });
    expect(app.holdfast).toBe(client);
    await app.close();
    expect(await client.getLock('report').tryLock()).toBe(true);
    await client.getLock('report').unlock();
  });
});

describe('mistakes', () => {
  const redis = (): MemoryRedis => new MemoryRedis();

  it.each<[string, unknown, string]>([
    ['no name', {}, 'config.lock.name is undefined: it must be a string of at least one'],
    ['no object', 'report', "config.lock is 'report': it must be an object with a name"],
    ['a typo', { name: 'a', waits: 1 }, 'config.lock has no "waits"; known are: name, wait,'],
    ['a text as wait', { name: 'a', wait: '5s' }, "config.lock.wait is '5s': it must be a number"],
    ['half a lease', { name: 'a', lease: 0.5 }, 'config.lock.lease is 0.5: it must be a whole'],
    ['no time', { name: 'a', lockAtLeastFor: -1 }, 'config.lock.lockAtLeastFor is -1: it must be'],
    ['a status', { name: 'a', busyStatus: 200 }, 'config.lock.busyStatus is 200: it must be a'],
    [
      'no number',
      { name: 'a', retryAfter: '1' },
      "config.lock.retryAfter is '1': it must be a whole",
    ],
  ])('in a lock are refused at its registration: %s', async (_, lock, message) => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: redis() });
    const config = { lock: lock as RouteLock };
    expect(() => app.get('/', { config }, () => 'here')).toThrow(`route GET /: ${message}`);
    expect(() => app.get('/', { config }, () => 'here')).toThrow(OptionError);
  });

  it('do not include a lease of -1, which is the default', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: redis() });
    app.get('/', { config: { lock: { name: 'a', lease: -1 } } }, () => 'here');
    expect((await app.inject('/')).body).toBe('here');
  });

  it('in the place of a lock are refused at its registration', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: redis() });
    const options = { lock: { name: 'report' } } as object;
    expect(() => app.get('/', options, () => 'here')).toThrow('"lock" belongs into "config"');
  });

  it('in the order are refused at the first request: the route was there before the plugin', async () => {
    const app = Fastify();
    apps.push(app);
    void app.register(fastifyHoldfast, { redis: redis() });
    let calls = 0;
    app.get('/early', { config: { lock: { name: 'report' } } }, () => ++calls);
    app.get('/free', () => 'here');
    const answer = await app.inject('/early');
    expect(answer.json()).toMatchObject({
      statusCode: 500,
      message: 'route GET /early has a lock, but was added before holdfast: await its register()',
    });
    expect((await app.inject('/free')).body).toBe('here');
    expect(calls).toBe(0);
  });

  it.each<[object, string]>([
    [{}, 'option "redis"'],
    [{ client: {} }, 'client is {}: it must be a Holdfast'],
    [
      { client: { redis: 'redis://:a-password@there' } },
      'client is an object: it must be a Holdfast', // and no password
    ],
    [{ redis: 'redis://localhost', waits: 1 }, 'the options of new Holdfast() have no "waits"'],
    [{ redis: 'redis://localhost', wait: -5 }, 'holdfast/fastify: wait is -5: it must be a number'],
    [{ redis: 'redis://localhost', drainTimeout: -1 }, 'drainTimeout is -1: it must be a whole'],
  ])('in the options of the plugin are refused: %o', async (options, message) => {
    const app = Fastify();
    const registered = app.register(fastifyHoldfast, options as { client: Holdfast });
    await expect(Promise.resolve(registered)).rejects.toThrow(message);
  });

  it('in a second registration are refused before a client is made', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: redis() });
    const again = app.register(fastifyHoldfast, {} as { client: Holdfast }); // a client would refuse that
    await expect(Promise.resolve(again)).rejects.toThrow('holdfast/fastify is registered already');
  });

  it('in the name that a function makes are answered by 500, with the reason in the cause', async () => {
    const errors: unknown[] = [];
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: redis() });
    app.setErrorHandler((error: Error, _request, reply) => {
      errors.push(error.cause);
      void reply.send(error);
    });
    const lock: RouteLock = { name: () => 'x'.repeat(2_000) };
    app.get('/', { config: { lock } }, () => 'here');
    const answer = await app.inject('/');
    expect(answer.json()).toMatchObject({ statusCode: 500, message: 'the lock cannot be used' });
    expect(errors).toEqual([expect.any(OptionError)]);
  });

  it('in the order of plugins are told: another one calls the handler with other arguments', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: redis() });
    app.addHook('onRoute', (route) => {
      const { handler } = route;
      // As @fastify/websocket does.
      route.handler = async function (request) {
        await handler.call(this, {} as FastifyRequest, request as never);
      };
    });
    app.get('/', { config: { lock: { name: 'report' } } }, () => 'here');
    const answer = await app.inject('/');
    expect(answer.json()).toMatchObject({
      statusCode: 500,
      message:
        'route GET /: register holdfast after the plugin that calls its handler with other arguments (@fastify/websocket, for example)',
    });
  });

  it('in the options beside a client are refused', async () => {
    await using client = newClient({ redis: redis() });
    const app = Fastify();
    const options = { client, keyPrefix: 'a' };
    await expect(Promise.resolve(app.register(fastifyHoldfast, options))).rejects.toThrow(
      'holdfast/fastify: "keyPrefix" is an option of a new client, not for one that is there',
    );
  });
});

describe('the error of a lost lock', () => {
  it('is the cause of the error that the app logs', async () => {
    const app = Fastify();
    apps.push(app);
    await app.register(fastifyHoldfast, { redis: new MemoryRedis() });
    const causes: unknown[] = [];
    app.addHook('onError', (_request, _reply, error, done) => {
      causes.push(error.cause);
      done();
    });
    app.get('/', { config: { lock: { name: 'report' } } }, async () => {
      await app.holdfast.getLock('report').forceUnlock();
      return 'done';
    });
    expect((await app.inject('/')).statusCode).toBe(500);
    expect(causes).toEqual([expect.any(LockLostError)]);
  });
});
