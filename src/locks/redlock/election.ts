// An election decides whether an owner gets a lock that a majority of masters must grant. It asks all masters for their votes; for fenced
// locks it then writes the token to them.
// The algorithm is Redis' Redlock: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

import { deadlineOf, type HeldReply, leftMs } from '../../core/protocol.js';
import { type NodeAnswer, QuorumError, type SeenHolder } from '../../api/errors.js';
import { type Clock, type Instant, now } from '../../runtime/clock.js';
import { describe, isLasting, isOutcomeUnknown, isReply } from '../../redis/failure.js';
import type { Master, VoteReply } from './master.js';
import { guarded, type RequiredUptime, type RestartGuard } from './restart-guard.js';

export interface ElectionTerms {
  readonly clock: Clock;
  readonly random: () => number;
  readonly masters: readonly Master[];
  readonly quorum: number;
  /** Decides which masters have restarted too recently to vote. */
  readonly guard: RestartGuard;
  readonly ownerId: string;
  readonly leaseMs: number;
  /** How long one master may take to answer, in milliseconds. */
  readonly nodeTimeoutMs: number;
}

/** The outcome of an election. */
export type ElectionResult =
  | {
      readonly outcome: 'acquired';
      /** The new holder's token, if it is a fenced lock. */
      readonly token: bigint | undefined;
      /** The masters that were not asked, or whose connection was lost before they answered; not those whose votes are only late. */
      readonly unreached: readonly Master[];
    }
  /** So many masters answered "held" that a majority is impossible. */
  | HeldReply
  | { readonly outcome: 'no quorum'; readonly nodes: readonly NodeAnswer[] };

/** The uptime of a master at the start of an election. */
interface Age {
  /** In milliseconds; Infinity: unknown. */
  readonly upMs: number;
  /** Whether the master itself reported its uptime. */
  readonly isAgeTold: boolean;
}

/** A master's answer to the write of a token. undefined: written; otherwise its last token, which is as large or larger. */
type Written = bigint | undefined;

/** The longest pause before the next try if it is unknown whether any owner has a majority, in milliseconds. */
const AMBIGUOUS_RETRY_MS = 1_000;

/**
 * Asks all masters at the same time. Unless the election is won, takes back the votes, including those that may still come.
 *
 * @throws the error with which too many masters refuse permanently
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
  /** For how long a request for a vote or a token may still be sent; 0 once the votes are taken back. */
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
   * Takes back the votes. Notifies the waiters only if this owner may have had a majority, counting late answers: then others may have
   * seen the lock held, and wait for its release.
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

  /** The only place that decides from the votes so far; undefined: no decision yet. `isFinal`: no more votes will come. */
  #decided(isFinal: boolean): ElectionResult | Error | undefined {
    const { masters, quorum } = this.#terms;
    const tolerated = masters.length - quorum;
    const refusal = isFinal ? refusalOfMany(this.#votes, tolerated) : undefined;
    if (refusal) return refusal;
    const { upMs, waitsForOthers } = this.#requiredUptime(isFinal);
    const nodes = masters.flatMap((master, index) => {
      const said = saidBy(master, this.#votes[index], voteInWords);
      const why = said?.answer === 'acquired' && this.#tooYoung(index, upMs, waitsForOthers);
      // A vote that does not count now may count after more masters have answered.
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
      // Whether the votes are split is known only after the last answer.
      return isFinal || reply.retryInMs === undefined ? reply : undefined;
    }
    return isFinal ? { outcome: 'no quorum', nodes } : undefined;
  }

  /** The answer "held": the owner with the most votes, and when to try again. */
  #heldBy(held: readonly SeenHolder[], ownVotes: number): HeldReply {
    const { masters, quorum, nodeTimeoutMs, random } = this.#terms;
    const [holder = '', most = 0] = mostNamed(held.map((seen) => seen.holder)) ?? [];
    // How many of these leases must end before a majority can be free.
    const missing = quorum - (masters.length - held.length);
    const ttlsMs = held.map(({ holderTtlMs }) => (holderTtlMs < 0 ? Infinity : holderTtlMs));
    const freeInMs = ttlsMs.sort((one, other) => one - other)[missing - 1] ?? Infinity;
    const holderTtlMs = freeInMs === Infinity ? -1 : freeInMs;
    // If no owner can have a majority, the votes are split: all candidates take theirs back, without a message, and try again after a
    // random time. (If masters that did not answer may give the holder a majority, the next try is not urgent.)
    const isSplit = most + (masters.length - held.length - ownVotes) < quorum;
    const pauseMs = isSplit ? nodeTimeoutMs : Math.min(AMBIGUOUS_RETRY_MS, freeInMs);
    const retryInMs = most < quorum ? random() * pauseMs : undefined;
    const holderState = held.find((seen) => seen.holder === holder)?.holderState;
    return { outcome: 'held', holder, holderTtlMs, holderState, retryInMs };
  }

  /** How long a master must have been up for its vote, or a token written to it, to count. */
  #requiredUptime(isFinal: boolean): RequiredUptime {
    const { guard, quorum } = this.#terms;
    const uptimes = this.#ages.map((age, index) => {
      const told = valueOf(this.#votes[index]);
      const heldMs = told?.reply.outcome === 'held' ? told.reply.holderTtlMs : 0;
      return { ...age, toldMs: told && Math.max(told.longestLeaseMs, heldMs) };
    });
    return guard.require(uptimes, quorum, isFinal);
  }

  /** Why a master does not count that was up for `upMs` (by default: at the start of the election); undefined: it counts. */
  #tooYoung(
    index: number,
    requiredMs: number,
    waitsForOthers = false,
    upMs = this.#ages[index]?.upMs ?? 0,
  ): NodeAnswer | undefined {
    return guarded(this.#terms.masters[index]?.name ?? '', requiredMs - upMs, waitsForOthers);
  }

  // The second round, for fenced locks: the token is written to all masters, and belongs to the holder once a majority has accepted it.
  //
  // Each voter proposes with its vote the least possible token: larger than the last one it knows, and not less than its clock. The largest
  // proposal is written to all masters. A master accepts it unless it knows a token as large or larger. A token that a majority has
  // accepted is unique, and larger than the tokens of all earlier holders:
  //
  //   Let A have held the lock before B. The majorities that accepted their tokens share a master. That master accepted B's token later: A
  //   had its token before it gave the lock up, and B's was sent after masters that had voted for A had voted for B. So B's is larger, or
  //   the shared master would have refused it.
  //
  // If masters simply stored the maximum and refused no token, B's token could be the smaller one: suppose some of B's votes came before A
  // had the lock (from masters that did not vote for A), and the others after it (from a master that A's token did not reach, or reached
  // only after A's release). Then none of B's voters needs to know A's token when it votes.
  //
  // The shared master must not have forgotten A's token. So a master counts only if it had been up, at the start of B's election, for as
  // long as the restart guard requires of voters (others are sent the token all the same):
  //
  //   If the shared master has restarted since it accepted A's token, the restart was longer ago than A's lease when B's election began. So
  //   A's election was over, and all masters that have A's token had it before any of them voted for B. One of them did vote for B: a
  //   majority had A's token, and a majority voted for B. If that one remembers A's token, B's token is larger. If it restarted, too, it
  //   has been up for longer than clocks differ, and its clock is past A's token.
  //
  // Uptimes are checked again for each token, since a voter may have restarted. (A token that is ahead of the clocks, because a clock was
  // set back, passes from holder to holder, and the next holder's write brings it to restarted masters. It is lost if a majority forgets
  // it while no owner takes the lock.)

  async #writeBack(first: bigint, unreached: readonly Master[]): Promise<ElectionResult> {
    const { clock, masters, quorum, leaseMs, nodeTimeoutMs } = this.#terms;
    const deadline = deadlineOf(this.#beganAt, leaseMs);
    const required = this.#requiredUptime(true);
    for (let token = first; ;) {
      const whyNot = masters.map((master, index) => this.#notCounting(master, index, required));
      const counted = (answers: readonly Answer<Written>[]): readonly Answer<Written>[] =>
        answers.filter((_, index) => !whyNot[index]);
      // Guarded masters, and those that have not answered since the vote, are sent the token, too, but not waited for.
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
      // Others got the lock, or tried to, after the first master had voted for this owner: continue from their token.
      token = last + 1n;
    }
  }

  /** Why a token on this master does not count; as with its vote, since it may have forgotten a token. undefined: it counts. */
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

/** Whether a master was unreachable: not asked, or its connection failed before it answered. A late answer is no sign of that. */
function isUnreached(vote: Answer<VoteReply>): boolean {
  if (vote?.kind === 'skipped') return true;
  return vote?.kind === 'unreachable' && vote.error !== undefined && !isReply(vote.error);
}

function voteInWords({ reply }: VoteReply, node: string): NodeAnswer {
  if (reply.outcome !== 'held') return { node, answer: 'acquired' };
  const { holder, holderTtlMs, holderState } = reply;
  return { node, answer: 'held', holder, holderTtlMs, ...(holderState && { holderState }) };
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

/** The most frequent owner, and how often it occurs; undefined: there is none. */
export function mostNamed(owners: readonly string[]): [owner: string, count: number] | undefined {
  const counts = new Map<string, number>();
  for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one)[0];
}

// Sends the same request to several masters at the same time, and decides as soon as their answers allow it.

/** The answer of one master; undefined: none yet. */
export type Answer<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly error?: unknown }
  | Skipped
  | undefined;

/** The master is not asked: it is down, or has restarted too recently. */
interface Skipped {
  readonly kind: 'skipped';
  readonly why: NodeAnswer;
}

/**
 * Resolves to the result of `decide`, or rejects if that is an error. `decide` is called after every answer, even after it has decided, and
 * with `isFinal` when no more answers are waited for.
 *
 * @param clock - the clock for `limitMs`
 * @param send - asks one master, or returns why not
 * @param limitMs - how long to wait for the answers, in milliseconds; a master that takes longer is recorded as overdue
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
    // After a blocked event loop the answers may be waiting unread: one more turn of the loop reads them.
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

/** The values of the masters that answered. */
export function values<T>(answers: readonly Answer<T>[]): T[] {
  return answers.flatMap((answer) => (answer?.kind === 'answered' ? [answer.value] : []));
}

/** Whether a master has executed the command, or may have, since its answer did not come. */
export function mayHaveRun(answer: Answer<unknown>): boolean {
  if (answer?.kind === 'answered') return answer.value !== false;
  if (answer?.kind === 'skipped') return false;
  return answer?.error === undefined || isOutcomeUnknown(answer.error);
}

/**
 * The error if more than `tolerated` masters refuse permanently (such as a key of another type), so that a majority is impossible;
 * undefined: there are fewer.
 */
export function refusalOfMany(
  answers: readonly Answer<unknown>[],
  tolerated: number,
): Error | undefined {
  const refusals = answers.flatMap((answer) => {
    if (answer?.kind !== 'unreachable' || !(answer.error instanceof Error)) return [];
    return isLasting(answer.error) ? [answer.error] : [];
  });
  return refusals.length > tolerated ? refusals[0] : undefined;
}

/** A master's answer as it appears in errors, converted by `read`; undefined: none yet. */
export function saidBy<T>(
  { name: node }: Master,
  answer: Answer<T>,
  read: (value: T, node: string) => NodeAnswer,
): NodeAnswer | undefined {
  if (answer?.kind === 'skipped') return answer.why;
  if (answer?.kind === 'answered') return read(answer.value, node);
  return answer && { node, answer: 'unreachable', reason: answer.reason };
}

/** The error if the masters' answers allow no decision. `what`: what could not be done, as in "not acquired". */
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
