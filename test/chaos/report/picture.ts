// A timeline as an SVG: who waited, held and believed, what the server said, and what went wrong meanwhile.
import type { Evidence, Violation } from '../checker/evidence.js';
import { belief, type Section } from '../checker/history.js';

const WIDTH = 1_300;
const LABEL_WIDTH = 170;
const ROW = 18;

interface Bar {
  readonly from: number;
  readonly until: number;
  readonly colour: string;
  readonly title: string;
}

interface Row {
  readonly label: string;
  readonly bars: readonly Bar[];
}

/** The time around a violation: a few leases before it, one after it. */
export function picture(evidence: Evidence, violation: Violation): string {
  const { watchdogMs } = evidence.plan;
  const from = violation.at - 3 * watchdogMs;
  const until = violation.at + watchdogMs;
  const x = (at: number): number =>
    LABEL_WIDTH +
    ((Math.min(Math.max(at, from), until) - from) / (until - from)) * (WIDTH - LABEL_WIDTH);
  const rows = [
    ...faultRows(evidence),
    ...serverRows(evidence, violation),
    ...callerRows(evidence, violation),
  ]
    .map(({ label, bars }) => ({
      label,
      bars: bars.filter((bar) => bar.until >= from && bar.from <= until),
    }))
    .filter(({ bars }) => bars.length > 0);
  const height = (rows.length + 2) * ROW;
  const shapes = rows.flatMap(({ label, bars }, index) => [
    text(0, (index + 1) * ROW, label),
    ...bars.map((bar) => {
      const left = x(bar.from);
      const width = Math.max(1, x(bar.until) - left);
      return `<rect x="${left.toFixed(1)}" y="${index * ROW + 5}" width="${width.toFixed(1)}" height="${ROW - 5}" fill="${bar.colour}"><title>${safe(bar.title)}</title></rect>`;
    }),
  ]);
  const ticks = Array.from({ length: 9 }, (_, i) => {
    const at = from + ((until - from) * i) / 8;
    return text(x(at) - 15, height - 6, `${Math.round(at - violation.at)} ms`);
  });
  const here = `<line x1="${x(violation.at)}" x2="${x(violation.at)}" y1="0" y2="${height - ROW}" stroke="#c00"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH + 20}" height="${height}" font-family="ui-monospace, monospace" font-size="11">
${shapes.join('\n')}
${ticks.join('\n')}
${here}
</svg>
<p>grey: waits · light green: entered · green: believes · blue, violet: whom the server names, by turns · orange: a fault · red line: the violation</p>`;
}

function faultRows({ faults }: Evidence): Row[] {
  return faults.map(({ nemesis, from, until, workers, clients, servers, detail }) => {
    const whom = [
      workers && `w${workers.join()}`,
      clients && `c${clients.join()}`,
      servers && `s${servers.join()}`,
    ];
    const label = `${nemesis} ${whom.filter(Boolean).join(' ')}`;
    return {
      label: label.slice(-27),
      bars: [{ from, until, colour: '#f90', title: `${label} ${detail}` }],
    };
  });
}

/** One bar for each time in which a server named the same owner. */
function serverRows({ looks }: Evidence, { lock }: Violation): Row[] {
  const rows = new Map<string, Bar[]>();
  for (const { server, lock: name, holders, from, until } of looks) {
    const owner = holders.map((holder) => holder.owner).join(', ') || undefined;
    if (lock !== undefined && name !== lock) continue;
    const label = `server ${server}: ${name}`;
    const bars = rows.get(label) ?? [];
    rows.set(label, bars);
    const last = bars.at(-1);
    if (last?.title === (owner ?? 'nobody')) bars[bars.length - 1] = { ...last, until };
    else {
      const colour = owner === undefined ? '#eee' : bars.length % 2 === 0 ? '#58f' : '#95f';
      bars.push({ from, until, colour, title: owner ?? 'nobody' });
    }
  }
  return [...rows].map(([label, bars]) => ({ label, bars }));
}

function callerRows({ history }: Evidence, { lock, sections: accused }: Violation): Row[] {
  const rows = new Map<string, Bar[]>();
  for (const section of history.sections.values()) {
    if (lock !== undefined && !section.locks.includes(lock)) continue;
    const caller = section.id.slice(0, section.id.lastIndexOf('.'));
    const bars = rows.get(caller) ?? [];
    rows.set(caller, bars);
    bars.push(...barsOf(section, accused.includes(section)));
  }
  return [...rows]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([label, bars]) => ({ label, bars }));
}

function barsOf(section: Section, isAccused: boolean): Bar[] {
  const { calledAt, enteredAt, endedAt = Infinity, id, owner } = section;
  const title = `${id} ${section.how} ${owner ?? ''} ${section.failure?.code ?? ''}`;
  const bars: Bar[] = [{ from: calledAt, until: enteredAt ?? endedAt, colour: '#ccc', title }];
  if (enteredAt !== undefined)
    bars.push({ from: enteredAt, until: endedAt, colour: '#bfb', title });
  const believed = belief(section);
  if (believed)
    bars.push({
      from: believed[0],
      until: believed[1],
      colour: isAccused ? '#d33' : '#3a3',
      title,
    });
  return bars;
}

function text(x: number, y: number, content: string): string {
  return `<text x="${x.toFixed(0)}" y="${y}">${safe(content)}</text>`;
}

function safe(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
