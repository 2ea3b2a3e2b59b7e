// What every driver promises (src/redis/driver.ts), as one suite on real servers. Another driver runs it with its own makers.
import { describe } from 'vitest';
import type { Driver } from '../../src/redis/driver.js';
import { channelTests } from './driver-contract-channels.js';
import { clusterTests } from './driver-contract-cluster.js';
import { commandTests } from './driver-contract-commands.js';
import { connectionTests } from './driver-contract-connections.js';

interface User {
  readonly username: string;
  readonly password: string;
}

export interface DriverKind {
  /** A driver for the server at this URL, `redis://user:password@host:port`. */
  readonly toServer: (url: string) => Driver;
  /** A driver for the cluster that these nodes belong to, as this user. */
  readonly toCluster: (nodes: { host: string; port: number }[], user?: User) => Driver;
}

/** Runs the suite for one driver. */
export function driverContract(name: string, kind: DriverKind): void {
  describe(`the contract of ${name}`, () => {
    commandTests(kind);
    connectionTests(kind);
    channelTests(kind);
    clusterTests(kind);
  });
}
