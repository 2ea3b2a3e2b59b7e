// The live page: shows what the server-sent events tell. Names are anybody's text, so they are only ever set as text.

const ROW_HEIGHT = 32;
const byId = (id) => document.getElementById(id);

/** Name -> lock, as the server last told. */
const locks = new Map();
let points = [];
let changes = [];
let mayForce = false;
/** Whether there may be more locks than the server tells. */
let isCut = false;
/** What is to be added to this machine's clock to have the server's, in milliseconds. */
let aheadMs = 0;
/** The longest lease seen of each owner: what a full bar means. */
const leases = new Map();

const nowMs = () => Date.now() + aheadMs;

// What the server tells.

/** As many as the server keeps. */
const MOST_POINTS = 600;
const MOST_CHANGES = 2000;

function connect() {
  const source = new EventSource('api/events');
  const on = (name, handle) =>
    source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  on('facts', (facts) => {
    mayForce = facts.mayForce;
    draw();
  });
  on('all', (all) => {
    aheadMs = all.nowMs - Date.now();
    isCut = all.isCut;
    locks.clear();
    for (const row of all.rows) locks.set(row.name, row);
    points = all.points;
    changes = all.changes;
    trouble();
    draw();
  });
  on('look', (look) => {
    aheadMs = look.nowMs - Date.now();
    isCut = look.isCut;
    for (const row of look.changed) locks.set(row.name, row);
    for (const name of look.gone) locks.delete(name);
    points = thinned([...points, look.point]);
    changes = [...changes, ...look.changes].slice(-MOST_CHANGES);
    trouble();
    draw();
  });
  on('trouble', ({ message }) => trouble(message));
  source.addEventListener('error', () => {
    trouble('no connection to the app that serves this page; it is tried again');
    // The browser connects again by itself, but not after an answer such as a proxy's 502.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  });
}

/** Too many points become half as many, each the larger of two, as on the server. */
function thinned(all) {
  if (all.length <= MOST_POINTS) return all;
  const half = [];
  for (let index = 0; index < all.length; index += 2) {
    const [one, other = one] = all.slice(index, index + 2);
    half.push({
      atMs: other.atMs,
      held: Math.max(one.held, other.held),
      waiting: Math.max(one.waiting, other.waiting),
      longestWaitMs: Math.max(one.longestWaitMs, other.longestWaitMs),
    });
  }
  return half;
}

function trouble(message) {
  const banner = byId('banner');
  banner.hidden = message === undefined;
  if (message !== undefined) setText(banner, `What is shown is out of date: ${message}`);
}

// Small helpers.

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Only if it differs: what is set anew is read out anew. */
function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function inWords(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

const ago = ({ sinceMs }) => (sinceMs === undefined ? '?' : inWords(nowMs() - sinceMs));
const left = ({ endsAtMs }) =>
  endsAtMs === undefined ? 'without expiry' : inWords(endsAtMs - nowMs());
/** Who stands in line, or else listens. (A client goes on listening for a moment after its last wait.) */
const waitingOf = ({ waiters, waitingClients }) => waiters.length || waitingClients;

function waitText(lock) {
  if (lock.waiters.length > 0) return `${lock.waiters.length} in line`;
  if (lock.waitingClients === 0) return '';
  return lock.waitingClients === 1 ? '1 client' : `${lock.waitingClients} clients`;
}

function leasePart({ ownerId, endsAtMs }) {
  if (endsAtMs === undefined) return 100;
  const leftMs = Math.max(endsAtMs - nowMs(), 0);
  const longestMs = Math.max(leases.get(ownerId) ?? 0, leftMs);
  leases.set(ownerId, longestMs);
  if (leases.size > 20000) leases.clear();
  return longestMs === 0 ? 0 : Math.round((leftMs / longestMs) * 100);
}

// All locks: only the rows that can be seen are in the document, so that thousands are no burden.

const ORDERS = {
  name: (one, other) => (one.name < other.name ? -1 : 1),
  since: (one, other) =>
    (one.holders[0]?.sinceMs ?? Infinity) - (other.holders[0]?.sinceMs ?? Infinity),
  waiting: (one, other) => waitingOf(other) - waitingOf(one) || ORDERS.name(one, other),
  left: (one, other) =>
    (one.holders[0]?.endsAtMs ?? Infinity) - (other.holders[0]?.endsAtMs ?? Infinity),
};

let visible = [];

function filtered() {
  const text = byId('filter').value.toLowerCase();
  const isContended = byId('contended').checked;
  const has = (part) => part.toLowerCase().includes(text);
  return [...locks.values()]
    .filter((lock) => !isContended || waitingOf(lock) > 0)
    .filter(
      (lock) => text === '' || has(lock.name) || lock.holders.some(({ ownerId }) => has(ownerId)),
    )
    .sort(ORDERS[byId('sort').value]);
}

function drawAll() {
  visible = filtered();
  byId('space').style.height = `${visible.length * ROW_HEIGHT}px`;
  setText(byId('shown'), `${visible.length} of ${locks.size}${isCut ? ' or more' : ''}`);
  drawRows();
  drawCharts();
}

function drawRows() {
  const rows = byId('rows');
  const first = Math.max(Math.floor(rows.scrollTop / ROW_HEIGHT) - 5, 0);
  const count = Math.ceil(rows.clientHeight / ROW_HEIGHT) + 10;
  const wanted = visible.slice(first, first + count);
  const known = new Map([...rows.querySelectorAll('a.row')].map((row) => [row.dataset.name, row]));
  const { name: focused, index: focusedIndex } = document.activeElement?.dataset ?? {};
  for (const [name, row] of known) if (!wanted.some((lock) => lock.name === name)) row.remove();
  for (const [index, lock] of wanted.entries()) {
    const row = known.get(lock.name) ?? newRow(lock.name);
    fillRow(row, lock);
    row.style.top = `${(first + index) * ROW_HEIGHT}px`;
    row.dataset.index = String(first + index);
    // In the order of the list, for the tab key; a row that stands right already keeps its focus.
    const at = rows.children[index + 1];
    if (at !== row) rows.insertBefore(row, at ?? null);
  }
  // A row that was moved keeps its focus. If its lock is gone, the next one has it, so that the arrow keys go on.
  if (!known.has(focused) || document.activeElement?.dataset.name === focused) return;
  const isThere = visible.some((lock) => lock.name === focused);
  const next = visible[Math.min(Number(focusedIndex), visible.length - 1)]?.name;
  rowOf(isThere ? focused : next)?.focus({ preventScroll: true });
}

function newRow(name) {
  const row = element('a', undefined, 'row');
  row.dataset.name = name;
  row.href = `#${encodeURIComponent(name)}`;
  for (let i = 0; i < 6; i++) row.append(element('span'));
  row.children[4].className = 'lease';
  row.children[5].className = 'waits';
  return row;
}

function fillRow(row, lock) {
  const [holder, ...others] = lock.holders;
  const more = others.length > 0 ? ` +${others.length}` : '';
  const cells = [
    lock.name,
    lock.kind,
    holder ? holder.ownerId + (holder.isKept ? ' (kept)' : more) : 'nobody',
    holder ? `${ago(holder)} ago` : '',
    holder ? left(holder) : '',
    waitText(lock),
  ];
  for (const [index, text] of cells.entries()) setText(row.children[index], text);
  row.children[4].style.setProperty('--part', `${holder ? leasePart(holder) : 0}%`);
}

byId('rows').addEventListener('scroll', drawRows);
byId('rows').addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const index = Number(document.activeElement?.dataset?.index);
  if (!step || Number.isNaN(index)) return;
  event.preventDefault();
  const next = visible[index + step];
  if (!next) return;
  const rows = byId('rows');
  const top = (index + step) * ROW_HEIGHT;
  if (top < rows.scrollTop) rows.scrollTop = top;
  if (top + ROW_HEIGHT > rows.scrollTop + rows.clientHeight)
    rows.scrollTop = top + ROW_HEIGHT - rows.clientHeight;
  drawRows();
  rowOf(next.name)?.focus();
});

const rowOf = (name) =>
  [...byId('rows').querySelectorAll('a.row')].find((row) => row.dataset.name === name);

for (const id of ['filter', 'contended', 'sort']) byId(id).addEventListener('input', drawAll);

// Charts.

let charts;

function drawCharts() {
  const times = points.map(({ atMs }) => atMs / 1000);
  const counts = [times, points.map(({ held }) => held), points.map(({ waiting }) => waiting)];
  const waits = [times, points.map(({ longestWaitMs }) => longestWaitMs / 1000)];
  charts ??= [
    chart('chart-counts', [line('held', '#3b82f6'), line('waiting', '#f59e0b')]),
    chart('chart-waits', [line('longest wait', '#f59e0b')]),
  ];
  charts[0].setData(counts);
  charts[1].setData(waits);
}

const line = (label, stroke) => ({ label, stroke, width: 2, points: { show: false } });

function chart(id, series) {
  const colour = () => getComputedStyle(document.body).getPropertyValue('--soft');
  const grid = {
    stroke: () => getComputedStyle(document.body).getPropertyValue('--line'),
    width: 1,
  };
  const axis = { stroke: colour, grid, ticks: grid };
  const fromZero = (_, _least, most) => [0, Math.max(most ?? 1, 1) * 1.1];
  const options = {
    width: byId(id).clientWidth || 500,
    height: 150,
    series: [{}, ...series],
    axes: [axis, { ...axis, size: 44 }],
    scales: { y: { range: fromZero } },
    cursor: { y: false },
  };
  return new uPlot(options, [[], ...series.map(() => [])], byId(id));
}

window.addEventListener('resize', () => {
  for (const [index, id] of ['chart-counts', 'chart-waits'].entries())
    charts?.[index].setSize({ width: byId(id).clientWidth, height: 150 });
});

// One lock.

const chosen = () => {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ''; // a hash that is no name
  }
};

/** A lock that is not in the list, since that is cut: what the server says of it, when it was last asked. */
let asked = { name: '', lock: null };
let isAsking = false;

async function ask(name) {
  if (isAsking) return;
  isAsking = true;
  try {
    const response = await fetch(`api/lock?name=${encodeURIComponent(name)}`);
    if (response.ok) asked = { name, lock: (await response.json()).lock };
  } catch {
    // the app is gone: the banner says so
  } finally {
    isAsking = false;
  }
}

function lockNamed(name) {
  const lock = locks.get(name);
  if (lock || !isCut) return lock;
  void ask(name);
  return asked.name === name ? (asked.lock ?? undefined) : undefined;
}

/** Whether somebody marks text in a part of the page, which a new text would undo. */
function isMarked(part) {
  const selection = window.getSelection();
  return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function drawOne(name) {
  if (isMarked(byId('one'))) return;
  const lock = lockNamed(name);
  const heading = byId('one-name');
  setText(heading, lock ? `${name} (${lock.kind})` : name);
  const body = element('div');
  if (!lock) body.append(element('p', 'Nobody holds this lock.'));
  else describe(lock, body);
  byId('one-body').replaceChildren(body);
  byId('force').hidden = !mayForce;
  byId('force-button').disabled = !lock || lock.holders.length === 0;
  const items = changes
    .filter((change) => change.name === name)
    .slice(-100)
    .reverse()
    .map(({ atMs, what, ownerId }) => {
      const at = new Date(atMs - aheadMs).toLocaleTimeString();
      return element('li', `${at}  ${what} by ${ownerId}`);
    });
  byId('history').replaceChildren(...(items.length > 0 ? items : [element('li', 'no change yet')]));
}

function describe(lock, body) {
  const list = element('dl');
  const add = (term, text) => list.append(element('dt', term), element('dd', text));
  if (lock.permits) add('permits', `${lock.permits.available} of ${lock.permits.capacity} free`);
  for (const holder of lock.holders) {
    add(`${holder.isKept ? 'kept' : 'held'} by${what(holder)}`, holder.ownerId);
    if (holder.isKept)
      add(
        'in use',
        'perhaps not: its client keeps it for its next caller, until another client wants it',
      );
    add('client', holder.clientId);
    const isKnown = holder.sinceMs !== undefined;
    add('call began', isKnown ? `${ago(holder)} ago` : '? (not an owner of this holdfast)');
    add('lease left', left(holder));
    if (holder.holdCount > 1) add('times', String(holder.holdCount));
  }
  if (lock.holders.length === 0) add('held by', 'nobody');
  if (lock.token !== undefined) add('last fencing token', lock.token);
  body.append(list);
  if (lock.waiters.length > 0) {
    const line = element('ol');
    for (const waiter of lock.waiters)
      line.append(element('li', `${waiter.ownerId}${what(waiter)}, waits for ${ago(waiter)}`));
    body.append(element('h3', 'in line, first come first'), line);
  } else if (lock.waitingClients > 0)
    body.append(element('p', `${waitText(lock)} listening for its release`));
  if (lock.isCut) body.append(element('p', 'There are more than are listed.'));
}

function what({ mode, permits }) {
  if (mode) return mode === 'read' ? ' to read' : ' to write';
  return permits === undefined ? '' : ` (${permits} ${permits === 1 ? 'permit' : 'permits'})`;
}

/** The holders that the user was asked about. */
let shownOwnerIds = [];

byId('force-button').addEventListener('click', () => {
  const lock = lockNamed(chosen());
  if (!lock?.holders.length) return; // it was released before the button was drawn anew
  shownOwnerIds = lock.holders.map(({ ownerId }) => ownerId);
  const holders = shownOwnerIds.join(', ');
  byId('force-text').textContent =
    `${holders} ${lock.holders[0].isKept ? 'keeps' : 'holds'} it; its call began ${ago(lock.holders[0])} ago. It learns of this by a message or at its next renewal; until then it works on. Make sure that its process is gone.`;
  byId('force-said').textContent = '';
  byId('force-ask').hidden = false;
  byId('force-no').focus();
});
byId('force-no').addEventListener('click', () => {
  byId('force-ask').hidden = true;
  byId('force-button').focus();
});
byId('force-yes').addEventListener('click', async () => {
  byId('force-ask').hidden = true;
  const said = byId('force-said');
  try {
    const response = await fetch('api/force', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-holdfast': 'force' },
      body: JSON.stringify({ name: chosen(), ownerIds: shownOwnerIds }),
    });
    const answer = await response.json();
    if (!response.ok) said.textContent = answer.error ?? `refused (${response.status})`;
    else said.textContent = answer.forced ? 'It was freed.' : 'It had been released by then.';
  } catch (error) {
    said.textContent = String(error); // the app is gone, or answers no JSON
  }
});

// The page as a whole.

function draw() {
  const waiting = [...locks.values()].reduce((sum, lock) => sum + waitingOf(lock), 0);
  const held = [...locks.values()].reduce((sum, lock) => sum + lock.holders.length, 0);
  byId('counts').textContent = `${held} held, ${waiting} waiting`;
  const name = chosen();
  byId('all').hidden = name !== '';
  byId('one').hidden = name === '';
  if (name === '') drawAll();
  else drawOne(name);
}

/** The lock that was looked at last: its row has the focus when the list is back. */
let viewed = '';

window.addEventListener('hashchange', () => {
  byId('force-ask').hidden = true;
  byId('force-said').textContent = '';
  window.getSelection()?.removeAllRanges();
  draw();
  const name = chosen();
  if (name !== '') byId('one').querySelector('a').focus();
  else rowOf(viewed)?.focus();
  viewed = name;
});
document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === 'Escape' && chosen() !== '') location.hash = '';
  else if (event.key === 'Escape' && isTyping) event.target.blur();
  else if (event.key === '/' && !isTyping && chosen() === '') {
    event.preventDefault();
    byId('filter').focus();
  }
});

const theme = byId('theme');
const applyTheme = (name) => {
  if (name) document.documentElement.dataset.theme = name;
};
try {
  applyTheme(localStorage.getItem('holdfast-theme'));
} catch {
  // no storage: the system's theme
}
theme.addEventListener('click', () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === 'dark';
  applyTheme(isDark ? 'light' : 'dark');
  charts?.forEach((each) => each.redraw());
  try {
    localStorage.setItem('holdfast-theme', isDark ? 'light' : 'dark');
  } catch {
    // it lasts until the page is left
  }
});

connect();
setInterval(() => {
  if (chosen() === '') drawRows();
  else drawOne(chosen());
}, 1000);
