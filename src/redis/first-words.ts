// What a server says to whoever connects before it is asked anything: that it takes no more clients. ioredis writes at once, to a
// connection that is closed by then, and so never reads it.

import { once } from 'node:events';
import { connect } from 'node:net';
import { isCluster, type RedisClient } from './clients.js';

/** For how long to listen. A server that lets us in says nothing. */
const LIMIT_MS = 500;

/** Connects to the same server, and only listens; undefined: it says nothing, or cannot be asked like this. */
export async function firstWords(
  client: RedisClient,
  signal: AbortSignal,
): Promise<Error | undefined> {
  if (isCluster(client)) return undefined;
  const { host = 'localhost', port = 6379, path, tls, sentinels } = client.options;
  if (tls || sentinels || signal.aborted) return undefined;
  const socket = path ? connect(path) : connect(port, host);
  const silent = new AbortController();
  const hangUp = (): void => {
    silent.abort();
  };
  const timer = setTimeout(hangUp, LIMIT_MS);
  signal.addEventListener('abort', hangUp);
  try {
    socket.once('end', hangUp);
    const [words] = (await once(socket, 'data', { signal: silent.signal })) as [Buffer];
    const [, message] = /^-([^\r]+)\r\n/.exec(words.toString()) ?? [];
    return message === undefined ? undefined : replyError(message);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', hangUp);
    socket.on('error', () => undefined).destroy();
  }
}

function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}
