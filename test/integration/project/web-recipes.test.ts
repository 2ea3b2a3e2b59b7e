// The recipes for web frameworks answer 409 while a lock is held, 503 while Redis is down, and 500 when the lock was lost.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  inject,
  it,
  vi,
} from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { bank } from '../../recipes/express.js';
import type * as NextRoute from '../../recipes/next-route.js';
import { bank as fastifyBank } from '../../recipes/fastify.js';
import { underLock } from '../../recipes/hono.js';
import { newClient } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

beforeEach(() => {
  vi.spyOn(console, 'error').mockReturnValue();
});

/** A client whose Redis is down. */
function downClient(): Holdfast {
  const redis = new MemoryRedis();
  redis.down();
  return new Holdfast({ redis, commandTimeout: 100 }).on('error', () => undefined);
}

async function told(response: Response): Promise<unknown[]> {
  return [response.status, response.headers.get('retry-after'), await response.json()];
}

describe('the Express recipe', () => {
  it('says when to try again, while the lock is held and while Redis is down', async () => {
    const redis = new MemoryRedis();
    await using other = new Holdfast({ redis }).on('error', () => undefined);
    await using holdfast = new Holdfast({ redis, commandTimeout: 100 });
    holdfast.on('error', () => undefined);
    const server = bank(holdfast, () => Promise.resolve(1)).listen(0);
    const { port } = server.address() as AddressInfo;
    const post = (): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/accounts/7/transfers`, {
        method: 'POST',
        headers: { connection: 'close' },
      });
    try {
      const hold = await other.getLock('account:7').acquire({ lease: 60_000 });
      const [status, retryAfter] = await told(await post());
      expect(status).toBe(409);
      expect(retryAfter).toBe('1');
      await hold.release();
      redis.down();
      expect(await told(await post())).toEqual([503, '5', { error: 'try again later' }]);
      redis.up();
      await holdfast.close();
      expect(await told(await post())).toEqual([503, '5', { error: 'try again later' }]);
    } finally {
      await once(server.close(), 'close');
    }
  });
});

describe('the Fastify recipe', () => {
  it('makes one transfer of an account at a time, and says when to try again', async () => {
    const redis = new MemoryRedis();
    await using other = new Holdfast({ redis });
    const signals: (AbortSignal | undefined)[] = [];
    const app = await fastifyBank({ redis }, (account, signal) => {
      signals.push(signal);
      return Promise.resolve(Number(account));
    });
    const request = { method: 'POST', url: '/accounts/7/transfers' } as const;
    const hold = await other.getLock('account:7').acquire({ lease: 60_000 });
    const busy = await app.inject(request);
    expect([busy.statusCode, busy.headers['retry-after']]).toEqual([409, '1']);
    await hold.release();
    expect((await app.inject(request)).json()).toEqual({ balance: 7 });
    expect(signals).toEqual([expect.any(AbortSignal)]);
    await app.close();
    expect(app.holdfast.status).toBe('closed');
  });
});

describe('the Hono recipe', () => {
  interface Account {
    balance: number;
  }

  function appOf(holdfast: Holdfast, account: Account = { balance: 0 }): Hono {
    const app = new Hono();
    app.post(
      '/accounts/:id',
      underLock(holdfast, (c) => `account:${c.req.param('id') ?? ''}`),
      async (c) => {
        const { balance } = account;
        await new Promise((resolve) => setTimeout(resolve, 5));
        account.balance = balance + 1;
        return c.json({ left: c.get('hold').remaining() > 0 });
      },
    );
    return app;
  }
  const post = (app: Hono): Promise<Response> =>
    Promise.resolve(app.request('/accounts/7', { method: 'POST' }));

  it('runs the requests of one account one after another, in all processes', async () => {
    const keyPrefix = `${uniqueName('recipe')}:`;
    await using one = newClient({ keyPrefix });
    await using other = newClient({ keyPrefix });
    const account = { balance: 0 };
    const apps = [one, other].map((holdfast) => appOf(holdfast, account));
    const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => post(apps[i % 2]!)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(account.balance).toBe(10);
  });

  it('answers 409 while the lock is held, and says when to try again', async () => {
    const redis = new MemoryRedis();
    await using holdfast = new Holdfast({ redis });
    await using other = new Holdfast({ redis });
    await using hold = await other.getLock('account:7').acquire({ lease: 60_000 });
    const [status, retryAfter, body] = await told(await post(appOf(holdfast)));
    expect([status, body]).toEqual([409, { error: 'busy' }]);
    expect(retryAfter).toBe('1');
    expect(hold.signal.aborted).toBe(false);
  });

  it('answers 503 while Redis is down', async () => {
    await using holdfast = downClient();
    const app = appOf(holdfast);
    const unavailable = [503, '5', { error: 'try again later' }];
    expect(await told(await post(app))).toEqual(unavailable);
    await holdfast.close();
    expect(await told(await post(app))).toEqual(unavailable);
  });

  it('answers 500 if the lock was lost, and leaves the errors of its handlers alone', async () => {
    const redis = new MemoryRedis();
    await using holdfast = new Holdfast({ redis });
    const app = new Hono();
    app.use(underLock(holdfast, () => 'account:7'));
    app.post('/lost', async (c) => {
      await holdfast.getLock('account:7').forceUnlock();
      return c.json({});
    });
    app.post('/failing', () => {
      throw new Error('no such account');
    });
    app.onError(({ message }, c) => c.json({ message }, 418));
    const lost = await app.request('/lost', { method: 'POST' });
    expect(lost.status).toBe(500);
    expect(await lost.json()).toEqual({
      error: 'not known what was done: look before you try again',
    });
    const failing = await app.request('/failing', { method: 'POST' });
    expect([failing.status, await failing.json()]).toEqual([418, { message: 'no such account' }]);
    expect(redis.holders('account:7')).toEqual([]);
  });

  it('does not wait for a client that has gone', async () => {
    const redis = new MemoryRedis();
    await using holdfast = new Holdfast({ redis });
    await using other = new Holdfast({ redis });
    await using hold = await other.getLock('account:7').acquire();
    const app = new Hono();
    app.post(
      '/',
      underLock(holdfast, () => 'account:7'),
    );
    app.onError((_error, c) => c.text('nobody reads this', 500));
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const gone = new AbortController();
    const sent = fetch(`http://127.0.0.1:${port}/`, { method: 'POST', signal: gone.signal });
    await expect.poll(() => holdfast.stats().waiting).toBe(1);
    gone.abort();
    await expect(sent).rejects.toThrow();
    await expect.poll(() => holdfast.stats().waiting, { timeout: 1_500 }).toBe(0);
    expect(hold.signal.aborted).toBe(false);
    await once(server.close(), 'close');
  });
});

describe('the recipe for a route handler of Next.js', () => {
  const shipments: string[] = [];
  let whileShipping: () => unknown = () => undefined;
  const shipping = createServer((request, response) => {
    shipments.push(request.url ?? '');
    void Promise.resolve(whileShipping()).then(() => response.end());
  });
  const shared = globalThis as typeof globalThis & { holdfast?: Holdfast };
  type Route = typeof NextRoute;

  beforeAll(async () => {
    await once(shipping.listen(0, '127.0.0.1'), 'listening');
    const { port } = shipping.address() as AddressInfo;
    vi.stubEnv('SHIPPING_URL', `http://127.0.0.1:${port}`);
    vi.stubEnv('REDIS_URL', inject('redisUrl'));
  });
  afterEach(async () => {
    await shared.holdfast?.close();
    delete shared.holdfast;
    shipments.length = 0;
    whileShipping = () => undefined;
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    shipping.closeAllConnections();
    await once(shipping.close(), 'close');
  });

  async function loaded(): Promise<Route> {
    vi.resetModules();
    return await import('../../recipes/next-route.js');
  }
  async function ship({ POST }: Route, id: string): Promise<unknown[]> {
    const request = new Request(`http://localhost/orders/${id}/shipment`, { method: 'POST' });
    return await told(await POST(request, { params: Promise.resolve({ id }) }));
  }

  it('has one client, however often its module is loaded, and a lease that nobody renews', async () => {
    const id = randomUUID();
    const route = await loaded();
    const client = shared.holdfast;
    const again = await loaded();
    expect(shared.holdfast).toBe(client);
    const watched: unknown[] = [];
    whileShipping = () => watched.push(client?.held()[0]?.watched);
    expect(await ship(route, id)).toEqual([200, null, { shipped: true }]);
    expect(await ship(again, id)).toEqual([200, null, { shipped: true }]);
    expect(shipments).toEqual([`/${id}`, `/${id}`]);
    expect(watched).toEqual([false, false]);
  });

  it('answers 409 while another process ships the order', async () => {
    const id = randomUUID();
    await using other = newClient();
    const route = await loaded();
    await using hold = await other.getLock(`order:${id}`).acquire({ lease: 60_000 });
    const [status, retryAfter, body] = await ship(route, id);
    expect([status, body]).toEqual([409, { error: 'busy' }]);
    expect(retryAfter).toBe('1');
    expect(shipments).toEqual([]);
    expect(hold.signal.aborted).toBe(false);
  });

  it('answers 503 while Redis is down', async () => {
    shared.holdfast = downClient();
    const route = await loaded();
    expect(await ship(route, '7')).toEqual([503, '5', { error: 'try again later' }]);
    expect(shipments).toEqual([]);
  });

  it('answers 500 if the lock was lost while it shipped', async () => {
    const id = randomUUID();
    const route = await loaded();
    whileShipping = () => shared.holdfast?.getLock(`order:${id}`).forceUnlock();
    const [status, , body] = await ship(route, id);
    expect([status, body]).toEqual([500, { error: 'not known whether it was shipped' }]);
  });
});
