// Not enough masters answered: tried again until the wait is over, then told as a QuorumError.

import { QuorumError } from '../../api/errors.js';
import type { NodeAnswer } from '../../api/node-answer.js';
import { Undecided } from '../../core/undecided.js';

export class NoQuorum extends Undecided {
  override readonly told: QuorumError;
  override readonly mayHaveRun: boolean;

  /**
   * @param what - what could not be done, as in "not acquired"
   * @param mayHaveRun - whether a master may have done it
   */
  constructor(
    lockName: string,
    what: string,
    quorum: number,
    nodes: readonly NodeAnswer[],
    mayHaveRun: boolean,
  ) {
    const votes = nodes.filter(({ answer }) => answer === 'acquired').length;
    const count = `${String(votes)} of ${String(nodes.length)} masters confirm it, ${String(quorum)} are needed`;
    const message = `lock "${lockName}" ${what}: ${count} (${nodes.map(inWords).join('; ')})`;
    super(message);
    this.mayHaveRun = mayHaveRun;
    this.told = new QuorumError(message, { lockName, nodes });
  }
}

function inWords(node: NodeAnswer): string {
  switch (node.answer) {
    case 'acquired':
    case 'gone':
      return `${node.node}: ${node.answer}`;
    case 'held':
      return `${node.node}: held by ${node.holder} ${node.holderTtlMs < 0 ? 'without expiry' : `for ${String(node.holderTtlMs)} ms`}`;
    case 'unreachable':
      return `${node.node}: ${node.reason}`;
    case 'guarded':
      return `${node.node}: started too recently, votes in ${(node.votesInMs / 1_000).toFixed(1)} s${node.waitsForOthers ? ', or when those answer that may know what it forgot' : ''}`;
  }
}
