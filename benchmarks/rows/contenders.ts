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
export function semaphores(effort: Effort): Contender[] {
  return CONTENDERS.filter(
    ({ id, role, isShared, tuned }) =>
      isShared && id !== 'holdfast-read-write' && (effort !== 'quick' || role === 'ours' || tuned),
  );
}

export function contender(id: string): Contender {
  return CONTENDERS.find((known) => known.id === id)!;
}

/** Who stands for all of npm in a quick run where nobody waits: the best known, and the best of those that poll and that are told. */
const QUICK = ['redlock', 'redis-semaphore', 'node-redisson'];

/** Where somebody waits, each as it waits best. redlock gets stuck there, which takes a second each time. */
const QUICK_WAITING = ['redis-semaphore-tuned', 'node-redisson-streams'];

/** The locks of npm, ours among them; the tuned ones too. */
export function npmLocks(effort: Effort): Contender[] {
  if (effort === 'quick') return ['holdfast', ...QUICK].map(contender);
  const others = CONTENDERS.filter(
    ({ id, role, isShared }) => role === 'competitor' && !isShared && id !== 'redisson-like',
  );
  return [contender('holdfast'), contender('holdfast-fair'), ...others];
}

/** Those for a row in which somebody waits. */
export function waitingLocks(effort: Effort): Contender[] {
  if (effort !== 'quick') return npmLocks(effort);
  return ['holdfast', 'holdfast-fair', ...QUICK_WAITING].map(contender);
}
