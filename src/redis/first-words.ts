// What a server says on a new connection before it is asked anything: that it takes no more clients. A client library may never read that,
// since it writes at once, to a connection that the server has closed by then.

import { once } from 'node:events';
import { connect } from 'node:net';
import type { Endpoint } from './driver.js';
import { replyError } from './failure.js';

/** For how long to listen. A server that lets us in says nothing. */
const LIMIT_MS = 500;

/** Connects to the server and only listens. Resolves to the error that the server says, or undefined if it says none. */
export async function firstWords(
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<Error | undefined> {
  if (signal.aborted) return undefined;
  const socket = connect(endpoint);
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
