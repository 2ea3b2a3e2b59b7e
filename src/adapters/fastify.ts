// holdfast/fastify: a plugin that brings a client into an app, and runs the handlers of routes under locks.

import { once } from 'node:events';
import { finished } from 'node:stream';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import {
  type AcquireOptions,
  type Hold,
  Holdfast,
  HoldfastError,
  type HoldfastOptions,
  LockAbortedError,
  OptionError,
  statusOf,
} from '../index.js';
import { invalid, isWholeNumber, parseDuration } from '../api/options.js';

declare module 'fastify' {
  interface FastifyInstance {
    /** The client of `holdfast/fastify`. */
    holdfast: Holdfast;
  }
  interface FastifyRequest {
    /** The hold under which the handler runs; null: its route has no lock, or the handler has not begun. */
    hold: Hold | null;
  }
  interface FastifyContextConfig {
    /** The lock under which the route's handler runs. */
    lock?: RouteLock | undefined;
  }
}

/**
 * What the plugin needs besides a client; times in milliseconds.
 *
 * @group Fastify
 */
export interface FastifyHoldfastSettings {
  /** How long a request waits for its lock, unless its route says otherwise. Default: 5,000. */
  wait?: number | undefined;
  /**
   * What `Retry-After` says if the lock was taken until `wait` ran out, unless the route says otherwise: rounded up to whole seconds.
   * Default: 1,000; 1 to 2^31-1. (How long the holder's lease lasts says nothing of when it releases the lock.)
   */
  retryAfter?: number | undefined;
  /**
   * When the app closes: how long the plugin waits for handlers that still run under their locks though the server has ended their requests:
   * those whose clients have gone. Default: 10,000; 0 to 2^31-1.
   */
  drainTimeout?: number | undefined;
}

/**
 * Options of the plugin: those of a new client, which the plugin closes with the app, or a client, which stays yours; and those of the plugin.
 *
 * @group Fastify
 */
export type FastifyHoldfastOptions = FastifyHoldfastSettings &
  (
    | (HoldfastOptions & {
        /** None: the plugin makes a client. */
        client?: undefined;
      })
    | {
        /** A client that is there already. The plugin does not close it. */
        client: Holdfast;
      }
  );

/**
 * The lock of a route, given as `config: { lock: … }`; times in milliseconds.
 *
 * @group Fastify
 */
export interface RouteLock extends Omit<AcquireOptions, 'signal' | 'label'> {
  /** The name of the lock, or a function that makes it of the request, which is validated by then. */
  name: string | NameOfRequest;
  /** The status of the answer if the lock is taken until `wait` runs out: from 400 to 599. Default: 409. */
  busyStatus?: number | undefined;
  /** What `Retry-After` says then, rounded up to whole seconds. Default: the plugin's `retryAfter`. */
  retryAfter?: number | undefined;
}

/**
 * Makes the name of a lock of a request. Declare the request with its types: `(request: FastifyRequest<{ Params: { id: string } }>) => …`.
 *
 * @group Fastify
 */
export type NameOfRequest = {
  /** A method, so that a function of a narrower request is one, too. */
  of(request: FastifyRequest): string;
}['of'];

/** With the plugin's settings for what the route does not say. */
interface Defaults {
  wait: number;
  retryAfter: number;
}
type ParsedLock = RouteLock & Defaults;

const KNOWN_OPTIONS = ['name', 'wait', 'lease', 'lockAtLeastFor', 'busyStatus', 'retryAfter'];

/** After an outage clients are connected again within a second or two. */
const OUTAGE_RETRY_MS = 5_000;

// What install() throws must reject: an error that a plugin throws would end the process.
const plugin: FastifyPluginAsync<FastifyHoldfastOptions> = (app, options) =>
  new Promise((resolve) => {
    install(app, options);
    resolve();
  });

/**
 * Adds `app.holdfast` to an app, and gives a lock to each route that is added later and has one in its `config`.
 *
 * @example
 * ```ts
 * import holdfastPlugin from 'holdfast/fastify';
 *
 * await app.register(holdfastPlugin, { redis: 'redis://localhost:6379' });
 * app.post('/report', { config: { lock: { name: 'report' } } }, async () => await writeReport());
 * ```
 *
 * @group Fastify
 */
const fastifyHoldfast: FastifyPluginAsync<FastifyHoldfastOptions> = fastifyPlugin(plugin, {
  name: 'holdfast',
  fastify: '5.x',
});
export default fastifyHoldfast;

function install(app: FastifyInstance, options: FastifyHoldfastOptions): void {
  if (app.hasDecorator('holdfast'))
    throw new OptionError(
      'holdfast/fastify is registered already, in this context or one around it: use its app.holdfast, or make a second client by new Holdfast()',
    );
  const { client, wait = 5_000, retryAfter = 1_000, drainTimeout = 10_000, ...others } = options;
  if (client !== undefined) checkClient(client, others);
  checkWait('holdfast/fastify: wait', wait);
  parseDuration(retryAfter, 'holdfast/fastify: retryAfter', 1);
  parseDuration(drainTimeout, 'holdfast/fastify: drainTimeout', 0);
  app.decorateRequest('hold', null);
  const holdfast = client ?? new Holdfast({ ...(others as HoldfastOptions), wait });
  const locks = new WeakSet<object>();
  const running = new Set<Promise<unknown>>();

  app.decorate('holdfast', holdfast);
  app.addHook('onRoute', (route) => {
    const label = `${String(route.method)} ${route.url}`;
    if ('lock' in route) throw new OptionError(`route ${label}: "lock" belongs into "config"`);
    if (route.config?.lock === undefined) return;
    const lock = parseLock(route.config.lock, { wait, retryAfter }, `route ${label}: config.lock`);
    locks.add(lock);
    route.config = { ...route.config, lock };
    const { handler } = route;
    route.handler = async function (request, reply) {
      if (!('routeOptions' in request))
        throw new OptionError(
          `route ${label}: register holdfast after the plugin that calls its handler with other arguments (@fastify/websocket, for example)`,
        );
      const answer = underLock(holdfast, lock, request, reply, () =>
        handler.call(this, request, reply),
      );
      running.add(answer);
      return await answer.finally(() => running.delete(answer));
    };
  });
  // Routes that were added earlier have not been seen above. If one of them wants a lock, it must not run without.
  app.addHook('onRequest', (request, _reply, next) => {
    const { lock, method, url } = request.routeOptions.config;
    if (lock === undefined || locks.has(lock)) next();
    else {
      const where = `route ${String(method)} ${url}`;
      next(
        new OptionError(`${where} has a lock, but was added before holdfast: await its register()`),
      );
    }
  });
  // The server has ended its requests by now. A handler whose client has gone may still be at work.
  app.addHook('onClose', async () => {
    const limit = once(AbortSignal.timeout(drainTimeout), 'abort');
    await Promise.race([Promise.allSettled(running), limit]);
    if (client === undefined) await holdfast.close();
  });
}

async function underLock(
  holdfast: Holdfast,
  { name, busyStatus = 409, retryAfter, ...options }: ParsedLock,
  request: FastifyRequest,
  reply: FastifyReply,
  handle: () => unknown,
): Promise<unknown> {
  const gone = new AbortController(); // a client that has gone need not wait
  finished(reply.raw, () => {
    gone.abort();
  });
  const label = `${request.method} ${request.routeOptions.url ?? ''}`;
  const progress = { hasBegun: false, isDone: false };
  try {
    const lock = holdfast.getLock(typeof name === 'string' ? name : name(request));
    return await lock.withLock({ ...options, label, signal: gone.signal }, async (hold) => {
      progress.hasBegun = true;
      request.hold = hold;
      const answer = await answerOf(handle, reply);
      progress.isDone = true;
      return answer;
    });
  } catch (error) {
    const isOfHandler = progress.hasBegun && !progress.isDone;
    if (isOfHandler || !(error instanceof HoldfastError)) throw error;
    if (error instanceof LockAbortedError) return undefined; // nobody is there to be answered
    const isLoss = progress.isDone && !(error instanceof OptionError);
    throw isLoss ? lossAfterWork(error) : beforeWork(error, reply, busyStatus, retryAfter);
  }
}

/**
 * Lets the handler answer, and waits until it has: one that calls `reply.send()` may do so after it has returned, also when the client has
 * gone. A stream, or a response that the handler has taken over, has been answered when it has ended.
 */
async function answerOf(handle: () => unknown, reply: FastifyReply): Promise<unknown> {
  const send = reply.send.bind(reply);
  const hijack = reply.hijack.bind(reply);
  const then = reply.then.bind(reply);
  let answeredBy = undefined as 'handler' | 'handlerTimeout' | undefined;
  const hasAnswered = (): boolean =>
    answeredBy === 'handler' || (answeredBy === undefined && reply.sent);
  const ended = new Promise<void>((resolve) => {
    reply.send = (payload) => {
      // By its `handlerTimeout`, Fastify answers itself, and the handler works on.
      if (isHandlerTimeout(payload)) {
        answeredBy = 'handlerTimeout';
        return send(payload);
      }
      if (!isStream(payload) || reply.raw.destroyed || answeredBy === 'handlerTimeout') resolve();
      answeredBy ??= 'handler';
      return send(payload);
    };
    reply.hijack = () => {
      if (reply.raw.destroyed || answeredBy === 'handlerTimeout') resolve();
      return hijack();
    };
    finished(reply.raw, () => {
      if (hasAnswered()) resolve();
    });
  });
  // `await reply` would also end when the client has gone.
  reply.then = (fulfilled, rejected) => {
    void ended.then(() => {
      then(fulfilled, rejected);
    });
  };
  const returned = handle();
  const answer: unknown = await Promise.resolve(returned === undefined ? ended : returned);
  if (isStream(answer)) void reply.send(answer);
  if (hasAnswered()) await ended;
  return isStream(answer) ? undefined : answer;
}

/** Whether Fastify goes on sending it after `reply.send()` has returned. */
function isStream(payload: unknown): boolean {
  if (typeof payload !== 'object' || payload === null) return false;
  const { pipe, getReader } = payload as { pipe?: unknown; getReader?: unknown };
  return (
    [pipe, getReader].some((each) => typeof each === 'function') || payload instanceof Response
  );
}

function isHandlerTimeout(payload: unknown): boolean {
  return (payload as { code?: unknown } | null | undefined)?.code === 'FST_ERR_HANDLER_TIMEOUT';
}

// What the sender of the request may know: no addresses, and no owners. They are in the cause, for the log.

function lossAfterWork(error: HoldfastError): Error {
  return answer(error, 500, 'the lock was lost: see what was done before you repeat it');
}

function beforeWork(
  error: HoldfastError,
  reply: FastifyReply,
  busyStatus: number,
  busyRetryMs: number,
): Error {
  const status = statusOf(error) ?? 500;
  if (status !== 409 && status !== 503) return answer(error, status, 'the lock cannot be used');
  const isBusy = status === 409;
  void reply.header('retry-after', Math.ceil((isBusy ? busyRetryMs : OUTAGE_RETRY_MS) / 1_000));
  return isBusy
    ? answer(error, busyStatus, 'the lock is taken')
    : answer(error, status, 'the lock is not available');
}

function answer(cause: HoldfastError, statusCode: number, message: string): Error {
  return Object.assign(new Error(message, { cause }), { statusCode, code: cause.code });
}

function checkClient(client: Partial<Holdfast>, others: object): void {
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new OptionError(
      `holdfast/fastify: "${other}" is an option of a new client, not for one that is there`,
    );
  if (typeof client.getLock !== 'function')
    throw invalid('holdfast/fastify: client', client, 'a Holdfast');
}

function checkWait(what: string, wait: unknown): void {
  if (!(typeof wait === 'number' && wait >= 0))
    throw invalid(what, wait, 'a number of milliseconds of at least 0');
}

function parseLock(given: RouteLock | null, defaults: Defaults, where: string): ParsedLock {
  if (typeof given !== 'object' || given === null)
    throw invalid(where, given, 'an object with a name');
  const unknown = Object.keys(given).find((key) => !KNOWN_OPTIONS.includes(key));
  if (unknown !== undefined)
    throw new OptionError(`${where} has no "${unknown}"; known are: ${KNOWN_OPTIONS.join(', ')}`);
  const { name, lease, lockAtLeastFor, busyStatus } = given;
  const { wait = defaults.wait, retryAfter = defaults.retryAfter } = given;
  if ((typeof name !== 'string' || name === '') && typeof name !== 'function')
    throw invalid(`${where}.name`, name, 'a string of at least one character, or a function');
  checkWait(`${where}.wait`, wait);
  if (lease !== undefined && lease !== -1 && !isWholeNumber(lease, 1))
    throw invalid(`${where}.lease`, lease, 'a whole number of milliseconds of at least 1, or -1');
  if (lockAtLeastFor !== undefined && !isWholeNumber(lockAtLeastFor, 0)) {
    const right = 'a whole number of milliseconds of at least 0';
    throw invalid(`${where}.lockAtLeastFor`, lockAtLeastFor, right);
  }
  if (busyStatus !== undefined && !isWholeNumber(busyStatus, 400, 599))
    throw invalid(`${where}.busyStatus`, busyStatus, 'a status from 400 to 599, such as 409');
  parseDuration(retryAfter, `${where}.retryAfter`, 1);
  return { ...given, wait, retryAfter };
}
