// The live page's handler, mounted as apps mount it: plain http, Express, Fastify.
import express from 'express';
import fastify from 'fastify';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createServer,
  get,
  type IncomingMessage,
  request,
  type RequestListener,
  type Server,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { serve } from '../../../src/ui/serve.js';
import { ui, type UiHandler, type UiOptions } from '../../../src/ui/ui.js';
import { newClient } from '../../support/clients.js';
import { expectOutages, expectWarnings } from '../../support/expected-warnings.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const JSON_FORCE = { 'content-type': 'application/json', 'x-holdfast': 'force' };

let client: Holdfast;
let prefix: string;
let handler: UiHandler | undefined;
const servers: Server[] = [];

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 4_500 });
  prefix = uniqueName('ui');
});

afterEach(async () => {
  handler?.close();
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }
  await client.close();
});

function mount(options: UiOptions = {}): UiHandler {
  return (handler = ui(client, { prefix, interval: 200, ...options }));
}

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${String(portOf(server))}`;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** One viewer: what it was told, by event. */
class Viewer {
  readonly told: { event: string; data: Record<string, unknown> }[] = [];
  hasEnded = false;
  readonly #response: IncomingMessage;
  #text = '';

  constructor(response: IncomingMessage) {
    this.#response = response;
    response.setEncoding('utf8');
    response.on('data', (text: string) => {
      const parts = (this.#text + text).split('\n\n');
      this.#text = parts.pop()!;
      for (const part of parts) {
        const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? [];
        if (event !== undefined)
          this.told.push({ event, data: JSON.parse(data!) as Record<string, unknown> });
      }
    });
    response.on('error', () => undefined); // the server closed it
    response.on('close', () => (this.hasEnded = true));
  }

  static async at(url: string): Promise<Viewer> {
    const [response] = (await once(get(`${url}/api/events`), 'response')) as [IncomingMessage];
    expect(response.headers['content-type']).toContain('text/event-stream');
    return new Viewer(response);
  }

  of(event: string): Record<string, unknown>[] {
    return this.told.filter((each) => each.event === event).map(({ data }) => data);
  }

  leave(): void {
    this.#response.destroy();
  }
}

function force(
  url: string,
  name: string,
  headers: Record<string, string> = JSON_FORCE,
  ownerIds?: readonly string[],
): Promise<Response> {
  const body = JSON.stringify({ name, ownerIds });
  return fetch(`${url}/api/force`, { method: 'POST', headers, body });
}

/** Until two counts in a row, more than a look apart, agree. */
async function expectRest(list: MockInstance): Promise<void> {
  let before = -1;
  await expect
    .poll(() => before === (before = list.mock.calls.length), { interval: 500, timeout: 10_000 })
    .toBe(true);
}

function fail(message: string): never {
  throw new Error(message);
}

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => {
      if (error) reject(error);
      else resolve(count);
    });
  });
}

// Of an allowForce that fails.
expectWarnings(/^the live page asked allowForce, which failed/);

/** Reads the body, too: a connection with an unread one stays open. */
async function statusOf(asked: string | Promise<Response>, init?: RequestInit): Promise<number> {
  const response = await (typeof asked === 'string' ? fetch(asked, init) : asked);
  await response.text();
  return response.status;
}

describe('the page', () => {
  it.each([
    ['/', 'text/html', '<title>holdfast'],
    ['/page.js', 'text/javascript', 'EventSource'],
    ['/page.css', 'text/css', 'color-scheme'],
    ['/uplot.js', 'text/javascript', 'uPlot'],
    ['/uplot.css', 'text/css', '.uplot'],
  ])('%s', async (path, type, content) => {
    const url = await listen(mount());
    const response = await fetch(url + path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toContain(type);
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(await response.text()).toContain(content);
    const head = await fetch(url + path, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  it('is under 300 KB, asks no other server, and has uPlot as it was published', () => {
    const files = ['page.html', 'page.js', 'page.css', 'uplot.js', 'uplot.css'];
    const contents = files.map((file) => readFileSync(`src/ui/page/${file}`, 'utf8'));
    expect(contents.join('').length).toBeLessThan(300_000);
    for (const own of contents.slice(0, 3)) expect(own).not.toMatch(/https?:\/\//);
    const dist = 'node_modules/uplot/dist';
    expect(contents[3]).toBe(readFileSync(`${dist}/uPlot.iife.min.js`, 'utf8'));
    expect(contents[4]).toBe(readFileSync(`${dist}/uPlot.min.css`, 'utf8'));
  });

  it.each([
    ['GET', '/secret', 404],
    ['GET', '/../package.json', 404],
    ['GET', '/constructor', 404],
    ['POST', '/', 405],
    ['PUT', '/page.js', 405],
    ['DELETE', '/api/events', 405],
    ['GET', '/api/force', 405],
  ])('%s %s is refused', async (method, path, status) => {
    const url = await listen(mount({ basePath: '/' }));
    const response = await fetch(url + path, { method });
    expect(response.status).toBe(status);
    expect(await response.json()).toHaveProperty('error');
  });

  it('is found below a mount path, stripped by Express, or not', async () => {
    const app = express();
    app.use('/locks', mount());
    const stripped = await listen(app);
    const named = await listen(mount({ basePath: '/ops/locks/' }));
    const unnamed = await listen(mount());
    for (const url of [`${stripped}/locks`, `${named}/ops/locks`, `${unnamed}/any/locks`]) {
      const redirected = await fetch(`${url}?x=1`, { redirect: 'manual' });
      await redirected.text();
      expect(redirected.status).toBe(302);
      expect(redirected.headers.get('location')).toBe('./locks/?x=1');
      const page = await fetch(url);
      expect(page.url).toBe(`${url}/`);
      expect(await page.text()).toContain('page.js');
      expect(await statusOf(`${url}/page.js`)).toBe(200);
      expect(await statusOf(`${url}/api/lock?name=${prefix}`)).toBe(200);
      expect(await statusOf(`${url}/api/other`)).toBe(404);
      expect(await statusOf(`${url}/other.js`)).toBe(404);
    }
    expect(await statusOf(`${named}/other/page.js`)).toBe(404);
  });

  it.each(['/https:evil', '//evil', '/\\evil'])('leads to no other site from %s', async (path) => {
    const url = await listen(mount());
    const { port } = new URL(url);
    const [response] = (await once(get({ port, host: '127.0.0.1', path }), 'response')) as [
      IncomingMessage,
    ];
    response.resume();
    expect(response.statusCode).toBe(302);
    const location = new URL(response.headers.location!, `${url}${path}`);
    expect(location.hostname).toBe('127.0.0.1');
  });
});

describe('viewers', () => {
  it('get all locks, and then what changes', async () => {
    const url = await listen(mount());
    const hold = await client.getFairLock(`${prefix}:a`).acquire();
    const viewer = await Viewer.at(url);
    await expect.poll(() => viewer.of('all').length).toBe(1);
    expect(viewer.of('facts')).toEqual([{ mayForce: false }]);
    expect(viewer.of('all')[0]).toMatchObject({
      rows: [{ name: `${prefix}:a`, kind: 'lock', holders: [{ ownerId: hold.ownerId }] }],
      points: [{ held: 1, waiting: 0 }],
      changes: [],
    });
    await hold.release();
    const gone = (): unknown[] => viewer.of('look').flatMap((look) => look['gone'] as string[]);
    await expect.poll(gone).toEqual([`${prefix}:a`]);
    const next = await client.getSemaphore(`${prefix}:b`, { permits: 2 }).acquire();
    const changes = (): unknown[] =>
      viewer.of('look').flatMap((look) => look['changes'] as object[]);
    await expect.poll(() => changes().length).toBe(2);
    expect(changes()).toMatchObject([
      { name: `${prefix}:a`, what: 'released by', ownerId: hold.ownerId },
      { name: `${prefix}:b`, what: 'held by', ownerId: next.ownerId },
    ]);
    // A look at which nothing has changed tells that in few bytes.
    const quiet = viewer.of('look').at(-1)!;
    expect(quiet['gone']).toEqual([]);
    await next.release();
    viewer.leave();
  });

  it('ten of them cost one look at the server, and none of them none', async () => {
    const list = vi.spyOn(client, 'list');
    const url = await listen(mount());
    const viewers = await Promise.all(Array.from({ length: 10 }, () => Viewer.at(url)));
    await expect.poll(() => viewers.every((viewer) => viewer.of('look').length >= 3)).toBe(true);
    const looks = viewers[0]!.of('look').length + viewers[0]!.of('all').length;
    expect(list.mock.calls.length).toBeLessThanOrEqual(looks + 2);
    for (const viewer of viewers) viewer.leave();
    await expectRest(list);
    const again = await Viewer.at(url);
    await expect.poll(() => again.of('all').length).toBe(1);
    again.leave();
  });

  it('are forgotten if they leave while the app decides, or with a second request queued', async () => {
    const list = vi.spyOn(client, 'list');
    const handler = mount();
    const decided = vi.fn(handler);
    const slow = await listen((request, response) => {
      response.once('close', () => {
        decided(request, response);
      });
      hasty.destroy();
    });
    const hasty = connect(Number(new URL(slow).port), '127.0.0.1');
    hasty.write('GET /api/events HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => decided.mock.calls.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(list).not.toHaveBeenCalled();
    const quick = await listen(handler);
    const pipelined = connect(Number(new URL(quick).port), '127.0.0.1');
    pipelined.write('GET /api/events HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2));
    await expect.poll(() => list.mock.calls.length).toBeGreaterThan(1);
    pipelined.destroy();
    await expectRest(list);
  });

  it('are told that Redis is gone, and see the page go on when it is back', async () => {
    expectOutages();
    await using server = await startRedis();
    await using own = new Holdfast({ redis: server.url, commandTimeout: 300 });
    own.on('error', () => undefined);
    handler = ui(own, { interval: 200 });
    const viewer = await Viewer.at(await listen(handler));
    await expect.poll(() => viewer.of('all').length).toBe(1);
    await server.kill();
    await expect.poll(() => viewer.of('trouble').length).toBeGreaterThan(0);
    expect(viewer.of('trouble')[0]!['message']).toContain('Redis');
    // Also who comes only now.
    const late = await Viewer.at(`http://127.0.0.1:${String(portOf(servers[0]!))}`);
    await expect.poll(() => late.of('trouble').length).toBe(1);
    late.leave();
    await server.start();
    const looksBefore = viewer.of('look').length;
    await expect.poll(() => viewer.of('look').length).toBeGreaterThan(looksBefore);
    viewer.leave();
  });
});

describe('api/events', () => {
  it('answers HEAD without a stream, and nobody after close()', async () => {
    const list = vi.spyOn(client, 'list');
    const page = mount();
    const url = await listen(page);
    const head = await fetch(`${url}/api/events`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect(list).not.toHaveBeenCalled();
    const viewer = await Viewer.at(url);
    await expect.poll(() => viewer.of('all').length).toBe(1);
    page.close();
    await expect.poll(() => viewer.hasEnded).toBe(true);
    expect(await statusOf(`${url}/api/events`)).toBe(503);
  });

  it('shows the locks while the app takes its time for allowForce', async () => {
    let allow: (may: boolean) => void = () => undefined;
    const url = await listen(
      mount({ allowForce: () => new Promise<boolean>((resolve) => (allow = resolve)) }),
    );
    const viewer = await Viewer.at(url);
    await expect.poll(() => viewer.of('all').length).toBe(1);
    expect(viewer.of('facts')).toEqual([]);
    allow(true);
    await expect.poll(() => viewer.of('facts')).toEqual([{ mayForce: true }]);
    viewer.leave();
  });

  it('keeps middlewares from holding events back', async () => {
    const url = await listen(mount());
    const [response] = (await once(get(`${url}/api/events`), 'response')) as [IncomingMessage];
    expect(response.headers['cache-control']).toBe('no-store, no-transform');
    response.destroy();
  });
});

describe('api/lock', () => {
  it('knows no lock outside of the prefix', async () => {
    const name = `${prefix}:a`;
    const url = await listen(mount({ prefix: `${prefix}:b` }));
    const hold = await client.getLock(name).acquire();
    const response = await fetch(`${url}/api/lock?name=${encodeURIComponent(name)}`);
    expect(await response.json()).toMatchObject({ lock: null });
    await hold.release();
  });

  it('shows one lock, or that nobody has it', async () => {
    const url = await listen(mount());
    const name = `${prefix}:ä ?&`;
    const hold = await client.getLock(name).acquire();
    const look = async (): Promise<unknown> => {
      const response = await fetch(`${url}/api/lock?name=${encodeURIComponent(name)}`);
      return ((await response.json()) as { lock: unknown }).lock;
    };
    expect(await look()).toMatchObject({ name, holders: [{ ownerId: hold.ownerId }] });
    await hold.release();
    expect(await look()).toBeNull();
    expect(await statusOf(`${url}/api/lock`)).toBe(400);
  });
});

describe('api/force', () => {
  it('frees the holders that were shown, and no other', async () => {
    const hold = await client.getLock(`${prefix}:a`).acquire();
    const url = await listen(mount({ allowForce: () => true }));
    const other = await force(url, `${prefix}:a`, JSON_FORCE, ['web:1']);
    expect(other.status).toBe(409);
    expect(await other.json()).toEqual({
      error: `${hold.ownerId} holds it by now: nothing was changed`,
    });
    expect(hold.signal.aborted).toBe(false);
    expect(await statusOf(force(url, `${prefix}:a`, JSON_FORCE, 'all' as never))).toBe(400);
    expect(hold.signal.aborted).toBe(false);
    const shown = await force(url, `${prefix}:a`, JSON_FORCE, [hold.ownerId]);
    expect(await shown.json()).toMatchObject({ forced: true });
  });

  it('is refused unless it is allowed', async () => {
    const hold = await client.getLock(`${prefix}:a`).acquire();
    const readOnly = await listen(mount());
    expect(await statusOf(force(readOnly, `${prefix}:a`))).toBe(403);
    const asked: (string | undefined)[] = [];
    const some = await listen(
      mount({
        allowForce: ({ headers }) => {
          asked.push(headers.authorization);
          return Promise.resolve(headers.authorization === 'admin');
        },
      }),
    );
    expect(await statusOf(force(some, `${prefix}:a`))).toBe(403);
    expect(hold.signal.aborted).toBe(false);
    const headers = { ...JSON_FORCE, authorization: 'admin' };
    const forced = await force(some, `${prefix}:a`, headers);
    expect([forced.status, await forced.json()]).toEqual([
      200,
      { name: `${prefix}:a`, forced: true },
    ]);
    expect(asked).toEqual([undefined, 'admin']);
    expect(hold.signal.aborted).toBe(true);
    const again = await force(some, `${prefix}:a`, headers);
    expect(await again.json()).toEqual({ name: `${prefix}:a`, forced: false });
  });

  it.each([
    [{ 'content-type': 'text/plain', 'x-holdfast': 'force' }],
    [{ 'content-type': 'application/json' }],
    [{ ...JSON_FORCE, origin: 'https://evil.example' }],
    [{ ...JSON_FORCE, 'sec-fetch-site': 'cross-site' }],
    [{ ...JSON_FORCE, 'sec-fetch-site': 'same-site' }],
  ])('is refused to a page of another site: %j', async (headers) => {
    const allowForce = vi.fn(() => true);
    const url = await listen(mount({ allowForce }));
    const hold = await client.getLock(`${prefix}:a`).acquire();
    expect(await statusOf(force(url, `${prefix}:a`, headers))).toBe(403);
    expect(allowForce).not.toHaveBeenCalled();
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  });

  it('frees no lock outside of the prefix', async () => {
    const url = await listen(mount({ prefix: `${prefix}:b`, allowForce: () => true }));
    const hold = await client.getLock(`${prefix}:a`).acquire();
    expect(await statusOf(force(url, `${prefix}:a`))).toBe(403);
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  });

  it.each([
    ['throws', () => fail('the password is hunter2')],
    ['rejects', () => Promise.reject(new Error('the password is hunter2'))],
    ['is truthy, but not true', () => 'yes' as never],
  ])('is refused if allowForce %s, and tells nothing of it', async (_, allowForce) => {
    const url = await listen(mount({ allowForce }));
    const hold = await client.getLock(`${prefix}:a`).acquire();
    const response = await force(url, `${prefix}:a`);
    expect(response.status).toBe(403);
    expect(await response.json()).toEqual({ error: 'you may not free locks here' });
    expect(hold.signal.aborted).toBe(false);
    await hold.release();
  });

  it('is refused with a body that is too long, without reading it to its end', async () => {
    const url = await listen(mount({ allowForce: () => true }));
    const headers = { ...JSON_FORCE, 'content-length': '1000000' };
    const sent = request(`${url}/api/force`, { method: 'POST', headers });
    sent.on('error', () => undefined); // the server closes the connection
    sent.write(Buffer.alloc(20_000, 'x'));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(413);
    sent.destroy();
  });

  it('frees nothing for a sender that goes before its body is complete', async () => {
    const inspected = vi.spyOn(client, 'inspect');
    const asked = vi.fn(() => true);
    const url = await listen(mount({ allowForce: asked }));
    const headers = { ...JSON_FORCE, 'content-length': '100' };
    const sent = request(`${url}/api/force`, { method: 'POST', headers });
    sent.on('error', () => undefined); // it is destroyed below
    sent.write('{"name":');
    await expect.poll(() => asked.mock.calls.length).toBe(1);
    sent.destroy();
    await expect.poll(() => connectionsOf(servers[0]!)).toBe(0);
    expect(inspected).not.toHaveBeenCalled();
  });

  it('reads a body that a parser of the app has left alone', async () => {
    const app = express();
    app.use('/locks', (req, _res, next) => {
      req.body = {}; // as the parsers of Express 4 do
      next();
    });
    app.use('/locks', mount({ allowForce: () => true }));
    const url = await listen(app);
    expect(await (await force(`${url}/locks`, `${prefix}:a`)).json()).toEqual({
      name: `${prefix}:a`,
      forced: false,
    });
  });

  it('takes a body that the app has read already', async () => {
    const app = express();
    app.use(express.json());
    app.use('/locks', mount({ allowForce: () => true }));
    const url = await listen(app);
    const hold = await client.getLock(`${prefix}:a`).acquire();
    expect(await (await force(`${url}/locks`, `${prefix}:a`)).json()).toMatchObject({
      forced: true,
    });
    expect(hold.signal.aborted).toBe(true);
  });

  it.each(['', '{', '[]', 'null', '3', '{"name":3}', '{"name":""}'])(
    'refuses the body %j',
    async (body) => {
      const url = await listen(mount({ allowForce: () => true }));
      const response = await fetch(`${url}/api/force`, {
        method: 'POST',
        headers: JSON_FORCE,
        body,
      });
      await response.text();
      expect(response.status).toBe(400);
    },
  );

  it('says that a semaphore cannot be forced, and frees readers', async () => {
    const url = await listen(mount({ allowForce: () => true }));
    const permit = await client.getSemaphore(`${prefix}:s`, { permits: 1 }).acquire();
    const refused = await force(url, `${prefix}:s`);
    expect(refused.status).toBe(409);
    expect(((await refused.json()) as { error: string }).error).toContain('is a semaphore');
    await permit.release();
    const reader = await client.getReadWriteLock(`${prefix}:r`).readLock().acquire();
    expect(await (await force(url, `${prefix}:r`)).json()).toMatchObject({ forced: true });
    expect(reader.signal.aborted).toBe(true);
  });
});

it('is mounted in Fastify', async () => {
  const app = fastify({ forceCloseConnections: true });
  const page = mount({ allowForce: () => true });
  for (const path of ['/locks', '/locks/*']) {
    app.all(path, (request, reply) => {
      reply.hijack();
      page(Object.assign(request.raw, { body: request.body }), reply.raw);
    });
  }
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  expect(await (await fetch(`${url}/locks`)).text()).toContain('page.js');
  const hold = await client.getLock(`${prefix}:a`).acquire();
  const viewer = await Viewer.at(`${url}/locks`);
  await expect.poll(() => viewer.of('all').length).toBe(1);
  expect(await (await force(`${url}/locks`, `${prefix}:a`)).json()).toMatchObject({ forced: true });
  expect(hold.signal.aborted).toBe(true);
  viewer.leave();
  await app.close();
});

describe('serve()', () => {
  it('listens on this machine only, and answers no other host name', async () => {
    const served = await serve(client, { port: 0, prefix, mayForce: false });
    const { port } = new URL(served.url);
    expect(served.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(await statusOf(`http://localhost:${port}/`)).toBe(200);
    const answer = await new Promise<IncomingMessage>((resolve) => {
      get({ port, host: '127.0.0.1', headers: { host: 'evil.example' } }, resolve);
    });
    answer.resume();
    expect(answer.statusCode).toBe(403);
    await served.close();
  });
});

describe('ui()', () => {
  it.each([
    [{ base: '/x' }, 'have no "base"'],
    [{ basePath: 'x' }, "basePath is 'x'"],
    [{ interval: 50 }, 'interval is 50'],
    [{ limit: 0 }, 'limit is 0'],
    [{ allowForce: true }, 'allowForce is true'],
    [{ prefix: 3 }, 'prefix is 3'],
  ])('refuses %j', (options, message) => {
    expect(() => ui(client, options as never)).toThrow(message);
  });

  it('refuses what is no client', () => {
    expect(() => ui({ prefix: 'x' } as never)).toThrow('it must be a Holdfast');
  });
});
