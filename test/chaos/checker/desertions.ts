// What was given up while it was on its way is taken back at once: who comes next need not wait for its lease to end.
import { DESERTION } from '../worker/desertions.js';
import { isDisturbed, stoodStillMs, type Evidence, type Violation } from './evidence.js';
import { grouped } from './grouped.js';
import type { Section } from './history.js';
import { slowestAnswerMs } from './wake-ups.js';

/** Of a lease: one that was left behind goes on for longer. */
const LATE = 0.5;
/** Once may be the machine's doing. */
const LEAST = 2;
const SHARE = 0.3;

/** Names that one call has given up, and of which the next one was kept out, though all was well. */
export function desertions(evidence: Evidence): Violation[] {
  const { history, plan } = evidence;
  const calls = [...history.sections.values()].filter(({ how }) => how === DESERTION);
  const waits = [...grouped(calls, ({ locks }) => locks[0]!).values()].flatMap(([gone, next]) => {
    if (gone?.failure?.code !== 'LOCK_ABORTED' || next?.enteredAt === undefined) return [];
    if (isDisturbed(evidence, next, gone.calledAt, next.enteredAt)) return [];
    return [{ gone, next, ms: waitedMs(evidence, next, next.enteredAt) }];
  });
  const late = waits.filter(({ ms }) => ms > LATE * plan.watchdogMs);
  const [first] = late;
  if (!first || late.length < LEAST || late.length < SHARE * waits.length) return [];
  const { gone, next, ms } = first;
  return [
    {
      rule: 'left behind',
      at: next.enteredAt!,
      lock: next.locks[0],
      sections: [gone, next],
      message: `${gone.id} was given up while it was on its way, and ${next.id} was kept out for ${Math.round(ms)} ms; so it was ${late.length} of ${waits.length} times`,
    },
  ];
}

/** Without what the machine took of it. */
function waitedMs(evidence: Evidence, next: Section, enteredAt: number): number {
  const lagMs = stoodStillMs(evidence, next, next.calledAt, enteredAt);
  return (
    enteredAt - next.calledAt - lagMs - 3 * slowestAnswerMs(evidence, next.calledAt, enteredAt)
  );
}
