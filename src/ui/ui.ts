// holdfast/ui: a live page of the locks, as a request handler to mount in the user's own app, which decides who may see it.

import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
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
   * The path below which the handler is mounted, such as `/locks`, if the app leaves it in `req.url`. Express' `app.use('/locks', …)` takes
   * it away, and needs none. Default: none.
   */
  basePath?: string | undefined;
  /** Only locks whose names begin with this. Default: all. */
  prefix?: string | undefined;
  /** How often the server is asked while somebody looks, in milliseconds. Default: 1,000; at least 200. */
  interval?: number | undefined;
  /** At most so many locks are shown. Default: 5,000; at least 1. */
  limit?: number | undefined;
  /**
   * Whether the sender of this request may free locks. It is asked for each request to free one, and for each page. Default: nobody may.
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

const MOST_BODY_BYTES = 16_384;

/**
 * A live page of the locks of all clients: who holds them, who waits, and how that changes. It is read-only unless `allowForce` is given.
 * **Whoever reaches the handler may read**: mount it behind the app's own authentication.
 *
 * All who look share one look at the server every second; while nobody looks, there is none. It needs the permission for SCAN.
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
      fail(response, 500, error instanceof Error ? error.message : String(error));
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
  /** Express: with the mount path. */
  readonly originalUrl?: string;
  /** The body, if the app has read it already. */
  readonly body?: unknown;
}

class Pages {
  readonly #holdfast: Holdfast;
  readonly #poller: Poller;
  readonly #basePath: string;
  readonly #allowForce: UiOptions['allowForce'];

  constructor(holdfast: Holdfast, options: UiOptions) {
    const given = parseOptions('the options of ui()', options, KNOWN_OPTIONS);
    const { basePath = '', prefix = '', interval = 1_000, limit = 5_000, allowForce } = given;
    if (typeof basePath !== 'string' || !/^(\/[^?#]*)?$/.test(basePath))
      throw invalid('basePath', basePath, 'a path that begins with a slash, such as /locks');
    if (allowForce !== undefined) parseFunction(allowForce, 'allowForce');
    if (limit === 0) throw invalid('limit', limit, 'a whole number of at least 1');
    this.#holdfast = holdfast;
    this.#basePath = basePath.replace(/\/+$/, '');
    this.#allowForce = allowForce as UiOptions['allowForce'];
    this.#poller = new Poller(holdfast, {
      prefix: prefix === '' ? '' : parseText(prefix, 'prefix'),
      intervalMs: parseDuration(interval, 'interval', 200),
      limit: parseCount(limit, 'limit'),
    });
  }

  close(): void {
    this.#poller.close();
  }

  async answer(request: AppRequest, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    const isBelow = pathname === this.#basePath || pathname.startsWith(`${this.#basePath}/`);
    const path = isBelow ? pathname.slice(this.#basePath.length) : pathname;
    const method = request.method === 'HEAD' ? 'GET' : request.method;
    if (path === '/api/force') {
      if (method === 'POST') await this.#force(request, response);
      else fail(response, 405, 'a lock is freed by POST', { Allow: 'POST' });
      return;
    }
    if (method !== 'GET') {
      fail(response, 405, 'the page is read by GET', { Allow: 'GET, HEAD' });
      return;
    }
    if (path === '/api/events') {
      const mayForce = await this.#mayForce(request);
      if (!response.destroyed) this.#poller.add(response, { mayForce });
    } else if (path === '/api/lock') await this.#lock(searchParams.get('name') ?? '', response);
    else await sendFile(path === '' ? '/' : path, request, response);
  }

  async #lock(name: string, response: ServerResponse): Promise<void> {
    try {
      const lock = await this.#holdfast.inspect(name);
      sendJson(response, 200, { nowMs: Date.now(), lock: lock ? rowOf(lock) : null });
    } catch (error) {
      failBy(response, error);
    }
  }

  async #mayForce(request: IncomingMessage): Promise<boolean> {
    return (await this.#allowForce?.(request)) === true;
  }

  async #force(request: AppRequest, response: ServerResponse): Promise<void> {
    const foreign = whyForeign(request);
    if (foreign !== undefined) fail(response, 403, foreign);
    else if (!(await this.#mayForce(request))) fail(response, 403, 'you may not free locks here');
    else {
      const name = await nameIn(request);
      if (name === undefined) fail(response, 400, 'the body must be JSON: {"name":"…"}');
      else await this.#forceNamed(name, response);
    }
  }

  async #forceNamed(name: string, response: ServerResponse): Promise<void> {
    try {
      const lock = await this.#holdfast.inspect(name);
      const isForced = lock !== undefined && (await forceUnlock(this.#holdfast, lock));
      sendJson(response, 200, { name, forced: isForced });
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

/** The name in the body; undefined: there is none. */
async function nameIn(request: AppRequest): Promise<string | undefined> {
  const { body } = request;
  const isRead = body !== undefined && body !== null;
  const isParsed = isRead && typeof body === 'object' && !Buffer.isBuffer(body);
  const text = Buffer.isBuffer(body) || typeof body === 'string' ? body.toString() : undefined;
  const given = isParsed ? body : parsed(text ?? (await textOf(request)));
  const { name } = (given ?? {}) as { name?: unknown };
  return typeof name === 'string' && name !== '' ? name : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) {
    text += String(chunk);
    if (text.length > MOST_BODY_BYTES) return '';
  }
  return text;
}

async function sendFile(
  path: string,
  request: AppRequest,
  response: ServerResponse,
): Promise<void> {
  const [file, type] = (Object.hasOwn(FILES, path) ? FILES[path] : undefined) ?? [];
  if (file === undefined) {
    fail(response, 404, 'no such page (if the handler is mounted below a path, give basePath)');
    return;
  }
  const [full = '/', query] = (request.originalUrl ?? request.url ?? '/').split('?');
  if (path === '/' && !full.endsWith('/')) {
    // The page's own addresses are relative to it.
    const last = full.slice(full.lastIndexOf('/') + 1);
    const location = `${last}/${query === undefined ? '' : `?${query}`}`;
    response.writeHead(302, { Location: location }).end();
    return;
  }
  const content = await readFile(new URL(`./page/${file}`, import.meta.url));
  response.writeHead(200, { 'Content-Type': `${type ?? ''}; charset=utf-8` });
  response.end(request.method === 'HEAD' ? undefined : content);
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
