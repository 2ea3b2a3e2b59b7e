// Plays the demo in a terminal and writes what was seen as an animated picture for the README: demo/recorded-{dark,light}.svg
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { installPackages, root } from './setup.mjs';

/** How fast it plays; for how long a frame stands at least, since each costs bytes, and for how long the last one. */
const [SPEED, FRAME_MS, LAST_MS] = [2.4, 240, 5_000];
/** What comes, in this order, and takes so much longer to read. */
const toRead = [
  [/1 of 2/, 1_000],
  [/\b0 s left/, 1_500],
  [/2 of 2/, 1_000],
  [/SIGKILL/, 1_200],
  [/after the kill, when/, 1_200],
];
/** What the demo writes at once may arrive in pieces. */
const AT_ONCE_MS = 60;
const [COLUMNS, ROWS] = [80, 24];
const [CELL, LINE, MARGIN, BAR] = [10, 21, 16, 34];
const [WIDTH, HEIGHT] = [COLUMNS * CELL + 2 * MARGIN, BAR + ROWS * LINE + MARGIN];
/** The background, its edge, and text: plain, dim, red and green. */
const THEMES = {
  dark: ['#0d1117', '#3d444d', '#e6edf3', '#9198a1', '#ff7b72', '#3fb950'],
  light: ['#ffffff', '#d1d9e0', '#1f2328', '#59636e', '#cf222e', '#1a7f37'],
};

installPackages();
const { frames, lastsMs } = cut(await record());
for (const [name, theme] of Object.entries(THEMES))
  writeFileSync(`${root}/demo/recorded-${name}.svg`, draw(theme));

/** All that was to be seen, and when. */
async function record() {
  const { default: xterm } = await import('@xterm/headless');
  const terminal = new xterm.Terminal({ cols: COLUMNS, rows: ROWS, allowProposedApi: true });
  const command = `stty cols ${COLUMNS} rows ${ROWS}; exec node scripts/demo.mjs`;
  const env = { ...process.env, TERM: 'xterm-256color', NO_COLOR: undefined };
  const demo = spawn('script', ['-qefc', command, '/dev/null'], { cwd: root, env });
  const pieces = [];
  demo.stdout.on('data', (data) => pieces.push({ atMs: Date.now(), data }));
  const [code] = await once(demo, 'close');
  if (code !== 0) throw new Error(`the demo failed, with ${code}`);
  const pictures = [];
  for (const [i, { atMs, data }] of pieces.entries()) {
    await new Promise((resolve) => terminal.write(data, resolve));
    if (pieces[i + 1]?.atMs < atMs + AT_ONCE_MS) continue;
    pictures.push({ atMs, runs: runsOf(terminal.buffer.active) });
  }
  return pictures;
}

/** What stands in one line in one style, with no more than a space in between. */
function runsOf(buffer) {
  const runs = [];
  for (let at = 0; at < ROWS * COLUMNS; at++) {
    const [x, y] = [at % COLUMNS, Math.floor(at / COLUMNS)];
    const cell = buffer.getLine(buffer.baseY + y).getCell(x);
    const text = cell.getChars().trim();
    if (text === '') continue;
    const style = cell.isBold() ? 'b' : cell.isDim() ? 'd' : 'nrg'[Math.max(cell.getFgColor(), 0)];
    const last = runs.at(-1);
    const gap = x - last?.x - last?.text.length;
    if (last?.y !== y || last.style !== style || gap > 1) runs.push({ x, y, style, text });
    else last.text += ' '.repeat(gap) + text;
  }
  return runs;
}

/** What is shown of it, and from when on: from the first thing to read. */
function cut(pictures) {
  const shown = [];
  let atMs = 0;
  for (const [i, { atMs: cameMs, runs }] of pictures.entries()) {
    const isToRead = runs.some(({ text }) => toRead[0]?.[0].test(text));
    if (shown.length === 0 && !isToRead) continue;
    const next = pictures[i + 1];
    if (isToRead || !next || atMs >= shown.at(-1).fromMs + FRAME_MS)
      shown.push({ fromMs: atMs, runs: runs.map(drawRun) });
    atMs += next ? (next.atMs - cameMs) / SPEED : LAST_MS;
    if (isToRead) atMs += toRead.shift()[1];
  }
  if (toRead.length > 0) throw new Error(`the demo did not show ${toRead[0][0]}`);
  return { frames: shown, lastsMs: Math.round(atMs) };
}

/** As wide as its cells, whatever the font. */
function drawRun({ x, y, style, text }) {
  const place = `x="${MARGIN + x * CELL}" y="${BAR + y * LINE + 16}"`;
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text class="${style}" ${place} textLength="${text.length * CELL}">${escaped}</text>`;
}

/** What comes and goes together is a group with an animation of its own. Without animations the last frame is seen. */
function draw([back, edge, plain, dim, red, green]) {
  const groups = new Map();
  for (const [from, { runs }] of frames.entries()) {
    for (const run of runs.filter((run) => !frames[from - 1]?.runs.includes(run))) {
      const gone = frames.findIndex((frame, i) => i > from && !frame.runs.includes(run));
      const time = `${from} ${gone < 0 ? frames.length : gone}`;
      groups.set(time, (groups.get(time) ?? '') + run);
    }
  }
  const at = (i) => `${((100 * (frames[i]?.fromMs ?? lastsMs)) / lastsMs).toFixed(2)}%`;
  const film = [...groups].map(([time, runs], n) => {
    const [from, to] = time.split(' ').map(Number);
    const rule = `0%,${at(to)}{visibility:hidden}${at(from)}{visibility:visible}`;
    const isLast = to === frames.length ? ' class="last"' : '';
    return [`@keyframes f${n}{${rule}}`, `<g${isLast} style="animation-name:f${n}">${runs}</g>`];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}"><style>
text{font:16.6px monospace;fill:${plain}}.b{font-weight:bold}.d{fill:${dim}}.r{fill:${red}}.g{fill:${green}}
g{visibility:hidden}.last{visibility:visible}@media (prefers-reduced-motion:no-preference){g{animation:${lastsMs}ms step-end infinite}}
${film.map(([rule]) => rule).join('\n')}
</style><rect x=".5" y=".5" width="${WIDTH - 1}" height="${HEIGHT - 1}" rx="8" fill="${back}" stroke="${edge}"/>
<text class="d" x="${MARGIN}" y="22">$ npm run demo</text><text class="d" x="${WIDTH - MARGIN}" y="22" text-anchor="end">${SPEED}× speed</text>
${film.map(([, group]) => group).join('\n')}
</svg>
`;
}
