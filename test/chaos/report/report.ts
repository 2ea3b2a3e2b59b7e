// What is written down of a violation: one HTML file with all that it takes to understand it, and all events beside it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Violation } from '../checker/evidence.js';
import type { Plan } from '../plan.js';
import type { RoundResult } from '../round.js';
import { allEvents, eventsAround, type TimedEvent } from './events.js';
import { picture } from './picture.js';

/** How many events before a violation its report tells. */
const EVENT_COUNT = 200;
/** How many are printed for the first violation, since a CI run may keep no report. */
const PRINTED_COUNT = 100;

/** Returns what to print: where the report is, and what it is about. */
export function writeReport(result: RoundResult, folder: string): string {
  const { plan, violations } = result;
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${plan.kind}-${plan.seed}.html`);
  writeFileSync(path, html(result));
  writeFileSync(path.replace('.html', '.txt'), allOf(result));
  const lines = violations.slice(0, 5).map(({ rule, message }) => `  ${rule}: ${message}`);
  const more = violations.length > 5 ? [`  and ${violations.length - 5} more`] : [];
  const printed = violations
    .slice(0, 1)
    .flatMap((first) =>
      eventsAround(result.evidence, first, PRINTED_COUNT).map(lineFrom(first.at)),
    );
  return [
    `VIOLATION in ${plan.kind} ${plan.seed} on ${plan.topology}: ${path}`,
    ...lines,
    ...more,
    `  again: ${replayOf(plan)}`,
    ...printed,
  ].join('\n');
}

function html(result: RoundResult): string {
  const { plan, violations } = result;
  const planned = { ...plan, faults: plan.faults.length };
  return `<!doctype html>
<meta charset="utf-8">
<title>${plan.kind} ${plan.seed}</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; max-width: 1400px }
td, th { padding: 1px 10px 1px 0; text-align: left; vertical-align: top; white-space: pre-wrap }
td:first-child { text-align: right; font-variant-numeric: tabular-nums }
pre, code, table { font: 12px/1.4 ui-monospace, monospace }
tr.fault { color: #a50 } tr.seen { color: #777 } tr.here { background: #fdd }
</style>
<h1>${plan.kind} ${plan.seed}, on ${plan.topology}</h1>
<p>Again: <code>${replayOf(plan)}</code> — the plan repeats, the timing does not.</p>
<pre>${escape(JSON.stringify(planned))}</pre>
<ol>${violations.map(({ rule, message }) => `<li><b>${rule}</b>: ${escape(message)}</li>`).join('')}</ol>
${violations
  .slice(0, 3)
  .map((violation) => about(violation, result))
  .join('\n')}
`;
}

/** Every event of the round, a line each; times from when it was healed. */
function allOf({ evidence }: RoundResult): string {
  return `${allEvents(evidence).map(lineFrom(evidence.healedAt)).join('\n')}\n`;
}

/** Writes an event as one line, with its time in milliseconds from `zeroAt`. */
function lineFrom(zeroAt: number): (event: TimedEvent) => string {
  return ({ at, who, what }) => `${(at - zeroAt).toFixed(1)} ${who} ${what}`;
}

function about(violation: Violation, { evidence }: RoundResult): string {
  const events = eventsAround(evidence, violation, EVENT_COUNT);
  const rows = events.map(
    ({ at, who, what, kind }) =>
      `<tr class="${kind}"><td>${(at - violation.at).toFixed(1)}<td>${escape(who)}<td>${escape(what)}`,
  );
  return `<h2>${violation.rule}</h2>
<p>${escape(violation.message)}</p>
${picture(evidence, violation)}
<table><tr><th>ms<th>who<th>what${rows.join('\n')}</table>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

/** The command line for the same plan; the timing is another one. */
function replayOf({ kind, seed, topology, phases, isLong }: Plan): string {
  const where = topology === 'masters' ? '' : ` --topology ${topology}`;
  return `npm run chaos -- --kind ${kind} --seed ${seed} --rounds 1 --seconds ${phases.faultsMs / 1_000}${where}${isLong ? ' --long' : ''}`;
}
