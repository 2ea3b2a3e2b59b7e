// Values that do their work only after the function that returned them: under a lock, that would be after its release.

import { types } from 'node:util';

/** A value whose work is still to come. */
export interface LateWork {
  /** What it is, in words. */
  readonly what: string;
  /** Ends it, so that it does no work and keeps nothing open; whether that fails does not matter. */
  readonly end: () => void;
}

type Method = 'pipe' | 'on' | 'subscribe' | Ending;
type Ending = 'destroy' | 'cancel' | 'abort' | 'return';

/**
 * undefined: the value is any other one, like most. Streams are known by their methods, since polyfills have other classes. A Proxy may
 * claim to have any method, and is passed on.
 */
export function lateWorkOf(value: unknown): LateWork | undefined {
  if (!isObject(value)) return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === Array.prototype || types.isProxy(value))
    return undefined;
  if (types.isGeneratorObject(value)) return endedBy('return', value, 'a generator object');
  try {
    return streamAtWork(value);
  } catch {
    return undefined; // a getter of it threw
  }
}

function streamAtWork(value: object): LateWork | undefined {
  // (Web streams say what they are, those of polyfills too; other classes may have methods of the same names.)
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (tag === 'ReadableStream') return endedBy('cancel', value, 'a ReadableStream');
  if (tag === 'WritableStream') return endedBy('abort', value, 'a WritableStream');
  if (tag === 'TransformStream')
    return endedBy('abort', (value as TransformStream).writable, 'a TransformStream');
  if (!has(value, 'pipe')) return undefined;
  if (has(value, 'subscribe')) return { what: 'an Observable', end: () => undefined };
  return has(value, 'on') && isAtWork(value) ? endedBy('destroy', value, 'a stream') : undefined;
}

function endedBy(ending: Ending, value: object, what: string): LateWork {
  const end = async (): Promise<void> => {
    // A stream that is destroyed may emit an error, which would end the process if nobody listened.
    (value as Partial<NodeJS.EventEmitter>).on?.('error', () => undefined);
    await (value as Partial<Record<Ending, () => unknown>>)[ending]?.();
  };
  return { what, end: () => void end().catch(() => undefined) };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function has(value: object, method: Method): boolean {
  return typeof (value as Partial<Record<Method, unknown>>)[method] === 'function';
}

/**
 * Whether a Node.js stream is still to be read, or a source is piped into it. What can also be written to is a connection, or a place to write
 * to that methods of it have returned: the response of a server by `res.json()`, a logger by `logger.info()`.
 */
function isAtWork(stream: {
  readonly destroyed?: boolean;
  readonly readableEnded?: boolean;
  readonly writableEnded?: boolean;
  readonly writable?: boolean;
  /** undefined: it cannot be read. */
  readonly readableFlowing?: boolean | null;
  /** Of an HTTP message, whose connection is not ours to end. */
  readonly httpVersion?: string;
  listenerCount?(event: string): number;
}): boolean {
  const { destroyed, readableEnded, writableEnded, writable, readableFlowing } = stream;
  if ([destroyed, readableEnded, writableEnded].includes(true)) return false;
  if (stream.httpVersion !== undefined) return false;
  const hasSource = (stream.listenerCount?.('unpipe') ?? 0) > 0;
  const isOnlyRead = readableFlowing !== undefined && writable === undefined;
  return hasSource || isOnlyRead;
}
