// A URL of Redis, read the same way for every client library. What is wrong with it is told without its text, which may hold a password.

import { OptionError } from '../api/errors.js';
import { shown } from '../api/shown.js';
import type { Address, Remap } from './port.js';

/** What a URL says. */
export interface RedisUrl {
  readonly address: Address;
  readonly username?: string;
  readonly password?: string;
  readonly database: number;
  readonly isTls: boolean;
  readonly family?: number;
  readonly keyPrefix?: string;
  readonly connectionName?: string;
}

/** The options that may stand behind the "?" of a URL. */
const IN_QUERY = ['username', 'password', 'db', 'family', 'keyPrefix', 'connectionName'];

const ENCODE =
  'in a password "@", "/", "?", "#" and "%" must be percent-encoded, behind the "?" also "&" and "+"';

/**
 * Reads a URL, or a short form of one: a port, `host:port`, the path of a socket.
 *
 * @param what - names the option
 * @throws OptionError it is none of these
 */
export function parseRedisUrl(what: string, text: string): RedisUrl {
  if (text === '')
    throw new OptionError(`${what} is '': it must be a URL such as redis://localhost:6379`);
  if (/^\d+$/.test(text))
    return {
      address: { host: 'localhost', port: wholeNumber(`${what}, a port,`, text, 65_535) },
      database: 0,
      isTls: false,
    };
  if (/^\/(?!\/)/.test(text)) return { address: { path: text }, database: 0, isTls: false };
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'redis' && scheme !== 'rediss')
    throw new OptionError(
      `${what} is a URL that begins with ${scheme}://: it must begin with redis://, or rediss:// for TLS`,
    );
  const url = parse(what, `redis://${text.replace(/^(rediss?:)?\/\//i, '')}`);
  // A "/", "?" or "#" in a password that is not encoded ends the host in a URL: the password's beginning would pass for host and port.
  if (url.hash !== '' || url.pathname.includes('@') || url.search.includes('@'))
    throw new OptionError(`${what} is no URL that can be used: ${ENCODE}`);
  if (scheme === undefined && url.pathname.length > 1)
    throw new OptionError(`${what} has a path but no scheme: it must begin with redis://`);
  if (!/^\/?\d*$/.test(url.pathname))
    throw new OptionError(
      `${what}: the path of the URL must be the number of a database, as in redis://localhost:6379/2`,
    );
  const query = new Map(url.searchParams);
  for (const name of query.keys())
    // The name is not shown, since it may be the rest of a password with an "&" in it.
    if (!IN_QUERY.includes(name))
      throw new OptionError(
        `${what}: behind the "?" of the URL is a name that is none of ${IN_QUERY.join(', ')}; ${ENCODE}`,
      );
  const said = (name: string, inUrl = ''): string | undefined =>
    (inUrl === '' ? query.get(name) : decodeURIComponent(inUrl)) ?? undefined;
  const family = query.get('family');
  return {
    address: {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1') || 'localhost',
      port: url.port === '' ? 6379 : Number(url.port),
    },
    database: wholeNumber(`${what}: its db`, said('db', url.pathname.slice(1)) ?? 0),
    isTls: scheme === 'rediss',
    ...defined({
      username: said('username', url.username),
      password: said('password', url.password),
      family: family === undefined ? undefined : wholeNumber(`${what}: its family`, family, 6),
      keyPrefix: query.get('keyPrefix'),
      connectionName: query.get('connectionName'),
    }),
  };
}

/** Where one server is, as options of a client library say it. */
export interface Place {
  readonly host?: string | null | undefined;
  readonly port?: number | string | null | undefined;
  readonly path?: string | null | undefined;
}

/**
 * Refuses a URL in place of a host, or of the path of a socket: it would be looked up, and the error would tell it, password and all.
 *
 * @throws OptionError
 */
export function addressOf(
  whose: string,
  { host, port, path }: Place = {},
  fallback: { readonly host: string; readonly port: number } = { host: 'localhost', port: 6379 },
): Address {
  if (host && (typeof host !== 'string' || /[/@\s]/.test(host)))
    throw wrong(
      `${whose}host`,
      host,
      'the name or address of a host; a URL is given as it is: { redis: url }',
    );
  if (typeof path === 'string' && /^\/\/|:\/\/|@/.test(path))
    throw new OptionError(
      `${whose}path is a URL, or was made from one that does not begin with redis:// or rediss://: it must be the path of a socket`,
    );
  if (path) return { path };
  return {
    host: host ?? fallback.host,
    port: wholeNumber(`${whose}port`, port ?? fallback.port, 65_535),
  };
}

/**
 * Where the Sentinels are, and the name of their master.
 *
 * @throws OptionError they are not listed, or nothing tells which master to ask for
 */
export function sentinelsIn(
  whose: string,
  listName: string,
  sentinels: unknown,
  name: unknown,
): { readonly sentinels: Address[]; readonly name: string } {
  if (!Array.isArray(sentinels) || sentinels.length === 0)
    throw wrong(
      whose + listName,
      sentinels,
      'an array of at least one Sentinel, as in [{ host, port }]',
    );
  if (typeof name !== 'string' || name === '')
    throw wrong(
      `${whose}name`,
      name,
      'the name of the master that the Sentinels watch, such as "mymaster"',
    );
  const addresses = sentinels.map((each: unknown, index) => {
    if (typeof each !== 'object' || each === null)
      throw wrong(
        `${whose}${listName}[${String(index)}]`,
        each,
        'where a Sentinel is: { host, port }',
      );
    return addressOf(`${whose}Sentinel's `, each, { host: 'localhost', port: 26_379 });
  });
  return { sentinels: addresses, name };
}

/** The locks of a cluster are in database 0: two clients in different ones could both hold a lock. (Valkey 9 may have several.) */
export function checkClusterDatabase(what: string, db: unknown): void {
  if (db === undefined || db === null || Number(db) === 0) return;
  throw new OptionError(
    `option "redis": the database of ${what} is ${shown(db)}: it must be 0, or left out: the locks of a cluster are in its database 0`,
  );
}

/** A number, or its digits: client libraries take both. */
export function wholeNumber(what: string, value: unknown, largest?: number): number {
  const isDigits = typeof value === 'string' && /^\d+$/.test(value);
  const number = isDigits ? Number(value) : value;
  if (
    Number.isInteger(number) &&
    (number as number) >= 0 &&
    (number as number) <= (largest ?? Infinity)
  )
    return number as number;
  const limit = largest === undefined ? '' : ` up to ${String(largest)}`;
  throw wrong(what, value, `a whole number${limit}`);
}

/** Without what is undefined, or null, which some take for "none". */
export function defined<T extends object>(
  options: T,
): { [Name in keyof T]?: NonNullable<T[Name]> } {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined && value !== null),
  ) as { [Name in keyof T]?: NonNullable<T[Name]> };
}

/** The others, read now if they have getters. */
export function without(options: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(options).filter(([name]) => !names.includes(name)));
}

function parse(what: string, text: string): URL {
  try {
    const url = new URL(text);
    decodeURIComponent(url.username + url.password);
    return url;
  } catch {
    throw new OptionError(
      `${what} is no URL that can be used, such as redis://user:password@localhost:6379: ${ENCODE}`,
    );
  }
}

function wrong(what: string, value: unknown, right: string): OptionError {
  return new OptionError(`${what} is ${shown(value)}: it must be ${right}`);
}

/** A user's map of addresses, or function for one. One that throws says nothing: in the middle of an answer nobody could handle that. */
export function remapOf(map: unknown): Remap {
  const addresses = map as Readonly<Record<string, ReturnType<Remap>>> | null | undefined;
  return (announced) => {
    try {
      return typeof map === 'function'
        ? ((map as Remap)(announced) ?? undefined)
        : addresses?.[announced];
    } catch {
      return undefined;
    }
  };
}
