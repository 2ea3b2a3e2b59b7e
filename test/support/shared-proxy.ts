// A proxy in front of the shared server: the bad network between one client and a server that all others reach.
import { afterEach, beforeEach, inject } from 'vitest';
import { startProxy, type TcpProxy } from './tcp-proxy.js';

export function startSharedProxy(): Promise<TcpProxy> {
  const { hostname, port } = new URL(inject('redisUrl'));
  return startProxy(Number(port), hostname);
}

/** A new one for each test of the file, or of the `describe`, that this is called in; returns the present test's. */
export function proxyPerTest(): () => TcpProxy {
  let proxy: TcpProxy;
  beforeEach(async () => {
    proxy = await startSharedProxy();
  });
  afterEach(async () => {
    await proxy[Symbol.asyncDispose]();
  });
  return () => proxy;
}
