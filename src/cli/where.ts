// Where Redis is, by the options of the command line: a URL; the Sentinels that know its master; the certificates for TLS.

import { readFileSync } from 'node:fs';
import { usesNodeRedis, type RedisSource } from '../redis/installed.js';
import { parseRedisUrl } from '../redis/redis-url.js';
import { CommandError } from './failure.js';

export type Values = Readonly<Record<string, string | boolean | undefined>>;

export const WHERE_OPTIONS = {
  url: { type: 'string', help: 'where Redis is; else $HOLDFAST_REDIS_URL, else redis://localhost' },
  sentinel: {
    type: 'string',
    help: 'host:port,… of Sentinels, which say where the master is; user, password, database and TLS are those of the URL',
  },
  name: { type: 'string', help: 'of the master that the Sentinels watch (mymaster)' },
  ca: { type: 'string', help: 'a file: the CA to trust; connects by TLS' },
  cert: { type: 'string', help: 'a file: the own certificate, for mutual TLS' },
  key: { type: 'string', help: 'a file: the key of that certificate' },
} as const;

/** @throws CommandError the options do not go together, or a file cannot be read */
export function sourceOf(values: Values): RedisSource {
  const text = urlOf(values);
  const files = tlsOf(values);
  const { sentinel, name = 'mymaster' } = values;
  if (sentinel === undefined && values['name'] !== undefined)
    throw new CommandError('--name is that of a master that Sentinels watch: give --sentinel, too');
  if (sentinel === undefined && !files) return text;
  const { address, username, password, database, isTls, ...others } = parseRedisUrl('--url', text);
  const tls = files ?? (isTls ? {} : undefined);
  const sentinels = sentinel === undefined ? undefined : addressesIn(String(sentinel));
  if (!usesNodeRedis()) {
    const ofAll = { ...others, username, password, db: database, tls };
    if (!sentinels) return { ...ofAll, ...address };
    return { ...ofAll, sentinels, name, enableTLSForSentinelMode: true, sentinelTLS: tls };
  }
  const { keyPrefix, connectionName, family } = others;
  const socket = { family, ...(tls && { tls: true, ...tls }) };
  const ofNode = { username, password, database, name: connectionName };
  if (!sentinels) return { ...ofNode, keyPrefix, socket: { ...socket, ...address } };
  return {
    ...{ name, keyPrefix, sentinelRootNodes: sentinels },
    nodeClientOptions: { ...ofNode, socket },
    sentinelClientOptions: { socket },
  };
}

function urlOf({ url }: Values): string {
  if (typeof url === 'string') return url;
  const { HOLDFAST_REDIS_URL: given } = process.env;
  return given !== undefined && given !== '' ? given : 'redis://localhost:6379';
}

function addressesIn(list: string): { host: string; port: number }[] {
  return list.split(',').map((each) => {
    const [, host, port = '26379'] = /^(\[[^\]]+\]|[^:@/\s]+)(?::(\d+))?$/.exec(each.trim()) ?? [];
    if (host === undefined)
      throw new CommandError(
        '--sentinel must be host:port of each Sentinel, with commas between them',
      );
    return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
  });
}

function tlsOf(values: Values): Partial<Record<'ca' | 'cert' | 'key', Buffer>> | undefined {
  const files = (['ca', 'cert', 'key'] as const).filter((name) => values[name] !== undefined);
  if (files.length === 0) return undefined;
  if (files.includes('cert') !== files.includes('key'))
    throw new CommandError('--cert and --key go together: give both');
  return Object.fromEntries(files.map((name) => [name, contentOf(name, String(values[name]))]));
}

function contentOf(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    throw new CommandError(`--${name} is "${path}", which cannot be read: ${code}`);
  }
}
