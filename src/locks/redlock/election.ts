// An election: whether one owner gets a lock that most of several masters must grant. All are asked for their votes; over fenced locks the
// token is then written to them.
// The algorithm is Redis' Redlock: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

import { deadlineOf, type HeldReply, leftMs } from '../../core/protocol.js';
import { type NodeAnswer, QuorumError, type SeenHolder } from '../../api/errors.js';
import { type Clock, type Instant, now } from '../../runtime/clock.js';
import { describe, failureKind } from '../../redis/failure.js';
import type { Master, VoteReply } from './master.js';
import { guarded, type RequiredUptime, type RestartGuard } from './restart-guard.js';

export interface ElectionTerms {
  readonly clock: Clock;
  readonly random: () => number;
  readonly masters: readonly Master[];
  readonly quorum: number;
  /** Which masters have been up for too short a time to vote. */
  readonly guard: RestartGuard;
  readonly ownerId: string;
  readonly leaseMs: number;
  /** How long one master may take, in milliseconds. */
  readonly nodeTimeoutMs: number;
}

/** How an election went. */
export type ElectionResult =
  | {
      readonly outcome: 'acquired';
      /** That of the new holder, if it is a fenced lock. */
      readonly token: bigint | undefined;
      /** The masters that were not asked, or whose connection was lost before they answered; not those whose votes are on their way. */
      readonly unreached: readonly Master[];
    }
  /** Those who said "held" alone make a majority impossible. */
  | HeldReply
  | { readonly outcome: 'no quorum'; readonly nodes: readonly NodeAnswer[] };

/** One master in an election. */
interface Node {
  readonly master: Master;
  /** For how long it had been up when the election began, in milliseconds; Infinity: that is not known. */
  readonly upMs: number;
  /** Whether it has told that itself. */
  readonly isAgeTold: boolean;
  /** What it says to the question for its vote; undefined: nothing so far. */
  state: NodeState;
}

type NodeState =
  /** It is not asked: it is in trouble, or has been up for too short a time. */
  { readonly kind: 'skipped'; readonly why: NodeAnswer } | Answer<VoteReply>;

/** What a master answers to a token: undefined: it was written; otherwise the last one there, which is as large or larger. */
type Written = bigint | undefined;

/** The longest pause before the next try when it is not known whether somebody has a majority, in milliseconds. */
const AMBIGUOUS_RETRY_MS = 1_000;

/**
 * Asks all masters at the same time. Unless the election is won the votes are taken back, also those that may still come.
 *
 * @throws what most masters refuse it with for good
 */
export async function elect(terms: ElectionTerms): Promise<ElectionResult> {
  return await new Election(terms).result();
}

class Election {
  readonly #terms: ElectionTerms;
  readonly #beganAt: Instant;
  readonly #nodes: readonly Node[];
  /** Those of them that are asked for their vote. */
  readonly #asked: readonly Node[];
  /** For how long a master may still be sent a vote or a token: no longer, once the votes are taken back. */
  readonly #limit: { leftMs: number };

  constructor(terms: ElectionTerms) {
    this.#terms = terms;
    this.#beganAt = now(terms.clock);
    this.#limit = { leftMs: terms.nodeTimeoutMs };
    this.#nodes = terms.masters.map((master) => {
      const { name: node, trouble, lock } = master;
      const { ageMs: upMs, isAgeTold } = lock.connection.server;
      if (trouble !== undefined) {
        const why = { node, answer: 'unreachable', reason: trouble } as const;
        return { master, upMs: Infinity, isAgeTold, state: { kind: 'skipped', why } };
      }
      const votesInMs = terms.guard.leastMs - upMs;
      const why = votesInMs > 0 ? guarded(node, votesInMs, false) : undefined;
      return { master, upMs, isAgeTold, state: why && { kind: 'skipped', why } };
    });
    this.#asked = this.#nodes.filter(({ state }) => state?.kind !== 'skipped');
  }

  async result(): Promise<ElectionResult> {
    let votes: ElectionResult | undefined;
    try {
      votes = await this.#askForVotes();
      const { token, unreached = [] } = votes.outcome === 'acquired' ? votes : {};
      const result = token === undefined ? votes : await this.#writeBack(token, unreached);
      if (result.outcome !== 'acquired') this.#takeBack(this.#mayHaveBeenSeen(result));
      return result;
    } catch (error) {
      this.#takeBack(votes?.outcome === 'acquired');
      throw error;
    }
  }

  #askForVotes(): Promise<ElectionResult> {
    const { clock, ownerId, leaseMs, nodeTimeoutMs } = this.#terms;
    const asked = this.#asked;
    const ask = (master: Master): Promise<VoteReply> => master.vote(ownerId, leaseMs, this.#limit);
    return poll(clock, mastersOf(asked), ask, nodeTimeoutMs, (answers, isFinal) => {
      for (const [index, node] of asked.entries()) node.state = answers[index];
      return this.#decided(isFinal);
    });
  }

  /** The one place that decides by the votes so far; undefined: they decide nothing yet. `isFinal`: there will be no more. */
  #decided(isFinal: boolean): ElectionResult | Error | undefined {
    const { masters, quorum } = this.#terms;
    const tolerated = masters.length - quorum;
    const refusal = isFinal ? refusalOfMany(this.#answers, tolerated) : undefined;
    if (refusal) return refusal;
    const required = this.#requiredUptime(isFinal);
    const nodes = this.#nodes.flatMap((node) => {
      const vote = voteOf(node);
      if (vote?.answer !== 'acquired' || node.upMs >= required.upMs) return vote ?? [];
      // A vote that does not count now may do so when more masters have answered.
      return isFinal ? guarded(vote.node, required.upMs - node.upMs, required.waitsForOthers) : [];
    });
    const votes = nodes.filter(({ answer }) => answer === 'acquired').length;
    if (votes >= quorum) {
      const isUnreached = ({ state }: Node): boolean => state?.kind === 'skipped' || isLost(state);
      const unreached = mastersOf(this.#nodes.filter(isUnreached));
      const tokens = values(this.#answers).map(({ reply }) =>
        reply.outcome === 'acquired' ? reply.token : undefined,
      );
      return { outcome: 'acquired', token: largest(tokens), unreached };
    }
    const held = nodes.filter((node) => node.answer === 'held');
    if (held.length > tolerated) {
      const reply = this.#heldBy(held, votes);
      // Whether the votes are split is only known with the last answer.
      return isFinal || reply.retryInMs === undefined ? reply : undefined;
    }
    return isFinal ? { outcome: 'no quorum', nodes } : undefined;
  }

  /** The answer "held": who has the most votes, and when to try again. */
  #heldBy(held: readonly SeenHolder[], ownVotes: number): HeldReply {
    const { masters, quorum, nodeTimeoutMs, random } = this.#terms;
    const votes = new Map<string, number>();
    for (const { holder } of held) votes.set(holder, (votes.get(holder) ?? 0) + 1);
    const [holder = '', most = 0] = [...votes].sort(([, one], [, other]) => other - one)[0] ?? [];
    // So many of these leases must end before a majority can be free.
    const missing = quorum - (masters.length - held.length);
    const ttlsMs = held.map(({ holderTtlMs }) => (holderTtlMs < 0 ? Infinity : holderTtlMs));
    const freeInMs = ttlsMs.sort((one, other) => one - other)[missing - 1] ?? Infinity;
    const holderTtlMs = freeInMs === Infinity ? -1 : freeInMs;
    // Without a majority for anyone the votes are split: all who took part take theirs back, without a message, and try again after a time
    // of their own. (Masters that did not answer may have voted for the holder, too: then there is no hurry.)
    const isSplit = most + (masters.length - held.length - ownVotes) < quorum;
    const pauseMs = isSplit ? nodeTimeoutMs : Math.min(AMBIGUOUS_RETRY_MS, freeInMs);
    const retryInMs = most < quorum ? random() * pauseMs : undefined;
    return { outcome: 'held', holder, holderTtlMs, retryInMs };
  }

  /** For how long a master must have been up for its vote, or a token written to it, to count. */
  #requiredUptime(isFinal: boolean): RequiredUptime {
    const { guard, quorum } = this.#terms;
    const uptimes = this.#nodes.map(({ upMs, isAgeTold, state }) => {
      if (state?.kind !== 'answered') return { upMs, isAgeTold, toldMs: undefined };
      const { reply, longestLeaseMs } = state.value;
      const heldMs = reply.outcome === 'held' ? reply.holderTtlMs : 0;
      return { upMs, isAgeTold, toldMs: Math.max(longestLeaseMs, heldMs) };
    });
    return guard.require(uptimes, quorum, isFinal);
  }

  get #answers(): readonly Answer<VoteReply>[] {
    return this.#nodes.map(({ state }) => (state?.kind === 'skipped' ? undefined : state));
  }

  /** Takes back the votes. `isTold`: those who wait are told, since the votes may have kept them out. */
  #takeBack(isTold: boolean): void {
    this.#limit.leftMs = 0;
    for (const { master } of this.#asked) master.withdraw(this.#terms.ownerId, isTold);
  }

  /** Whether this owner may have had a majority, counting late answers: others may have seen that, and wait for its end. */
  #mayHaveBeenSeen(result: ElectionResult): boolean {
    if (result.outcome !== 'no quorum') return false;
    const refused = result.nodes.filter(({ answer }) => answer === 'held').length;
    return this.#asked.length - refused >= this.#terms.quorum;
  }

  // The second round, over fenced locks: the token is written to all masters, and is the holder's when most have it.
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
  // How long masters have been up is looked at anew for each token, since one that has voted may have restarted. (A token that is ahead of
  // the clocks, since one was set back, goes from holder to holder, and the next holder's write brings it to masters that restarted; it is
  // lost when a majority forgets it while nobody takes the lock.)

  async #writeBack(first: bigint, unreached: readonly Master[]): Promise<ElectionResult> {
    const { clock, quorum, leaseMs, nodeTimeoutMs } = this.#terms;
    const deadline = deadlineOf(this.#beganAt, leaseMs);
    const required = this.#requiredUptime(true);
    for (let token = first; ;) {
      const whyNot = this.#nodes.map((node) => this.#whyNotCounting(node, required));
      const counting = this.#nodes.filter((_, index) => !whyNot[index]);
      const write = (master: Master): Promise<Written> => master.raise(token, this.#limit);
      let answers: readonly Answer<Written>[] = [];
      if (counting.length >= quorum) {
        // Masters that are guarded, or owe an answer since the vote, are sent the token as well, and not waited for.
        for (const [index, { master, state }] of this.#nodes.entries()) {
          const isTold = state?.kind !== 'skipped' || state.why.answer === 'guarded';
          if (whyNot[index] && isTold) write(master).catch(() => undefined);
        }
        answers = await poll(clock, mastersOf(counting), write, nodeTimeoutMs, this.#written);
      }
      if (countWritten(answers) >= quorum) return { outcome: 'acquired', token, unreached };
      const last = largest(values(answers));
      if (last === undefined || leftMs(deadline) <= 0) {
        const nodes = this.#nodes.map(
          (node, index) => whyNot[index] ?? writeAnswer(node, answers[counting.indexOf(node)]),
        );
        return { outcome: 'no quorum', nodes };
      }
      // Others had the lock, or tried to, since the first of the masters voted for us: we go on from their token.
      token = last + 1n;
    }
  }

  /** The answers, when the token is written to most masters, or cannot be any more. */
  readonly #written = (
    answers: readonly Answer<Written>[],
    isFinal: boolean,
  ): readonly Answer<Written>[] | Error | undefined => {
    const { masters, quorum } = this.#terms;
    const written = countWritten(answers);
    const open = answers.filter((answer) => !answer).length;
    const isOutdone = written < values(answers).length && written + open < quorum;
    if (written >= quorum || isOutdone) return [...answers];
    return isFinal ? (refusalOfMany(answers, masters.length - quorum) ?? answers) : undefined;
  };

  /** Why a token does not count on a master: its vote would not count either, since it may have forgotten one. undefined: it counts. */
  #whyNotCounting({ master, state }: Node, required: RequiredUptime): NodeAnswer | undefined {
    const { name: node, trouble, lock } = master;
    if (state?.kind === 'skipped') return state.why;
    if (trouble !== undefined) return { node, answer: 'unreachable', reason: trouble };
    const { clock, monotonicMs } = this.#beganAt;
    const upMs = lock.connection.server.ageMs - (clock.nowMs() - monotonicMs);
    const missingMs = required.upMs - upMs;
    return missingMs > 0 ? guarded(node, missingMs, required.waitsForOthers) : undefined;
  }
}

function mastersOf(nodes: readonly Node[]): Master[] {
  return nodes.map(({ master }) => master);
}

/** What a master says to the question for its vote, as callers are told; undefined: nothing so far. */
function voteOf({ master: { name: node }, state }: Node): NodeAnswer | undefined {
  if (state?.kind === 'skipped') return state.why;
  if (state?.kind === 'unreachable') return { node, answer: 'unreachable', reason: state.reason };
  const reply = state?.value.reply;
  if (reply?.outcome !== 'held') return reply && { node, answer: 'acquired' };
  return { node, answer: 'held', holder: reply.holder, holderTtlMs: reply.holderTtlMs };
}

/** What a master says to a token that is written to it. */
function writeAnswer({ master: { name: node } }: Node, answer: Answer<Written>): NodeAnswer {
  if (answer?.kind === 'answered' && answer.value === undefined)
    return { node, answer: 'acquired' };
  if (answer?.kind !== 'answered')
    return { node, answer: 'unreachable', reason: answer?.reason ?? 'not asked' };
  const reason = `it has a larger token, ${String(answer.value)}`;
  return { node, answer: 'unreachable', reason };
}

function isLost(answer: Answer<unknown>): boolean {
  if (answer?.kind !== 'unreachable' || answer.error === undefined) return false;
  const kind = failureKind(answer.error);
  return kind === 'unsent' || kind === 'unanswered';
}

function countWritten(answers: readonly Answer<Written>[]): number {
  return values(answers).filter((last) => last === undefined).length;
}

/** The largest of the tokens; undefined: there is none. */
export function largest(tokens: readonly (bigint | undefined)[]): bigint | undefined {
  return tokens.reduce(
    (max, token) => (max === undefined || (token ?? 0n) > max ? token : max),
    undefined,
  );
}

// Asks several masters the same thing at the same time, and decides as soon as their answers allow.

/** What one master answered; undefined: nothing so far. */
export type Answer<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly error?: unknown }
  | undefined;

/**
 * Resolves to what `decide` returns, or rejects if that is an error. `decide` is called after every answer, also after it has decided, and
 * with `isFinal` when no more will be waited for.
 *
 * @param clock - whose time counts
 * @param send - asks one master
 * @param limitMs - how long to wait for each, in milliseconds; one that takes longer is remembered as overdue
 */
export function poll<T, Decision>(
  clock: Clock,
  masters: readonly Master[],
  send: (master: Master, index: number) => Promise<T>,
  limitMs: number,
  decide: (answers: readonly Answer<T>[], isFinal: boolean) => Decision | Error | undefined,
): Promise<Decision> {
  return new Promise((resolve, reject) => {
    const answers: Answer<T>[] = masters.map(() => undefined);
    const pending = new Map<number, Promise<T>>();
    const settled = (index: number, answer: Answer<T>): void => {
      if (!pending.delete(index)) return;
      answers[index] = answer;
      judge();
    };
    for (const [index, master] of masters.entries()) {
      const sent = send(master, index);
      pending.set(index, sent);
      sent.then(
        (value) => {
          settled(index, { kind: 'answered', value });
        },
        (error: unknown) => {
          const reason = error instanceof Error ? describe(error) : String(error);
          settled(index, { kind: 'unreachable', reason, error });
        },
      );
    }
    const giveUp = (): void => {
      for (const [index, answer] of [...pending]) {
        masters[index]?.overdue(answer);
        settled(index, { kind: 'unreachable', reason: `no answer within ${String(limitMs)} ms` });
      }
    };
    // After a blocked event loop the answers may be here, unread: one turn of the loop reads them first.
    let timer = clock.setTimer(() => {
      timer = clock.setTimer(giveUp, 1);
    }, limitMs);
    const judge = (): void => {
      if (pending.size === 0) clock.clearTimer(timer);
      const decision = decide(answers, pending.size === 0);
      if (decision instanceof Error) reject(decision);
      else if (decision !== undefined) resolve(decision);
    };
    if (masters.length === 0) judge();
  });
}

/**
 * The error by which more than `tolerated` masters refuse for good, such as a key of another type, so that no majority can come about;
 * undefined: there are not so many.
 */
export function refusalOfMany(
  answers: readonly Answer<unknown>[],
  tolerated: number,
): Error | undefined {
  const refusals = answers.flatMap((answer) => {
    if (answer?.kind !== 'unreachable' || !(answer.error instanceof Error)) return [];
    const kind = failureKind(answer.error);
    return kind === 'conflict' || kind === 'denied' || kind === 'defect' ? [answer.error] : [];
  });
  return refusals.length > tolerated ? refusals[0] : undefined;
}

/** Whether a master did what it was asked to do, or may have: its answer did not come. */
export function mayHaveRun(answer: Answer<unknown>): boolean {
  if (answer?.kind === 'answered') return answer.value !== false;
  return answer?.error === undefined || failureKind(answer.error) === 'unanswered';
}

/** The values of those who answered. */
export function values<T>(answers: readonly Answer<T>[]): T[] {
  return answers.flatMap((answer) => (answer?.kind === 'answered' ? [answer.value] : []));
}

/** What the masters answered does not decide. `what` could not be done, as in "not acquired". */
export function quorumError(
  lockName: string,
  what: string,
  quorum: number,
  nodes: readonly NodeAnswer[],
): QuorumError {
  const votes = nodes.filter(({ answer }) => answer === 'acquired').length;
  const count = `${String(votes)} of ${String(nodes.length)} masters confirm it, ${String(quorum)} are needed`;
  const message = `lock "${lockName}" ${what}: ${count} (${nodes.map(inWords).join('; ')})`;
  return new QuorumError(message, { lockName, nodes });
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
