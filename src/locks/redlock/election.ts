// An election: whether one owner gets a lock that most of several masters must grant. All are asked for their votes; over fenced locks the
// token is then written to them.
// The algorithm is Redis' Redlock: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

import { deadlineOf, type HeldReply, leftMs } from '../../core/protocol.js';
import { type NodeAnswer, QuorumError, type SeenHolder } from '../../api/errors.js';
import { type Clock, type Instant, now } from '../../runtime/clock.js';
import { describe, failureKind, isReply } from '../../redis/failure.js';
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

/** How long a master had been up when an election began. */
interface Age {
  /** In milliseconds; Infinity: that is not known. */
  readonly upMs: number;
  /** Whether it has told that itself. */
  readonly isAgeTold: boolean;
}

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
  const election = new Election(terms);
  let result: ElectionResult | undefined;
  try {
    return (result = await election.result());
  } finally {
    if (result?.outcome !== 'acquired') election.takeBack();
  }
}

class Election {
  readonly #terms: ElectionTerms;
  readonly #beganAt: Instant;
  readonly #ages: readonly Age[];
  /** Of each master. */
  #votes: readonly Answer<VoteReply>[] = [];
  /** For how long a master may still be sent a vote or a token: no longer, once the votes are taken back. */
  readonly #limit: { leftMs: number };

  constructor(terms: ElectionTerms) {
    this.#terms = terms;
    this.#beganAt = now(terms.clock);
    this.#limit = { leftMs: terms.nodeTimeoutMs };
    this.#ages = terms.masters.map(({ whyDown, connection: { server } }) => ({
      upMs: whyDown === undefined ? server.ageMs : Infinity,
      isAgeTold: server.isAgeTold,
    }));
  }

  async result(): Promise<ElectionResult> {
    const { clock, masters, guard, ownerId, leaseMs, nodeTimeoutMs } = this.#terms;
    const ask = (master: Master, index: number): Promise<VoteReply> | Skipped =>
      skipped(unreachable(master) ?? this.#tooYoung(index, guard.leastMs)) ??
      master.vote(ownerId, leaseMs, this.#limit);
    const votes = await poll(clock, masters, ask, nodeTimeoutMs, (answers, isFinal) => {
      this.#votes = answers;
      return this.#decided(isFinal);
    });
    const isFenced = votes.outcome === 'acquired' && votes.token !== undefined;
    return isFenced ? await this.#writeBack(votes.token, votes.unreached) : votes;
  }

  /**
   * Takes back the votes. Those who wait are told where this owner may have had a majority, counting late answers: others may have seen
   * that, and wait for its end.
   */
  takeBack(): void {
    this.#limit.leftMs = 0;
    const { masters, ownerId, quorum } = this.#terms;
    const mayHaveVoted = this.#votes.filter(
      (vote) => mayHaveRun(vote) && valueOf(vote)?.reply.outcome !== 'held',
    );
    for (const [index, master] of masters.entries())
      if (this.#votes[index]?.kind !== 'skipped')
        master.withdraw(ownerId, mayHaveVoted.length >= quorum);
  }

  /** The one place that decides by the votes so far; undefined: they decide nothing yet. `isFinal`: there will be no more. */
  #decided(isFinal: boolean): ElectionResult | Error | undefined {
    const { masters, quorum } = this.#terms;
    const tolerated = masters.length - quorum;
    const refusal = isFinal ? refusalOfMany(this.#votes, tolerated) : undefined;
    if (refusal) return refusal;
    const { upMs, waitsForOthers } = this.#requiredUptime(isFinal);
    const nodes = masters.flatMap((master, index) => {
      const said = saidBy(master, this.#votes[index], voteInWords);
      const why = said?.answer === 'acquired' && this.#tooYoung(index, upMs, waitsForOthers);
      // A vote that does not count now may do so when more masters have answered.
      return why ? (isFinal ? why : []) : (said ?? []);
    });
    const won = nodes.filter(({ answer }) => answer === 'acquired').length;
    if (won >= quorum) {
      const unreached = masters.filter((_, index) => isUnreached(this.#votes[index]));
      const tokens = values(this.#votes).map(({ reply }) =>
        reply.outcome === 'acquired' ? reply.token : undefined,
      );
      return { outcome: 'acquired', token: largest(tokens), unreached };
    }
    const held = nodes.filter((node) => node.answer === 'held');
    if (held.length > tolerated) {
      const reply = this.#heldBy(held, won);
      // Whether the votes are split is only known with the last answer.
      return isFinal || reply.retryInMs === undefined ? reply : undefined;
    }
    return isFinal ? { outcome: 'no quorum', nodes } : undefined;
  }

  /** The answer "held": who has the most votes, and when to try again. */
  #heldBy(held: readonly SeenHolder[], ownVotes: number): HeldReply {
    const { masters, quorum, nodeTimeoutMs, random } = this.#terms;
    const [holder = '', most = 0] = mostNamed(held.map((seen) => seen.holder)) ?? [];
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
    const uptimes = this.#ages.map((age, index) => {
      const told = valueOf(this.#votes[index]);
      const heldMs = told?.reply.outcome === 'held' ? told.reply.holderTtlMs : 0;
      return { ...age, toldMs: told && Math.max(told.longestLeaseMs, heldMs) };
    });
    return guard.require(uptimes, quorum, isFinal);
  }

  /** Why a master does not count that had been up for `upMs`, by default when the election began; undefined: it does. */
  #tooYoung(
    index: number,
    requiredMs: number,
    waitsForOthers = false,
    upMs = this.#ages[index]?.upMs ?? 0,
  ): NodeAnswer | undefined {
    return guarded(this.#terms.masters[index]?.name ?? '', requiredMs - upMs, waitsForOthers);
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
    const { clock, masters, quorum, leaseMs, nodeTimeoutMs } = this.#terms;
    const deadline = deadlineOf(this.#beganAt, leaseMs);
    const required = this.#requiredUptime(true);
    for (let token = first; ;) {
      const whyNot = masters.map((master, index) => this.#notCounting(master, index, required));
      const counted = (answers: readonly Answer<Written>[]): readonly Answer<Written>[] =>
        answers.filter((_, index) => !whyNot[index]);
      // Masters that are guarded, or owe an answer since the vote, are sent the token as well, and not waited for.
      const write = (master: Master, index: number): Promise<Written> | Skipped => {
        const vote = this.#votes[index];
        const isOut = vote?.kind === 'skipped' && vote.why.answer !== 'guarded';
        return isOut ? vote : master.raise(token, this.#limit);
      };
      const isWritten = (
        answers: readonly Answer<Written>[],
      ): Answer<Written>[] | Error | undefined => {
        const counting = counted(answers);
        const open = counting.filter((answer) => !answer).length;
        const written = countWritten(counting);
        const isOutdone = written < values(counting).length && written + open < quorum;
        if (open > 0 && written < quorum && !isOutdone) return undefined;
        return refusalOfMany(counting, masters.length - quorum) ?? [...answers];
      };
      const isHopeless = whyNot.filter((why) => !why).length < quorum;
      const answers = isHopeless ? [] : await poll(clock, masters, write, nodeTimeoutMs, isWritten);
      const counting = counted(answers);
      if (countWritten(counting) >= quorum) return { outcome: 'acquired', token, unreached };
      const last = largest(values(counting));
      if (last === undefined || leftMs(deadline) <= 0) {
        const said = (master: Master, index: number): NodeAnswer =>
          whyNot[index] ??
          saidBy(master, answers[index], writtenInWords) ?? {
            node: master.name,
            answer: 'unreachable',
            reason: 'not asked',
          };
        return { outcome: 'no quorum', nodes: masters.map(said) };
      }
      // Others had the lock, or tried to, since the first of the masters voted for us: we go on from their token.
      token = last + 1n;
    }
  }

  /** Why a token does not count on a master: its vote would not count either, since it may have forgotten one. undefined: it counts. */
  #notCounting(master: Master, index: number, required: RequiredUptime): NodeAnswer | undefined {
    const vote = this.#votes[index];
    if (vote?.kind === 'skipped') return vote.why;
    const { clock, monotonicMs } = this.#beganAt;
    const upMs = master.connection.server.ageMs - (clock.nowMs() - monotonicMs);
    return (
      unreachable(master) ?? this.#tooYoung(index, required.upMs, required.waitsForOthers, upMs)
    );
  }
}

function skipped(why: NodeAnswer | undefined): Skipped | undefined {
  return why && { kind: 'skipped', why };
}

function unreachable({ name: node, whyDown: reason }: Master): NodeAnswer | undefined {
  return reason === undefined ? undefined : { node, answer: 'unreachable', reason };
}

/** Whether a master cannot have been reached; that its answer is late does not mean that. */
function isUnreached(vote: Answer<VoteReply>): boolean {
  if (vote?.kind === 'skipped') return true;
  return vote?.kind === 'unreachable' && vote.error !== undefined && !isReply(vote.error);
}

function voteInWords({ reply }: VoteReply, node: string): NodeAnswer {
  if (reply.outcome !== 'held') return { node, answer: 'acquired' };
  return { node, answer: 'held', holder: reply.holder, holderTtlMs: reply.holderTtlMs };
}

function writtenInWords(last: Written, node: string): NodeAnswer {
  if (last === undefined) return { node, answer: 'acquired' };
  return { node, answer: 'unreachable', reason: `it has a larger token, ${String(last)}` };
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

/** The owner that is named most often, and how often; undefined: none is. */
export function mostNamed(owners: readonly string[]): [owner: string, count: number] | undefined {
  const counts = new Map<string, number>();
  for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one)[0];
}

// Asks several masters the same thing at the same time, and decides as soon as their answers allow.

/** What one master answered; undefined: nothing so far. */
export type Answer<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly error?: unknown }
  | Skipped
  | undefined;

/** It is not asked: it is down, or has been up for too short a time. */
interface Skipped {
  readonly kind: 'skipped';
  readonly why: NodeAnswer;
}

/**
 * Resolves to what `decide` returns, or rejects if that is an error. `decide` is called after every answer, also after it has decided, and
 * with `isFinal` when no more will be waited for.
 *
 * @param clock - whose time counts
 * @param send - asks one master, or says why not
 * @param limitMs - how long to wait for each, in milliseconds; one that takes longer is remembered as overdue
 */
export function poll<T, Decision>(
  clock: Clock,
  masters: readonly Master[],
  send: (master: Master, index: number) => Promise<T> | Skipped,
  limitMs: number,
  decide: (answers: readonly Answer<T>[], isFinal: boolean) => Decision | Error | undefined,
): Promise<Decision> {
  return new Promise((resolve, reject) => {
    const questions = masters.map((master, index) => ({ master, sent: send(master, index) }));
    const answers: Answer<T>[] = questions.map(({ sent }) => ('kind' in sent ? sent : undefined));
    const judge = (): void => {
      const isFinal = !answers.includes(undefined);
      if (isFinal) clock.clearTimer(timer);
      const decision = decide(answers, isFinal);
      if (decision instanceof Error) reject(decision);
      else if (decision !== undefined) resolve(decision);
    };
    const settle = (index: number, answer: Answer<T>): void => {
      if (answers[index]) return;
      answers[index] = answer;
      judge();
    };
    const giveUp = (): void => {
      for (const [index, { master, sent }] of questions.entries()) {
        if (answers[index] || 'kind' in sent) continue;
        master.overdue(sent);
        settle(index, { kind: 'unreachable', reason: `no answer within ${String(limitMs)} ms` });
      }
    };
    // After a blocked event loop the answers may be here, unread: one turn of the loop reads them first.
    let timer = clock.setTimer(() => {
      timer = clock.setTimer(giveUp, 1);
    }, limitMs);
    for (const [index, { sent }] of questions.entries()) {
      if ('kind' in sent) continue;
      const failed = (error: unknown): void => {
        const reason = error instanceof Error ? describe(error) : String(error);
        settle(index, { kind: 'unreachable', reason, error });
      };
      sent.then((value) => {
        settle(index, { kind: 'answered', value });
      }, failed);
    }
    if (!answers.includes(undefined)) judge();
  });
}

export function valueOf<T>(answer: Answer<T>): T | undefined {
  return answer?.kind === 'answered' ? answer.value : undefined;
}

/** The values of those who answered. */
export function values<T>(answers: readonly Answer<T>[]): T[] {
  return answers.flatMap((answer) => (answer?.kind === 'answered' ? [answer.value] : []));
}

/** Whether a master did what it was asked to do, or may have: its answer did not come. */
export function mayHaveRun(answer: Answer<unknown>): boolean {
  if (answer?.kind === 'answered') return answer.value !== false;
  if (answer?.kind === 'skipped') return false;
  return answer?.error === undefined || failureKind(answer.error) === 'unanswered';
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

/** A master's answer as callers are told it, in the words of `read`; undefined: there is none so far. */
export function saidBy<T>(
  { name: node }: Master,
  answer: Answer<T>,
  read: (value: T, node: string) => NodeAnswer,
): NodeAnswer | undefined {
  if (answer?.kind === 'skipped') return answer.why;
  if (answer?.kind === 'answered') return read(answer.value, node);
  return answer && { node, answer: 'unreachable', reason: answer.reason };
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
