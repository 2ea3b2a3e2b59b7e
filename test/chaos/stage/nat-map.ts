// Servers tell clients where other servers are; this is how clients get from there to their own proxies.
import type { TcpProxy } from '../../support/tcp-proxy.js';
import type { StageServer } from './server.js';

/** As ioredis takes it. */
export type NatMap = Readonly<Record<string, { readonly host: string; readonly port: number }>>;

/** `links`: one for each server, in the same order. */
export function natMap(servers: readonly StageServer[], links: readonly TcpProxy[]): NatMap {
  return Object.fromEntries(
    servers.map(({ redis }, index) => {
      const { host, port } = links[index]!;
      return [`${redis.host}:${redis.port}`, { host, port }];
    }),
  );
}
