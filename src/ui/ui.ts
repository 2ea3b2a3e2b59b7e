// holdfast/ui: a live page of the locks, as a request handler to mount in the user's own app, which decides who may see it.

import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import { HoldfastError, OptionError } from '../api/errors.js';
import {
  invalid,
  parseCount,
  parseDuration,
  parseFunction,
  parseOptions,
  parseText,
} from '../api/options.js';
import type { Holdfast } from '../holdfast.js';
import { forceUnlock } from './force.js';
import { Poller, rowOf } from './poller.js';

/**
 * Options of `ui()`.
 *
 * @group The live page
 */
export interface UiOptions {
  /**
   * The one path below which the page is found, such as `/locks`. Default: whatever stands before the page's own paths in `req.url`, or
   * nothing, if the app has taken it away, as Express' `app.use('/locks', …)` does.
   */
  basePath?: string | undefined;
  /** Only locks whose names begin with this: no other is shown, or freed. Default: all. */
  prefix?: string | undefined;
  /** How often the server is asked while somebody looks, in milliseconds. Default: 1,000; at least 200. */
  interval?: number | undefined;
  /** At most so many locks are shown. Default: 5,000; at least 1. */
  limit?: number | undefined;
  /**
   * Whether the sender of this request may free locks. It is asked for each request to free one, and for each page. If it fails, the sender
   * may not, and the process is warned. Default: nobody may.
   */
  allowForce?: ((request: IncomingMessage) => boolean | Promise<boolean>) | undefined;
}

/**
 * Handles the requests for the page.
 *
 * @group The live page
 */
export interface UiHandler {
  /** Answers one request, for whatever path below the one where it is mounted. */
  (request: IncomingMessage, response: ServerResponse): void;
  /** Ends the connections of all who look. A server that is being closed waits for them otherwise. */
  close(): void;
}

const KNOWN_OPTIONS = ['basePath', 'prefix', 'interval', 'limit', 'allowForce'] as const;

/** What no page of this kind needs is forbidden: other origins, inline scripts, frames. */
const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

const FILES: Readonly<Record<string, readonly [file: string, type: string]>> = {
  '/': ['page.html', 'text/html'],
  '/page.css': ['page.css', 'text/css'],
  '/page.js': ['page.js', 'text/javascript'],
  '/uplot.css': ['uplot.css', 'text/css'],
  '/uplot.js': ['uplot.js', 'text/javascript'],
};

/** The calls of the page. */
const CALLS = ['/api/events', '/api/lock', '/api/force'];

const MOST_BODY_BYTES = 16_384;

/**
 * A live page of the locks of all clients: who holds them, who waits, and how that changes. It is read-only unless `allowForce` is given.
 * **Anyone who can reach this URL can read all lock names and client ids**: mount it behind the app's own authentication.
 *
 * However many pages are open, the server is queried once a second; with none open, not at all. It needs the permission for SCAN.
 *
 * @throws OptionError an option is unknown, or not usable
 * @example
 * ```ts
 * import { ui } from 'holdfast/ui';
 *
 * app.use('/locks', requireAdmin, ui(holdfast));
 * ```
 *
 * @group The live page
 */
export function ui(holdfast: Holdfast, options: UiOptions = {}): UiHandler {
  if (typeof (holdfast as Partial<Holdfast> | undefined)?.list !== 'function')
    throw invalid('what ui() was given', holdfast, 'a Holdfast; options come second');
  const pages = new Pages(holdfast, options);
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    pages.answer(request, response).catch((error: unknown) => {
      if (response.destroyed) return; // its sender has gone
      warn('could not answer', error);
      fail(response, 500, 'the page failed; the warnings of its process say why');
    });
  };
  return Object.assign(handle, {
    close: () => {
      pages.close();
    },
  });
}

/** A request as frameworks pass it on. */
interface AppRequest extends IncomingMessage {
  /** Express and its like: with the mount path, which `url` has no more. */
  readonly originalUrl?: string;
  /** The body, if the app has read it already. */
  readonly body?: unknown;
}

class Pages {
  readonly #holdfast: Holdfast;
  readonly #poller: Poller;
  /** undefined: whatever stands before the page's own paths. */
  readonly #basePath: string | undefined;
  readonly #prefix: string;
  readonly #allowForce: UiOptions['allowForce'];

  constructor(holdfast: Holdfast, options: UiOptions) {
    const given = parseOptions('the options of ui()', options, KNOWN_OPTIONS);
    const { basePath, prefix = '', interval = 1_000, limit = 5_000, allowForce } = given;
    if (basePath !== undefined && (typeof basePath !== 'string' || !/^\/[^?#]*$/.test(basePath)))
      throw invalid('basePath', basePath, 'a path that begins with a slash, such as /locks');
    if (allowForce !== undefined) parseFunction(allowForce, 'allowForce');
    if (limit === 0) throw invalid('limit', limit, 'a whole number of at least 1');
    this.#holdfast = holdfast;
    this.#basePath = basePath?.replace(/\/+$/, '');
    this.#prefix = prefix === '' ? '' : parseText(prefix, 'prefix');
    this.#allowForce = allowForce as UiOptions['allowForce'];
    this.#poller = new Poller(holdfast, {
      prefix: this.#prefix,
      intervalMs: parseDuration(interval, 'interval', 200),
      limit: parseCount(limit, 'limit'),
    });
  }

  close(): void {
    this.#poller.close();
  }

  async answer(request: AppRequest, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const [whole = '/', query] = splitUrl(request.url);
    const path = this.#pathOf(whole, request);
    const { method } = request;
    if (path === '/api/force') {
      if (method === 'POST') await this.#force(request, response);
      else fail(response, 405, 'a lock is freed by POST', { Allow: 'POST' });
    } else if (method !== 'GET' && method !== 'HEAD')
      fail(response, 405, 'the page is read by GET', { Allow: 'GET, HEAD' });
    else if (path === '/api/events') await this.#events(request, response);
    else if (path === '/api/lock') {
      await this.#lock(new URLSearchParams(query).get('name') ?? '', response);
    } else await sendFile(path, request, response);
  }

  /** The page's own path, such as `/page.js`; '': that of the page, without the slash at its end. */
  #pathOf(path: string, { url, originalUrl }: AppRequest): string {
    const base = this.#basePath;
    if (base !== undefined) return isBelow(path, base) ? path.slice(base.length) : path;
    if (originalUrl !== undefined && originalUrl !== url) return path; // the app has taken the mount path away
    if (path.endsWith('/')) return '/';
    const own = [...Object.keys(FILES), ...CALLS].find((each) => path.endsWith(each));
    return own ?? (/\.[^/]*$|\/api\/[^/]*$/.test(path) ? path : '');
  }

  async #events(request: AppRequest, response: ServerResponse): Promise<void> {
    if (this.#poller.isClosed) {
      fail(response, 503, 'the page is closed');
      return;
    }
    if (request.method === 'HEAD') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end();
      return;
    }
    this.#poller.add(request, response);
    // After the locks, which are to be seen even while the app takes its time for this.
    this.#poller.tell(response, { mayForce: await this.#mayForce(request) });
  }

  async #lock(name: string, response: ServerResponse): Promise<void> {
    if (name === '') {
      fail(response, 400, 'the name is missing: api/lock?name=…');
      return;
    }
    try {
      const lock = name.startsWith(this.#prefix) ? await this.#holdfast.inspect(name) : undefined;
      sendJson(response, 200, { nowMs: Date.now(), lock: lock ? rowOf(lock) : null });
    } catch (error) {
      failBy(response, error);
    }
  }

  async #mayForce(request: IncomingMessage): Promise<boolean> {
    try {
      return (await this.#allowForce?.(request)) === true;
    } catch (error) {
      warn('asked allowForce, which failed', error);
      return false;
    }
  }

  async #force(request: AppRequest, response: ServerResponse): Promise<void> {
    const foreign = whyForeign(request);
    if (foreign !== undefined) {
      fail(response, 403, foreign);
      return;
    }
    if (!(await this.#mayForce(request))) {
      fail(response, 403, 'you may not free locks here');
      return;
    }
    const body = await bodyOf(request);
    if (response.destroyed) return; // who asked has gone, and nobody would learn what became of it
    const { name, ownerIds } = targetIn(body);
    if (body === undefined)
      fail(response, 413, 'the body is too long', { Connection: 'close' }); // the rest of it is not read
    else if (name === undefined)
      fail(response, 400, 'the body must be JSON: {"name":"…","ownerIds":["…"]}');
    else if (!name.startsWith(this.#prefix)) fail(response, 403, 'this page has no such lock');
    else await this.#forceNamed(name, ownerIds, response);
  }

  async #forceNamed(
    name: string,
    ownerIds: readonly string[] | undefined,
    response: ServerResponse,
  ): Promise<void> {
    try {
      const forced = await forceUnlock(this.#holdfast, name, ownerIds);
      if (forced.outcome === 'changed')
        fail(response, 409, `${forced.ownerId} holds it by now: nothing was changed`);
      else sendJson(response, 200, { name, forced: forced.outcome === 'forced' });
    } catch (error) {
      failBy(response, error);
    }
  }
}

/** Why a request to free a lock may come from another site's page, in the browser of somebody who may; undefined: it does not. */
function whyForeign({ headers }: IncomingMessage): string | undefined {
  // A page of another site cannot send these two without asking first, which nobody here answers.
  if (!headers['content-type']?.startsWith('application/json'))
    return 'the content type must be JSON';
  if (headers['x-holdfast'] !== 'force') return 'the header x-holdfast: force is missing';
  const { origin, host, 'sec-fetch-site': site } = headers;
  if (site !== undefined)
    return site === 'same-origin' ? undefined : 'the request is of another site';
  const isSame = origin === undefined || (URL.canParse(origin) && new URL(origin).host === host);
  return isSame ? undefined : 'the request is of another site';
}

/** What was sent: an object that the app has read already, or text; undefined: it is too long. */
async function bodyOf(request: AppRequest): Promise<unknown> {
  const { body } = request;
  if (Buffer.isBuffer(body)) return body.toString();
  // An empty object may mean that a parser of the app left the body alone.
  const isLeft = typeof body === 'object' && body !== null && Object.keys(body).length === 0;
  if (body !== undefined && body !== null && (!isLeft || request.readableEnded)) return body;
  if (request.readableEnded) return '';
  let byteCount = 0;
  const chunks: Buffer[] = [];
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    const bytes = Buffer.from(chunk as Buffer | string);
    byteCount += bytes.length;
    if (byteCount > MOST_BODY_BYTES) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString();
}

/** The lock to free, and the holders that were shown, if the body names them. No name: the body is not usable. */
function targetIn(body: unknown): { name?: string; ownerIds?: readonly string[] | undefined } {
  const given = typeof body === 'string' ? parsed(body) : body;
  const { name, ownerIds } = (given ?? {}) as { name?: unknown; ownerIds?: unknown };
  const isUsable = ownerIds === undefined || Array.isArray(ownerIds);
  if (typeof name !== 'string' || name === '' || !isUsable) return {};
  return { name, ownerIds: ownerIds?.map(String) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON
  }
}

async function sendFile(
  path: string,
  request: AppRequest,
  response: ServerResponse,
): Promise<void> {
  const [full = '/', query] = splitUrl(request.originalUrl ?? request.url);
  if (path === '' || (path === '/' && !full.endsWith('/'))) {
    // The page's own addresses are relative to it. (The dot: a last part with a colon is no address of another site.)
    const last = full.slice(full.lastIndexOf('/') + 1);
    const location = `./${last}/${query === undefined ? '' : `?${query}`}`;
    response.writeHead(302, { Location: location }).end();
    return;
  }
  const [file, type] = (Object.hasOwn(FILES, path) ? FILES[path] : undefined) ?? [];
  if (file === undefined) {
    fail(response, 404, 'no such page');
    return;
  }
  const content = await readFile(new URL(`./page/${file}`, import.meta.url));
  response.writeHead(200, { 'Content-Type': `${type ?? ''}; charset=utf-8` });
  response.end(request.method === 'HEAD' ? undefined : content);
}

/** Path and query of a request's URL; no query: one element. */
function splitUrl(url = '/'): string[] {
  const at = url.indexOf('?');
  return at < 0 ? [url] : [url.slice(0, at), url.slice(at + 1)];
}

function isBelow(path: string, base: string): boolean {
  return path === base || path.startsWith(`${base}/`);
}

/** What the sender of a request need not know. */
function warn(what: string, error: unknown): void {
  process.emitWarning(`the live page ${what}: ${inspect(error)}`, 'HoldfastWarning');
}

function failBy(response: ServerResponse, error: unknown): void {
  if (!(error instanceof HoldfastError)) throw error;
  const status = error instanceof OptionError || error.code === 'KEY_CONFLICT' ? 409 : 503;
  fail(response, status, error.message);
}

function fail(
  response: ServerResponse,
  status: number,
  error: string,
  headers: Record<string, string> = {},
): void {
  if (response.headersSent) response.destroy();
  else sendJson(response, status, { error }, headers);
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { ...headers, 'Content-Type': 'application/json; charset=utf-8' });
  response.end(JSON.stringify(body));
}
