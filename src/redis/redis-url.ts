// Reads where a Redis is, the same way for every client library. No error repeats the text, which may hold a password.

import { OptionError } from '../api/errors.js';
import { shown } from '../api/options.js';
import type { Address, Library, Purpose, Remap } from './port.js';

/** Where a Redis is, and the options for each connection as they are now, since credentials expire. */
export interface Given<Options> extends Omit<Library, 'open'> {
  readonly optionsFor: (address: Address, purpose: Purpose) => Options;
}

/** The parts of a URL. */
export interface RedisUrl {
  readonly address: Address;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly database: number;
  readonly isTls: boolean;
  readonly family?: number | undefined;
  readonly keyPrefix?: string | undefined;
  readonly connectionName?: string | undefined;
}

/** The options that may stand behind the "?" of a URL. */
const IN_QUERY = ['username', 'password', 'db', 'family', 'keyPrefix', 'connectionName'];

/**
 * Reads a URL, or a short form of one: a port, `host:port`, the path of a socket.
 *
 * @param what - names the option
 * @throws OptionError it is none of these
 */
export function parseRedisUrl(what: string, text: string): RedisUrl {
  if (/^\/(?!\/)/.test(text)) return { address: { path: text }, database: 0, isTls: false };
  const url = urlOf(/^\d+$/.test(text) ? `localhost:${text}` : text);
  const query = Object.fromEntries<string | undefined>(url?.searchParams ?? []);
  if (!url || Object.keys(query).some((name) => !IN_QUERY.includes(name)))
    throw new OptionError(
      `${what} is no URL that can be used: it must be like redis://user:password@localhost:6379/0, or rediss:// for TLS (valkey:// and valkeys:// are the same); behind a "?" may stand ${IN_QUERY.join(', ')}; in a password "@", "/", "?", "#", "%", "&" and "+" must be percent-encoded`,
    );
  const { username, password, db, family, ...named } = query;
  return {
    address: {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1') || 'localhost',
      port: Number(url.port || 6379),
    },
    database: wholeNumber(`${what}: its db`, url.pathname.slice(1) || (db ?? 0)),
    isTls: /^(redis|valkey)s:/i.test(text),
    username: decodeURIComponent(url.username) || username,
    password: decodeURIComponent(url.password) || password,
    family: family === undefined ? undefined : Number(family),
    ...named,
  };
}

function urlOf(text: string): URL | undefined {
  try {
    const url = new URL(`redis://${text.replace(/^((redis|valkey)s?:)?\/\//i, '')}`);
    decodeURIComponent(url.username + url.password);
    // An unencoded "/", "?" or "#" in a password ends the host: the beginning of the password would pass for host and port.
    const isWhole = /^\/?\d*$/.test(url.pathname) && !url.search.includes('@') && url.hash === '';
    return isWhole && text !== '' ? url : undefined;
  } catch {
    return undefined;
  }
}

// What is misspelt, or missing, in plain options. A client library ignores names that it does not know, and connects to localhost, or to
// another database, where others hold the same locks.

/** The names of one library's options, and of what others call them: by the wrong name, the right one. */
export interface KnownNames {
  readonly names: readonly string[];
  readonly instead: Readonly<Record<string, string>>;
}

export function knownNames(names: string, instead: Record<string, string>): KnownNames {
  return { names: names.trim().split(/\s+/), instead };
}

/**
 * Refuses a name that is probably meant to be a known one. Other names that are not known pass: libraries have more options than they document.
 *
 * @param whose - what the options are, in words such as `option "redis"`
 * @throws OptionError
 */
export function checkNames(whose: string, given: object, { names, instead }: KnownNames): void {
  for (const name of Object.keys(given)) {
    if (names.includes(name)) continue;
    const meant = instead[name] ?? names.find((known) => isMisspelt(name, known));
    if (meant !== undefined)
      throw new OptionError(`${whose} has no "${name}", but "${meant}": is that meant?`);
  }
}

/** @throws OptionError the options have no address; the library would connect to localhost */
export function checkAddress(whose: string, given: object, names: readonly string[]): void {
  const values = given as Readonly<Record<string, unknown>>;
  const isGiven = (name: string): boolean => (values[name] ?? '') !== '';
  const empty = names.find((name) => name in values && !isGiven(name));
  // A port alone is one of localhost, unless the host was meant to be said (ioredis itself sets it to null).
  const isMissing = empty !== undefined && values[empty] !== null;
  if (names.some((name) => isGiven(name) && (name !== 'port' || !isMissing))) return;
  const said =
    empty === undefined
      ? 'does not say where Redis is'
      : `has a "${empty}" that is ${shown(values[empty])} (is an environment variable missing?)`;
  throw new OptionError(`${whose} ${said}: it must have ${names.join(', ')}, or several of them`);
}

/** Whether a name is another one, but for one letter, or two if it is long: swapped, missing, added, or another. */
function isMisspelt(name: string, known: string): boolean {
  const most = known.length < 3 ? 0 : known.length < 6 ? 1 : 2;
  return editDistance(name.toLowerCase(), known.toLowerCase()) <= most;
}

/** The optimal string alignment distance (https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance). */
function editDistance(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const at = (up: number, left: number): number =>
        (left > j ? Infinity : (up === 0 ? row : rows[i - up])?.[j - left]) ?? Infinity;
      const isSame = from[i - 1] === to[j - 1];
      const isSwapped = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwapped && i > 1 && j > 1 ? at(2, 2) + 1 : Infinity;
      row.push(Math.min(at(1, 0) + 1, at(0, 1) + 1, at(1, 1) + Number(!isSame), swapped));
    }
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? Infinity;
}

/** Where one server is, by the options of a client library. */
export interface Place {
  readonly host?: string | null | undefined;
  readonly port?: number | string | null | undefined;
  readonly path?: string | null | undefined;
}

const PLACE_NAMES = knownNames('host port path family', { hostname: 'host', address: 'host' });

/**
 * Refuses a URL in place of a host or a socket path: it would be looked up, and the error would show it, with its password.
 *
 * @throws OptionError
 */
export function addressOf(whose: string, { host, port, path }: Place = {}): Address {
  if ([host, path].some((text) => /^\/\/|:\/\/|@/.test(text ?? '')))
    throw new OptionError(
      `${whose}host or path is a URL, or was made from one that does not begin with redis://, rediss://, valkey:// or valkeys://: a URL is given as it is, { redis: url }`,
    );
  if (path) return { path };
  return { host: host ?? 'localhost', port: wholeNumber(`${whose}port`, port ?? 6379) };
}

/**
 * Where the Sentinels are, and the name of their master.
 *
 * @throws OptionError they are not listed, or no master name is given
 */
export function sentinelsIn(
  whose: string,
  listName: string,
  list: unknown,
  name: unknown,
): { readonly sentinels: Address[]; readonly name: string } {
  const places = Array.isArray(list) ? (list as (Place | null)[]) : [];
  const isListed = places.length > 0 && places.every((each) => typeof each === 'object');
  if (!isListed || typeof name !== 'string' || name === '')
    throw new OptionError(
      `${whose}${listName} must be where the Sentinels are, [{ host, port }], and its name that of the master that they watch, such as "mymaster"`,
    );
  const sentinels = places.map((place) => {
    const each = place ?? {};
    checkNames('option "redis": a Sentinel', each, PLACE_NAMES);
    checkAddress('option "redis": a Sentinel', each, ['host', 'port', 'path']);
    return addressOf(`${whose}Sentinel's `, { ...each, port: each.port ?? 26_379 });
  });
  return { sentinels, name };
}

/** The locks of a cluster are in database 0: two clients in different databases could both hold a lock. (Valkey 9 may have several.) */
export function checkClusterDatabase(what: string, db: unknown): void {
  if (Number(db ?? 0) === 0) return;
  throw new OptionError(
    `option "redis": the database of ${what} is ${shown(db)}: it must be 0, or left out: the locks of a cluster are in its database 0`,
  );
}

/** A number, or its digits: client libraries take both. */
export function wholeNumber(what: string, value: unknown): number {
  if (/^\d+$/.test(String(value))) return Number(value);
  throw new OptionError(`${what} is ${shown(value)}: it must be a whole number`);
}

/**
 * A user's address map, or a function for one. If it throws, the address stays as it is: in the middle of an answer nothing could handle
 * that.
 */
export function remapOf(map: unknown): Remap {
  const addresses = map as Readonly<Record<string, ReturnType<Remap>>> | null | undefined;
  return (announced) => {
    try {
      const isFunction = typeof map === 'function';
      return (isFunction ? (map as Remap)(announced) : addresses?.[announced]) ?? undefined;
    } catch {
      return undefined;
    }
  };
}
