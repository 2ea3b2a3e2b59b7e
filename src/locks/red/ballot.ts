// What became of asking the masters of a Redlock for their votes: whose count, for how long a master must have been up for that, and
// what a token must be at least.

import type { NodeAnswer } from '../../api/node-answer.js';
import { failureKind } from '../../redis/failure.js';
import { isNearTheEnd, type VoteReply } from '../reentrant/voting.js';
import type { Master } from './master.js';
import type { Answer } from './poll.js';
import { guarded, type Requirement, type RestartGuard } from './restart-guard.js';
import { largest, type WriteBack } from './write-back.js';

export interface Electorate {
  readonly masters: readonly Master[];
  readonly quorum: number;
  /** Which masters have been up for too short a time to vote. */
  readonly guard: RestartGuard;
}

/** One master in this election, whether it was asked or not. */
interface Questioned {
  readonly master: Master;
  /** Why it was not asked. */
  readonly excusal: NodeAnswer | undefined;
  readonly answer: Answer<VoteReply>;
  /** For how long it had been up when the election began, in milliseconds; Infinity: not known. */
  readonly upMs: number;
  /** Whether it has told that itself. */
  readonly isAgeTold: boolean;
}

export class Ballot {
  readonly #electorate: Electorate;
  readonly #upMs: readonly number[];
  readonly #areAgesTold: readonly boolean[];
  readonly #excusals: readonly (NodeAnswer | undefined)[];
  #all: readonly Questioned[] = [];

  /** Begins with no answers. */
  constructor(electorate: Electorate) {
    const { masters, guard } = electorate;
    this.#electorate = electorate;
    this.#upMs = masters.map(({ lock }) => lock.connection.server.ageMs);
    this.#areAgesTold = masters.map(({ lock }) => lock.connection.server.isAgeTold);
    this.#excusals = masters.map((master, index) =>
      excusal(master, guard.leastMs - (this.#upMs[index] ?? 0)),
    );
    this.read([]);
  }

  /** The masters that are worth asking. */
  get asked(): Master[] {
    return this.#electorate.masters.filter((_, index) => !this.#excusals[index]);
  }

  /** The masters that were not asked, or whose connection was lost before they answered; not those whose votes are on their way. */
  get unreached(): Master[] {
    return this.#all.flatMap(({ master, excusal: excused, answer }) =>
      excused || isLost(answer) ? [master] : [],
    );
  }

  /** Takes over the answers so far of the masters that are `asked`, in that order. */
  read(answers: readonly Answer<VoteReply>[]): void {
    let next = 0;
    this.#all = this.#electorate.masters.map((master, index) => {
      const excused = this.#excusals[index];
      const isUpKnown = excused?.answer !== 'unreachable';
      return {
        master,
        excusal: excused,
        answer: excused ? undefined : answers[next++],
        upMs: isUpKnown ? (this.#upMs[index] ?? 0) : Infinity,
        isAgeTold: this.#areAgesTold[index] ?? false,
      };
    });
  }

  /** All masters' answers, as far as they count; undefined: not known so far. */
  counted(isFinal: boolean): (NodeAnswer | undefined)[] {
    const required = this.required(isFinal);
    const isOdd = this.#isOdd;
    return this.#all.map(({ master, excusal: excused, answer, upMs }) => {
      const given = excused ?? nodeAnswer(master, answer, isOdd);
      if (given?.answer !== 'acquired' || upMs >= required.upMs) return given;
      return isFinal
        ? guarded(master.name, required.upMs - upMs, required.waitsForOthers)
        : undefined;
    });
  }

  /** For how long a master must have been up for its vote to count. `isFinal`: there will be no more answers. */
  required(isFinal: boolean): Requirement {
    const { guard, quorum } = this.#electorate;
    const witnesses = this.#all.map(({ answer, upMs, isAgeTold }) => {
      return { upMs, isAgeTold, toldMs: toldMs(answer) };
    });
    return guard.require(witnesses, quorum, isFinal);
  }

  /**
   * The largest token that a given vote asks for, and so the least that the new token must be; undefined: there is none, as of a lock that
   * is not fenced.
   */
  get token(): bigint | undefined {
    const isOdd = this.#isOdd;
    const tokens = this.#all.map(({ answer }) => tokenOf(answer));
    return largest(tokens.filter((token) => token === undefined || !isOdd(token)));
  }

  /**
   * Which masters do not count when the token is written: those whose vote does not, since they may have forgotten a token. `excused` tells
   * why, where that is known; `required` rules out the others by how long they have been up.
   */
  get forTheToken(): Pick<WriteBack, 'excused' | 'required'> {
    return { excused: this.excused, required: this.required(true) };
  }

  /** For each master, why it was not asked, or why its answer is left out; undefined: neither. */
  get excused(): (NodeAnswer | undefined)[] {
    const isOdd = this.#isOdd;
    return this.#all.map(({ master, excusal: excused, answer }) => {
      const token = tokenOf(answer);
      return excused ?? (token !== undefined && isOdd(token) ? odd(master, token) : undefined);
    });
  }

  /**
   * Whether a token is nearly the largest that there can be, and too few masters ask for such a one: no holder had it, as most masters
   * would know. Written to all, it would be the last that the lock can ever give. So a master that asks for it is left out, as if it were
   * down.
   */
  get #isOdd(): (token: bigint) => boolean {
    const near = this.#all.filter(({ answer }) => isNearTheEnd(tokenOf(answer) ?? 0n));
    const areMost = near.length >= this.#electorate.quorum;
    return (token) => !areMost && isNearTheEnd(token);
  }
}

/** Why a master is not asked; undefined: it is. */
function excusal({ name: node, trouble }: Master, votesInMs: number): NodeAnswer | undefined {
  if (trouble !== undefined) return { node, answer: 'unreachable', reason: trouble };
  return votesInMs > 0 ? guarded(node, votesInMs, false) : undefined;
}

function isLost(answer: Answer<VoteReply>): boolean {
  if (answer?.kind !== 'unreachable' || answer.error === undefined) return false;
  const kind = failureKind(answer.error);
  return kind === 'unsent' || kind === 'unanswered';
}

/** The longest lease that a master has told of; undefined: it did not answer. */
function toldMs(answer: Answer<VoteReply>): number | undefined {
  if (answer?.kind !== 'answered') return undefined;
  const { reply, longestLeaseMs } = answer.value;
  return reply.outcome === 'held' ? Math.max(longestLeaseMs, reply.holderTtlMs) : longestLeaseMs;
}

function tokenOf(answer: Answer<VoteReply>): bigint | undefined {
  if (answer?.kind !== 'answered') return undefined;
  const { reply } = answer.value;
  return reply.outcome === 'acquired' ? reply.token : undefined;
}

function nodeAnswer(
  master: Master,
  answer: Answer<VoteReply>,
  isOdd: (token: bigint) => boolean,
): NodeAnswer | undefined {
  const { name: node } = master;
  if (answer?.kind !== 'answered')
    return answer && { node, answer: 'unreachable', reason: answer.reason };
  const { reply } = answer.value;
  if (reply.outcome === 'held') {
    const { holder, holderTtlMs } = reply;
    return { node, answer: 'held', holder, holderTtlMs };
  }
  const { token } = reply;
  return token !== undefined && isOdd(token) ? odd(master, token) : { node, answer: 'acquired' };
}

function odd({ name: node, lock }: Master, token: bigint): NodeAnswer {
  const reason = `its next fencing token would be ${String(token)}, one of the last that there can be, which most masters know nothing of: see to its clock, then delete the key "${lock.counter?.key ?? ''}" there`;
  return { node, answer: 'unreachable', reason };
}
