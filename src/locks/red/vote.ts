// An election: whether one owner gets a lock that most of several masters must grant.
// The algorithm is Redis' Redlock: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

import { deadlineOf } from '../../core/deadline.js';
import type { HeldReply } from '../../core/replies.js';
import type { SeenHolder } from '../../api/errors.js';
import type { NodeAnswer } from '../../api/node-answer.js';
import { now, type Clock } from '../../runtime/clock.js';
import type { VoteReply } from '../reentrant/voting.js';
import { Ballot, type Electorate } from './ballot.js';
import type { Master } from './master.js';
import { poll, refusalOfMany, type Answer } from './poll.js';
import { writeBack } from './write-back.js';

/** How an election went. */
export type Vote =
  /** `token`: that of the new holder, if it is a fenced lock. */
  | { readonly outcome: 'acquired'; readonly token: bigint | undefined }
  /** Those who said "held" alone make a majority impossible. */
  | HeldReply
  | { readonly outcome: 'no quorum'; readonly nodes: readonly NodeAnswer[] };

/** The longest pause before the next try when it is not known whether somebody has a majority, in milliseconds. */
const AMBIGUOUS_RETRY_MS = 1_000;

export interface Election extends Electorate {
  readonly clock: Clock;
  readonly random: () => number;
  readonly ownerId: string;
  readonly leaseMs: number;
  /** How long one master may take, in milliseconds. */
  readonly nodeTimeoutMs: number;
  /** Called when it is won: these masters have yet to be asked to give the lock to its new holder, too. */
  readonly won?: ((unreached: readonly Master[]) => void) | undefined;
}

/**
 * Asks all masters at the same time, and then writes a fenced lock's token to them. Unless it is won the votes are taken back, also
 * those that may still come.
 *
 * @throws what most masters refuse it with for good
 */
export async function vote(election: Election): Promise<Vote> {
  const { clock, masters, quorum, ownerId, leaseMs, nodeTimeoutMs } = election;
  const deadline = deadlineOf(now(clock), leaseMs);
  const ballot = new Ballot(election);
  const { asked } = ballot;
  const limit = { leftMs: nodeTimeoutMs };
  const send = (master: Master): Promise<VoteReply> => master.vote(ownerId, leaseMs, limit);
  const takeBack = (isTold: boolean): void => {
    limit.leftMs = 0;
    for (const master of asked) master.withdraw(ownerId, isTold);
  };
  const decide = (
    answers: readonly Answer<VoteReply>[],
    isFinal: boolean,
  ): Vote | Error | undefined => {
    const refusal = isFinal ? refusalOfMany(answers, masters.length - quorum) : undefined;
    if (refusal) return refusal;
    ballot.read(answers);
    return decided(election, ballot.counted(isFinal), ballot.token, isFinal);
  };
  if (asked.length === 0)
    return { outcome: 'no quorum', nodes: ballot.excused.flatMap((node) => node ?? []) };
  let votes: Vote | undefined;
  try {
    votes = await poll<VoteReply, Vote>(clock, asked, send, nodeTimeoutMs, decide);
    const token = votes.outcome === 'acquired' ? votes.token : undefined;
    const outcome =
      token === undefined
        ? votes
        : await writeBack({ ...election, token, limit, deadline, ...ballot.forTheToken });
    if (outcome.outcome === 'acquired') election.won?.(ballot.unreached);
    else takeBack(mayHaveBeenSeen(outcome, asked.length, quorum));
    return outcome;
  } catch (error) {
    takeBack(votes?.outcome === 'acquired');
    throw error;
  }
}

/** Whether this owner may have had a majority, counting late answers: others may have seen that, and wait for its end. */
function mayHaveBeenSeen(outcome: Vote, askedCount: number, quorum: number): boolean {
  if (outcome.outcome !== 'no quorum') return false;
  const refused = outcome.nodes.filter(({ answer }) => answer === 'held').length;
  return askedCount - refused >= quorum;
}

function decided(
  election: Election,
  nodes: readonly (NodeAnswer | undefined)[],
  token: bigint | undefined,
  isFinal: boolean,
): Vote | undefined {
  const { masters, quorum } = election;
  const known = nodes.filter((node) => node !== undefined);
  const acquired = known.filter(({ answer }) => answer === 'acquired');
  if (acquired.length >= quorum) return { outcome: 'acquired', token };
  const held = known.filter((node) => node.answer === 'held');
  if (held.length > masters.length - quorum) {
    const reply = seen(election, held, acquired.length);
    // Whether the votes are split is only known with the last answer.
    return isFinal || reply.retryInMs === undefined ? reply : undefined;
  }
  return isFinal ? { outcome: 'no quorum', nodes: known } : undefined;
}

/** The answer "held": who has the most votes, and when to try again. */
function seen(
  { masters: { length: count }, quorum, nodeTimeoutMs, random }: Election,
  held: readonly (SeenHolder & { node: string })[],
  acquiredCount: number,
): HeldReply {
  const votes = new Map<string, number>();
  for (const { holder } of held) votes.set(holder, (votes.get(holder) ?? 0) + 1);
  const [holder = '', most = 0] = [...votes].sort(([, one], [, other]) => other - one)[0] ?? [];
  // So many of these leases must end before a majority can be free.
  const missing = quorum - (count - held.length);
  const ttlsMs = held.map(({ holderTtlMs }) => (holderTtlMs < 0 ? Infinity : holderTtlMs));
  const freeInMs = ttlsMs.sort((one, other) => one - other)[missing - 1] ?? Infinity;
  const holderTtlMs = freeInMs === Infinity ? -1 : freeInMs;
  // Without a majority for anyone the votes are split: all who took part take theirs back, without a message, and try again after a time of
  // their own. (Masters that did not answer may have voted for the holder, too: then there is no hurry.)
  const notHeard = count - held.length - acquiredCount;
  const isSplit = most + notHeard < quorum;
  const pauseMs = isSplit ? nodeTimeoutMs : Math.min(AMBIGUOUS_RETRY_MS, freeInMs);
  const retryInMs = most < quorum ? random() * pauseMs : undefined;
  return { outcome: 'held', holder, holderTtlMs, retryInMs };
}
