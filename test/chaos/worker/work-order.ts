// What a worker process is told to do.
import type { Fencing, Kind, Permits } from '../plan.js';

/** The exit code of a worker that was kept from ending, by something that its clients had left. */
export const STAYED = 9;

/** Servers tell clients where other servers are: how clients get from there to their own proxies, as ioredis takes it. */
export type NatMap = Readonly<Record<string, { readonly host: string; readonly port: number }>>;

/** Where a client finds its servers: behind its own proxies. */
export type Address =
  | { readonly topology: 'single'; readonly url: string }
  | { readonly topology: 'masters'; readonly urls: readonly string[] }
  | {
      readonly topology: 'cluster';
      readonly nodes: readonly Endpoint[];
      readonly natMap: NatMap;
    }
  | {
      readonly topology: 'sentinel';
      readonly name: string;
      readonly sentinels: readonly Endpoint[];
      readonly natMap: NatMap;
    };

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

export interface WorkOrder {
  /** What the names of its clients and callers begin with. */
  readonly name: string;
  readonly seed: number;
  /** The file to which it writes what it does. */
  readonly journal: string;
  /** The folder of the texts of exported holds that pass to another process. */
  readonly post: string;
  readonly kind: Kind;
  readonly locks: readonly string[];
  readonly clients: readonly Address[];
  readonly callersPerClient: number;
  readonly watchdogMs: number;
  readonly isLong?: boolean | undefined;
  readonly commandTimeoutMs: number;
  readonly nodeTimeoutMs: number;
  /** undefined: locks give no tokens. */
  readonly fencing: Fencing | undefined;
  /** Of semaphores. */
  readonly permits: Permits | undefined;
  /** Of locks that are kept between holds. */
  readonly keepMs: number | undefined;
  /** Where the documents are that fenced locks guard. */
  readonly documents: string | undefined;
  /** Where the masters are, past all proxies, of Redlocks that give tokens. */
  readonly witnesses: readonly string[] | undefined;
}
