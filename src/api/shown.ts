// What a caller gave, in a few words for an error message: what it is, and never a password that may be in it.

import { inspect } from 'node:util';

/** A URL of any kind: what follows the scheme may hold a password; without a scheme, what comes before an "@". */
const URL_SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;

/** Numbers, names and the like as they are written; of anything else only what it is. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return inspect(withoutSecrets(value));
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return inspect(value);
  if (Array.isArray(value)) return `an array of ${String(value.length)}`;
  if (isPlainObject(value)) return Object.keys(value).length === 0 ? '{}' : 'an object';
  if ('then' in value) return 'a Promise (was an await forgotten?)';
  const { name } = (value as { constructor?: { name?: unknown } }).constructor ?? {};
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? `an instance of ${name}`
    : 'an object that inherits from another';
}

/** An object literal, of whatever realm: no instance of a class, no array, no Promise, no Date. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function withoutSecrets(text: string): string {
  const scheme = URL_SCHEME.exec(text)?.[0];
  if (scheme !== undefined) return `${scheme}…`;
  const hostAt = text.lastIndexOf('@');
  return hostAt < 0 ? text : `…${text.slice(hostAt)}`;
}
