// Asks several masters the same thing at the same time, and decides as soon as their answers allow.

import type { Clock } from '../../runtime/clock.js';
import { describe, failureKind } from '../../redis/failure.js';
import type { Master } from './master.js';

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
