// The second round of an election for a fenced Redlock: the token is written to all masters, and is the holder's when most have it.
//
// A voter says with its vote what a token must be at least: more than the last one that it knows of, and no less than its clock. The
// largest of these is written to all masters, and a master has it when it knew of none so large. Whoever has a majority of them has
// a token of its own that is larger than those of all before it:
//
//   Let A have had the lock before B. The majorities that have their tokens share a master. There B's came later: A had its token
//   before it gave the lock up, and B's was sent when masters had voted for B that had voted for A before. So B's is larger, or that
//   master would have refused it.
//
// Were a token written by maximum, with nobody refused, B's could be the smaller one: where B's votes came partly before A had the lock
// (from masters that did not vote for A) and partly after (from one where A's token was lost on the way, or is overtaken by A's
// release), no voter of B's has to know A's token when it votes.
//
// The shared master must not have forgotten A's token. Whoever is guarded is told the token, but does not count, and in each round that is
// looked at anew, since a master that has voted may have restarted: one that counts after an empty restart has been up for longer than
// clocks differ, so all clocks are past A's token. (A token that is ahead of the
// clocks, since one was set back, goes from holder to holder, and to masters that restarted by the next of these; it is lost when a
// majority forgets it while nobody takes the lock.)

import type { NodeAnswer } from '../../api/node-answer.js';
import { leftMs, type Deadline } from '../../core/deadline.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Master } from './master.js';
import { poll, refusalOfMany, values, type Answer } from './poll.js';
import type { RestartGuard } from './restart-guard.js';

export interface WriteBack {
  /** The largest that a voter asks for. */
  readonly token: bigint;
  readonly masters: readonly Master[];
  readonly quorum: number;
  /** Why masters do not count: they were not asked for their vote. */
  readonly excused: readonly (NodeAnswer | undefined)[];
  readonly nodeTimeoutMs: number;
  /** How long a master must have been up to count. */
  readonly guard: RestartGuard;
  /** For how long a master is to be bothered with it. */
  readonly limit: TimeLimit;
  /** Until when the lock may be relied on that this is for. */
  readonly deadline: Deadline;
}

/** What it came to: a token that is its holder's alone, or what the masters say. */
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
      (master, index) => !excused[index] && !master.trouble && !isYoung(master, asked),
    );
    if (counting.length < quorum)
      return { outcome: 'no quorum', nodes: nodeAnswers(asked, counting, []) };
    // Who is guarded, or owes an answer since the vote, is told as well, and not waited for.
    const others = masters.filter(
      (master, index) => excused[index]?.answer !== 'unreachable' && !counting.includes(master),
    );
    for (const master of others) master.raise(token, limit).catch(() => undefined);
    const { isWon, answers } = await send(asked, counting, token);
    if (isWon) return { outcome: 'acquired', token };
    const last = largest(values(answers));
    if (last === undefined || leftMs(deadline) <= 0)
      return { outcome: 'no quorum', nodes: nodeAnswers(asked, counting, answers) };
    // Others had the lock, or tried to, since the first of the masters voted for us: we go on from their token.
    token = last + 1n;
  }
}

/** Whether it may have forgotten a token that is larger than its clock says. */
function isYoung({ lock }: Master, { guard }: WriteBack): boolean {
  return lock.connection.server.ageMs < guard.leastMs;
}

function send(
  { masters, quorum, nodeTimeoutMs, limit }: WriteBack,
  counting: readonly Master[],
  token: bigint,
): Promise<Round> {
  const raise = (master: Master): Promise<Written> => master.raise(token, limit);
  return poll<Written, Round>(counting, raise, nodeTimeoutMs, (answers, isFinal) => {
    const written = values(answers).filter((last) => last === undefined).length;
    const isWon = written >= quorum;
    const pending = answers.filter((answer) => answer === undefined).length;
    const isOutdone = largest(values(answers)) !== undefined && written + pending < quorum;
    if (isWon || isOutdone) return { isWon, answers: [...answers] };
    if (!isFinal) return undefined;
    return refusalOfMany(answers, masters.length - quorum) ?? { isWon, answers };
  });
}

/** undefined: there is none. */
export function largest(tokens: readonly (bigint | undefined)[]): bigint | undefined {
  return tokens.reduce(
    (max, token) => (max === undefined || (token ?? 0n) > max ? token : max),
    undefined,
  );
}

function nodeAnswers(
  { masters, excused }: WriteBack,
  counting: readonly Master[],
  answers: readonly Answer<Written>[],
): NodeAnswer[] {
  return masters.map((master, index) => {
    const answer = counting.includes(master) ? answers[counting.indexOf(master)] : undefined;
    return excused[index] ?? nodeAnswer(master, answer);
  });
}

function nodeAnswer({ name: node, trouble }: Master, answer: Answer<Written>): NodeAnswer {
  if (answer?.kind === 'answered' && answer.value === undefined)
    return { node, answer: 'acquired' };
  const reason =
    answer?.kind === 'unreachable'
      ? answer.reason
      : answer
        ? `it has a larger token, ${String(answer.value)}`
        : (trouble ?? 'it has restarted since it voted');
  return { node, answer: 'unreachable', reason };
}
