// Values that do their work only after the function that returned them: under a lock, that would be after its release.

import { types } from 'node:util';

/** A value whose work is still to come. */
export interface LateWork {
  /** What it is, in words. */
  readonly what: string;
  /** Ends it, so that it does no work and keeps nothing open; whether that fails does not matter. */
  readonly end: () => void;
}

type Method = 'pipe' | 'on' | 'subscribe' | 'getReader' | 'getWriter' | Ending;
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
  if (has(value, 'getReader')) return endedBy('cancel', value, 'a ReadableStream');
  if (has(value, 'getWriter')) return endedBy('abort', value, 'a WritableStream');
  const { readable, writable } = value as { readable?: unknown; writable?: unknown };
  if (isObject(readable) && isObject(writable) && has(readable, 'getReader'))
    return endedBy('abort', writable, 'a TransformStream');
  if (!has(value, 'pipe')) return undefined;
  if (has(value, 'subscribe')) return { what: 'an Observable', end: () => undefined };
  return has(value, 'on') && isAtWork(value) ? endedBy('destroy', value, 'a stream') : undefined;
}

function endedBy(ending: Ending, value: object, what: string): LateWork {
  const end = async (): Promise<void> => {
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
 * Whether a Node.js stream is still to be read, or a source is piped into it. Any other stream is only a place to write to, which methods of
 * it may have returned: the response of a server by `res.json()`, a logger by `logger.info()`.
 */
function isAtWork(stream: {
  readonly destroyed?: boolean;
  readonly readableEnded?: boolean;
  readonly writableEnded?: boolean;
  readonly writable?: boolean;
  /** null: nobody reads it yet; undefined: it cannot be read. */
  readonly readableFlowing?: boolean | null;
  listenerCount?(event: string): number;
}): boolean {
  const { destroyed, readableEnded, writableEnded, writable, readableFlowing } = stream;
  if ([destroyed, readableEnded, writableEnded].includes(true)) return false;
  const hasSource = (stream.listenerCount?.('unpipe') ?? 0) > 0;
  const isOnlyRead = readableFlowing !== undefined && writable === undefined;
  return hasSource || isOnlyRead || readableFlowing === null;
}
