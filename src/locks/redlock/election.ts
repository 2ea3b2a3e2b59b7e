// An election: whether one owner gets a lock that most of several masters must grant.
// The algorithm is Redis' Redlock: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/

import { type Deadline, deadlineOf, type HeldReply, leftMs } from '../../core/protocol.js';
import { type NodeAnswer, QuorumError, type SeenHolder } from '../../api/errors.js';
import { type Clock, now, type TimeLimit } from '../../runtime/clock.js';
import { isNearTheEnd } from '../fenced.js';
import type { VoteReply } from '../plain.js';
import type { Master } from './master.js';
import { describe, failureKind } from '../../redis/failure.js';
import { guarded, type Requirement, type RestartGuard } from './restart-guard.js';
import { Undecided } from '../../core/retry.js';

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

// What became of asking the masters of a Redlock for their votes: whose count, for how long a master must have been up for that, and
// what a token must be at least.

interface Electorate {
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

class Ballot {
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

// Asks several masters the same thing at the same time, and decides as soon as their answers allow.

/** What one master answered; undefined: nothing so far. */
export type Answer<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly error?: unknown }
  | undefined;

/**
 * Resolves to what `decide` returns, or rejects if that is an error. `decide` is called after every answer, and with `isFinal` when no more
 * will be waited for.
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
    let unanswered = masters.length;
    const settled = (index: number, answer: Answer<T>): void => {
      if (answers[index]) return;
      answers[index] = answer;
      unanswered--;
      if (unanswered === 0) clock.clearTimer(timer);
      const decision = decide(answers, unanswered === 0);
      if (decision instanceof Error) reject(decision);
      else if (decision !== undefined) resolve(decision);
    };
    const sent = masters.map((master, index) => {
      const answer = send(master, index);
      answer.then(
        (value) => {
          settled(index, { kind: 'answered', value });
        },
        (error: unknown) => {
          const reason = error instanceof Error ? describe(error) : String(error);
          settled(index, { kind: 'unreachable', reason, error });
        },
      );
      return answer;
    });
    const judge = (): void => {
      for (const [index, answer] of sent.entries()) {
        if (answers[index]) continue;
        masters[index]?.overdue(answer);
        settled(index, { kind: 'unreachable', reason: `no answer within ${String(limitMs)} ms` });
      }
    };
    // After a blocked event loop the answers may be here, unread: one turn of the loop reads them first.
    let timer = clock.setTimer(() => {
      timer = clock.setTimer(judge, 1);
    }, limitMs);
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

// Not enough masters answered: tried again until the wait is over, then told as a QuorumError.

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
