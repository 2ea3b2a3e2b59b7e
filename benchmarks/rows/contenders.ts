// Who takes part in a row, and how its worker processes are started.

import { PEERS } from '../peers/catalogue.js';
import type { Peer } from '../peers/peer.js';
import { WorkerProcess } from '../worker/worker-process.js';
import type { Effort } from './row.js';

export interface Contender extends Omit<Peer, 'connect'> {
  readonly runtime: 'node' | 'java';
  /** `nodeOptions` are for Node.js alone. */
  start(...nodeOptions: string[]): WorkerProcess;
}

/** In the order of the catalogue. */
const CONTENDERS: readonly Contender[] = PEERS.map((peer) => ({
  ...peer,
  runtime: 'node',
  start: (...nodeOptions) => WorkerProcess.node(...nodeOptions),
}));

/** Those of which more than one may be inside. */
export function semaphores(): Contender[] {
  return CONTENDERS.filter(({ id, isShared }) => isShared && id !== 'holdfast-read-write');
}

export function contender(id: string): Contender {
  return CONTENDERS.find((known) => known.id === id)!;
}

/** The locks of npm, ours among them; the tuned ones too. */
export function npmLocks(): Contender[] {
  const others = CONTENDERS.filter(
    ({ id, role, isShared }) => role === 'competitor' && !isShared && id !== 'redisson-like',
  );
  return [contender('holdfast'), contender('holdfast-fair'), ...others];
}

/** Those for a row in which somebody waits. Whoever polls is there only as it waits best when there is little time. */
export function waitingLocks(effort: Effort): Contender[] {
  return npmLocks().filter(
    ({ role, tuned }) => effort !== 'quick' || role === 'ours' || tuned !== undefined,
  );
}
