// The second round of an election for a fenced Redlock: the token is written to all masters, and is the holder's when most have it.
//
// A voter says with its vote what a token must be at least: more than the last one that it knows of, and no less than its clock. The
// largest of these is written to all masters, and a master takes it if it knows of none so large. An owner whose token a majority has
// taken has a token of its own that is larger than those of all before it:
//
//   Let A have had the lock before B. The majorities that took their tokens share a master. There B's token came later: A had its token
//   before it gave the lock up, and B's was sent when masters had voted for B that had voted for A before. So B's is larger, or that
//   master would have refused it.
//
// Were a token written by maximum, with nobody refused, B's could be the smaller one: where B's votes came partly before A had the lock
// (from masters that did not vote for A) and partly after (from one where A's token was lost on the way, or is overtaken by A's
// release), no voter of B's has to know A's token when it votes.
//
// The shared master must not have forgotten A's token. So none counts that had been up for less than the restart guard asks of
// voters when B's election began (it is told the token all the same):
//
//   If the shared master has restarted since it had A's token, that was longer ago than A's lease when B's election began. So A's election
//   was over, and all masters that have A's token had it before any of them voted for B. One of these has: a majority had A's
//   token, and a majority voted for B. If that one remembers, then B's token is larger than what it remembers; if it restarted, too,
//   then it has been up for longer than clocks differ, and its clock is past A's token.
//
// How long masters have been up is looked at anew in each round, since one that has voted may have restarted. (A token that is ahead of
// the clocks, since one was set back, goes from holder to holder, and the next holder's write brings it to masters that restarted; it is
// lost when a majority forgets it while nobody takes the lock.)

import type { NodeAnswer } from '../../api/node-answer.js';
import { leftMs, type Deadline } from '../../core/deadline.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { isNearTheEnd } from '../reentrant/voting.js';
import type { Master } from './master.js';
import { poll, refusalOfMany, values, type Answer } from './poll.js';
import { guarded, type Requirement } from './restart-guard.js';

export interface WriteBack {
  /** The token to begin with: the largest that a voter asks for. */
  readonly token: bigint;
  readonly masters: readonly Master[];
  readonly quorum: number;
  /** Why masters do not count: they were not asked for their vote, or it was left out. */
  readonly excused: readonly (NodeAnswer | undefined)[];
  readonly nodeTimeoutMs: number;
  /** For how long a master must have been up to count, when the election began. */
  readonly required: Requirement;
  /** For how long a master may still be sent the token: no longer, once the votes are taken back. */
  readonly limit: TimeLimit;
  /** Until when the lock may be relied on, counted from when its election began. */
  readonly deadline: Deadline;
}

/** How a write-back ended: with a token that is its holder's alone, or with what the masters say. */
export type WrittenBack =
  | { readonly outcome: 'acquired'; readonly token: bigint }
  | { readonly outcome: 'no quorum'; readonly nodes: readonly NodeAnswer[] };

/** undefined: the token was written; otherwise the last one there, which is as large or larger. */
type Written = bigint | undefined;

interface Round {
  readonly isWon: boolean;
  readonly answers: readonly Answer<Written>[];
}

/** @throws what most masters refuse it with for good */
export async function writeBack(asked: WriteBack): Promise<WrittenBack> {
  const { masters, quorum, excused, deadline, limit } = asked;
  let { token } = asked;
  for (;;) {
    const counting = masters.filter(
      (master, index) => !excused[index] && !master.trouble && youthMs(master, asked) <= 0,
    );
    if (counting.length < quorum)
      return { outcome: 'no quorum', nodes: nodeAnswers(asked, counting, []) };
    // Masters that are guarded, or owe an answer since the vote, are sent the token as well, and not waited for.
    const others = masters.filter(
      (master, index) => excused[index]?.answer !== 'unreachable' && !counting.includes(master),
    );
    for (const master of others) master.raise(token, limit).catch(() => undefined);
    const { isWon, answers } = await send(asked, counting, token);
    if (isWon) return { outcome: 'acquired', token };
    const last = overtaking(token, answers);
    if (last === undefined || leftMs(deadline) <= 0)
      return { outcome: 'no quorum', nodes: nodeAnswers(asked, counting, answers) };
    // Others had the lock, or tried to, since the first of the masters voted for us: we go on from their token.
    token = last + 1n;
  }
}

/**
 * By how many milliseconds a master was too young to count when the election began, as it may have forgotten a token; 0 or less: it counts.
 */
function youthMs({ lock }: Master, { required, deadline }: WriteBack): number {
  const { clock, monotonicMs } = deadline.since;
  const upMs = lock.connection.server.ageMs - (clock.nowMs() - monotonicMs);
  return required.upMs - upMs;
}

function send(
  { masters, quorum, nodeTimeoutMs, limit, deadline }: WriteBack,
  counting: readonly Master[],
  token: bigint,
): Promise<Round> {
  const raise = (master: Master): Promise<Written> => master.raise(token, limit);
  const { clock } = deadline.since;
  return poll<Written, Round>(clock, counting, raise, nodeTimeoutMs, (answers, isFinal) => {
    const written = values(answers).filter((last) => last === undefined).length;
    const isWon = written >= quorum;
    const pending = answers.filter((answer) => answer === undefined).length;
    const isOutdone = overtaking(token, answers) !== undefined && written + pending < quorum;
    if (isWon || isOutdone) return { isWon, answers: [...answers] };
    if (!isFinal) return undefined;
    return refusalOfMany(answers, masters.length - quorum) ?? { isWon, answers };
  });
}

/**
 * The largest of the answered tokens, each as large as ours or larger; undefined: there is none. One that is near the end of all tokens is
 * left out unless ours is, too.
 */
function overtaking(token: bigint, answers: readonly Answer<Written>[]): bigint | undefined {
  const isMeant = (last: Written): boolean => !isNearTheEnd(last ?? 0n) || isNearTheEnd(token);
  return largest(values(answers).filter(isMeant));
}

/** The largest of the tokens; undefined: there is none. */
export function largest(tokens: readonly (bigint | undefined)[]): bigint | undefined {
  return tokens.reduce(
    (max, token) => (max === undefined || (token ?? 0n) > max ? token : max),
    undefined,
  );
}

function nodeAnswers(
  asked: WriteBack,
  counting: readonly Master[],
  answers: readonly Answer<Written>[],
): NodeAnswer[] {
  const { masters, excused, required } = asked;
  return masters.map((master, index) => {
    const excusal = excused[index];
    if (excusal) return excusal;
    if (counting.includes(master)) return writeAnswer(master, answers[counting.indexOf(master)]);
    const { name: node, trouble } = master;
    return trouble === undefined
      ? guarded(node, youthMs(master, asked), required.waitsForOthers)
      : { node, answer: 'unreachable', reason: trouble };
  });
}

function writeAnswer({ name: node }: Master, answer: Answer<Written>): NodeAnswer {
  if (answer?.kind === 'unreachable') return { node, answer: 'unreachable', reason: answer.reason };
  if (!answer) return { node, answer: 'unreachable', reason: 'not asked' };
  if (answer.value === undefined) return { node, answer: 'acquired' };
  const reason = `it has a larger token, ${String(answer.value)}`;
  return { node, answer: 'unreachable', reason };
}
