// What ioredis says of attempts to connect that fail: one error for each, with the reason that the nodes or Sentinels gave, if any did.

import type { Cluster } from 'ioredis';
import { failureKind, isDenial, isMereLoss, RefusedError } from '../failure.js';
import { isCluster, NOT_BEGUN } from './clients.js';
import { asFailure } from './failures.js';
import type { Ioredis } from './source.js';

/** What one node of a cluster, or one Sentinel, had to say, and where it is. */
interface Saying {
  readonly error: Error;
  readonly address: string;
}

/** How many sayings are kept at most: one node of a cluster may fail often while the others are well. */
const MOST_SAYINGS = 100;

/** Calls back with each error of a client. */
export function onTrouble(client: Ioredis, listener: (error: Error) => void): void {
  let sayings: Saying[] = [];
  const note = (error: Error, address: string): void => {
    if (sayings.length < MOST_SAYINGS) sayings.push({ error: asFailure(error), address });
  };
  client.on('node error', note);
  client.on('sentinelError', (error: Error) => {
    const [, address = '', reason = error.message] = SENTINEL_ERROR.exec(error.message) ?? [];
    note(new Error(reason), address);
  });
  // What was said in a former attempt, or while the client was ready, does not explain this one. (Both events are needed: an attempt that
  // finds all Sentinels asked fails before ioredis emits "connecting", and one that never had a connection may not emit "close".)
  for (const boundary of ['close', 'connecting']) {
    client.on(boundary, () => {
      sayings = [];
    });
  }
  client.on('error', (error: Error) => {
    const said = sayings;
    sayings = [];
    listener(asFailure(explained(client, error, said)));
  });
  client.on(NOT_BEGUN, (error: Error) => {
    listener(asFailure(error));
  });
}

/** The reason to give for an attempt that ended without an error. */
export function unexplained(client: Ioredis): Error {
  if (isCluster(client) && areNodesUnnamed(client))
    return new Error(
      'the nodes of the cluster do not tell their addresses (cluster-preferred-endpoint-type unknown-endpoint)',
    );
  if (isCluster(client))
    return new Error('the cluster is not up (cluster_state), or CLUSTER INFO is not permitted');
  if (client.options.sentinels)
    return new Error('the server that Sentinel names is not its master, or closed the connection');
  const error = new Error('the server closed the connection before it was ready');
  return Object.assign(error, { code: 'ECONNRESET' });
}

/** ioredis leaves out a node without a host, and keeps to itself which nodes have which slot: none of one that is served, then. */
function areNodesUnnamed(cluster: Cluster): boolean {
  const { slots = [] } = cluster as unknown as { slots?: readonly (readonly string[])[] };
  return slots.some((nodes) => nodes.length === 0);
}

/** ioredis' words: "failed to connect to sentinel 127.0.0.1:26379 because …", "connected to sentinel … successfully, but …". */
const SENTINEL_ERROR = /sentinel (\S+) (?:because|successfully, but) (.*)$/s;

/** What a Sentinel answers about a group that it does not watch: to one question or to another. */
const UNKNOWN_GROUP = /No such master with that name|invalid reply: null/;

function explained(client: Ioredis, error: Error, said: readonly Saying[]): Error {
  if (isCluster(client)) {
    if (!('lastNodeError' in error)) return error; // one with it says only "Failed to refresh slots cache."
    const denial = said.find((one) => failureKind(one.error) === 'denied');
    return denial?.error ?? unreachable('node of the cluster', said, error);
  }
  // As in "All sentinels are unreachable. Retrying from scratch after 44.4ms.": other words each time, and one reason at most.
  if (!error.message.startsWith('All sentinels are unreachable')) return error;
  const reasons = said.map((one) => one.error.message);
  const denial = reasons.find(isDenial);
  if (denial !== undefined) return new RefusedError(`Sentinel: ${denial}`);
  if (reasons.some((reason) => UNKNOWN_GROUP.test(reason))) {
    const { name = '' } = client.options;
    return new RefusedError(`Sentinel knows no group of servers with the name "${name}"`);
  }
  return unreachable('Sentinel', said, error);
}

/** The error of an attempt in which nobody could be asked: why, where that is known, or who was tried. */
function unreachable(what: string, said: readonly Saying[], cause: Error): Error {
  const reason = said.map(({ error }) => error).find((error) => !isMereLoss(error));
  if (reason) return reason;
  // Sorted, since they are tried in another order each time, and the same words must come out.
  const addresses = [...new Set(said.map(({ address }) => address))].sort().join(', ');
  return new Error(`no ${what} can be reached (tried ${addresses})`, { cause });
}
