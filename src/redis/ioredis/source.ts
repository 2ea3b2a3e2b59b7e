// Where Redis is, as the user said it: checked before anything connects, and made into a client from which ours are copied. What is wrong
// with it is told without its text, which may hold a password.

import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { OptionError } from '../../api/errors.js';
import { isPlainObject, shown } from '../../api/shown.js';
import { checkDatabases } from './cluster-database.js';
import { followCredentials } from './credentials.js';
import { FOREIGN_OPTIONS, IOREDIS_OPTIONS } from './ioredis-options.js';
import { library } from './library.js';

/**
 * Where Redis is: a URL, ioredis options, or an instance, which is duplicated and stays the user's.
 *
 * @group The client
 */
export type RedisSource = string | RedisOptions | Redis | Cluster;

/** A client of ioredis, whether the user's or ours. */
export type Ioredis = Redis | Cluster;

/** The options in the form that ioredis 6 wants under exact optional property types. */
type TemplateOptions = RedisOptions & { replyMapping?: never };

const RIGHT =
  'it must be a URL such as redis://localhost:6379, ioredis options such as { host, port }, or a Redis or Cluster instance of ioredis';

/** The options that may stand behind the "?" of a URL: ioredis takes all values there as texts, which others must not be. */
const IN_TEXTS = ['username', 'password', 'db', 'family', 'keyPrefix', 'connectionName'];

const ENCODE =
  'in a password "@", "/", "?", "#" and "%" must be percent-encoded, behind the "?" also "&" and "+"';

/** The user's instance; or one that never connects, made from a URL or options. */
export function templateOf(source: unknown): Ioredis {
  if (typeof source === 'string') return fromText(source);
  if (isClient(source)) {
    if (source.isCluster) checkStartupNodes(source as Cluster);
    else checkInstance(source as Redis);
    return source;
  }
  if (isPlainObject(source)) return fromOptions(source);
  const isOfNodeRedis = typeof source === 'object' && source !== null && 'isOpen' in source;
  const what = isOfNodeRedis ? 'a client of node-redis (npm "redis")' : shown(source);
  throw new OptionError(`option "redis" is ${what}: ${RIGHT}`);
}

/** A client is known by its shape, since ioredis may be installed more than once, and has forks. (Other clients have no `status`.) */
function isClient(source: unknown): source is Ioredis {
  if (typeof source !== 'object' || source === null) return false;
  const { duplicate, options, status } = source as Partial<Ioredis>;
  return typeof duplicate === 'function' && typeof options === 'object' && status !== undefined;
}

function fromText(text: string): Redis {
  checkText('option "redis"', text);
  // ioredis knows "rediss://" in small letters only, and would connect without TLS.
  const url = text.replace(/^rediss?:/i, (scheme) => scheme.toLowerCase());
  const query = new URLSearchParams(/\?(.*)$/.exec(text)?.[1]);
  for (const [name, value] of query) {
    checkNameInQuery(name);
    if (!IN_TEXTS.includes(name))
      throw new OptionError(`option "redis": ${name} cannot be given in a URL: give options`);
    if (name === 'db') checkDigits('db', value);
  }
  return newTemplate(() => new library.Redis(url, { lazyConnect: true }));
}

function fromOptions(options: Record<string, unknown>): Redis {
  checkNames(Object.keys(options));
  const given = options as TemplateOptions;
  checkPlace('option "redis": its ', given);
  const template = newTemplate(() => new library.Redis({ ...given, lazyConnect: true }));
  followCredentials(template.options, () => given);
  checkDigits('port', given.port);
  checkDigits('db', given.db);
  return template;
}

function checkNames(names: readonly string[]): void {
  for (const name of names) {
    if (isOfIoredis(name)) continue;
    const instead = meantBy(name);
    const hint = instead === undefined ? '' : ` (${instead})`;
    throw new OptionError(
      `option "redis" has no "${name}"${hint}: ioredis knows host, port, path, username, password, db, tls, sentinels, name and others`,
    );
  }
}

/** An unknown name is not shown, since it may be the rest of a password with a "?" in it. */
function checkNameInQuery(name: string): void {
  if (isOfIoredis(name)) return;
  if (meantBy(name) !== undefined) checkNames([name]);
  throw new OptionError(
    `option "redis": behind the "?" of the URL is a name that is none of ${IN_TEXTS.join(', ')}; ${ENCODE}`,
  );
}

function isOfIoredis(name: string): boolean {
  return (IOREDIS_OPTIONS as readonly string[]).includes(name);
}

function meantBy(name: string): string | undefined {
  return Object.hasOwn(FOREIGN_OPTIONS, name) ? FOREIGN_OPTIONS[name] : undefined;
}

/** Refuses a text that is no number: ioredis would read the digits at its beginning, whatever comes behind them. */
function checkDigits(name: string, value: unknown): void {
  if (typeof value === 'string' && !/^\d+$/.test(value))
    throw wrong(`option "redis": its ${name}`, value, 'a number');
}

/** Our connections are made from the options of an instance. The database that its `select()` chose is not among them, and may change. */
function checkInstance(instance: Redis): void {
  checkPlace('option "redis": the instance’s ', instance.options);
  const { condition, prevCondition, options } = instance as unknown as Selecting;
  const selected = (prevCondition ?? condition)?.select;
  if (selected === undefined || selected === (options.db ?? 0)) return;
  throw new OptionError(
    `option "redis" is an instance that has selected database ${String(selected)}, and its options name ${String(options.db ?? 0)}: give it "db" in its options`,
  );
}

/** What ioredis knows of its connection; while there is none, `prevCondition` is that of the one before. */
interface Selecting {
  readonly condition?: { readonly select?: number } | null;
  readonly prevCondition?: { readonly select?: number } | null;
  readonly options: RedisOptions;
}

/** Makes the instance, and tells what ioredis itself refuses. Its error does not become a cause, since it may carry the text. */
function newTemplate(create: () => Redis): Redis {
  let template: Redis;
  try {
    template = create();
  } catch (error) {
    throw new OptionError(`option "redis" cannot be used: ${(error as Error).message}`);
  }
  const { port, db } = template.options;
  if (!isWhole(port, 65_535)) throw wrong('option "redis": its port', port, 'a number up to 65535');
  if (!isWhole(db, Infinity)) throw wrong('option "redis": its db', db, 'the number of a database');
  return template;
}

/** A text is right if it is a URL, or one of ioredis' short forms: a port, `host:port`, the path of a socket. */
function checkText(what: string, text: string): void {
  if (text === '') throw new OptionError(`${what} is '': ${RIGHT}`);
  if (/^\d+$/.test(text) || /^\/(?!\/)/.test(text)) return;
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1];
  if (scheme !== undefined && !/^rediss?$/i.test(scheme)) {
    throw new OptionError(
      `${what} is a URL that begins with ${scheme}://: it must begin with redis://, or rediss:// for TLS`,
    );
  }
  const url = parse(what, `redis://${text.replace(/^(rediss?:)?\/\//i, '')}`);
  // A "/", "?" or "#" in a password that is not encoded ends the host in a URL: the password's beginning would pass for host and port.
  if (url.hash !== '' || url.pathname.includes('@') || url.search.includes('@'))
    throw new OptionError(`${what} is no URL that can be used: ${ENCODE}`);
  if (scheme === undefined && url.pathname.length > 1)
    throw new OptionError(`${what} has a path but no scheme: it must begin with redis://`);
  if (!/^\/?\d*$/.test(url.pathname)) {
    throw new OptionError(
      `${what}: the path of the URL must be the number of a database, as in redis://localhost:6379/2`,
    );
  }
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

/** Refuses a URL in place of a host: it would be looked up by DNS, and the error would tell it, password and all. */
function checkPlace(what: string, { host, path, sentinels }: RedisOptions): void {
  checkHost(`${what}host`, host);
  if (typeof path === 'string' && /^\/\/|:\/\/|@/.test(path)) {
    throw new OptionError(
      `${what}path is a URL, or was made from one that does not begin with redis:// or rediss://: it must be the path of a socket`,
    );
  }
  for (const sentinel of sentinels ?? []) checkHost(`${what}sentinel's host`, sentinel.host);
}

function checkHost(what: string, host: unknown): void {
  // (ioredis takes null for its default.)
  if (host === undefined || host === null) return;
  if (typeof host === 'string' && !/[/@\s]/.test(host)) return;
  throw wrong(what, host, 'the name or address of a host; a URL is given as it is: { redis: url }');
}

/** Checks the start-up nodes of a cluster: ioredis has no error for those that it cannot read. */
function checkStartupNodes(cluster: Cluster): void {
  const what = 'option "redis": a start-up node of the cluster';
  const { startupNodes } = cluster as unknown as { startupNodes?: unknown };
  if (!Array.isArray(startupNodes) || startupNodes.length === 0)
    throw new OptionError('option "redis" is a Cluster without start-up nodes: it must have one');
  for (const node of startupNodes as unknown[]) {
    if (typeof node === 'string') checkText(what, node);
    else if (typeof node === 'object' && node) checkPlace(`${what}: its `, node);
  }
  checkDatabases(cluster);
}

function isWhole(value: unknown, largest: number): boolean {
  if (value === undefined || value === null) return true;
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= largest;
}

function wrong(what: string, value: unknown, right: string): OptionError {
  return new OptionError(`${what} is ${shown(value)}: it must be ${right}`);
}
