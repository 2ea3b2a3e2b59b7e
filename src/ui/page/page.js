// The live page: shows what the server-sent events tell. Names are anybody's text, so they are only ever set as text.

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
/** An age is marked from here on. */
const LONG_MS = 300_000;

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
    const names = new Set(all.rows.map(({ name }) => name));
    for (const name of locks.keys()) if (!names.has(name)) locks.delete(name);
    for (const row of all.rows) learn(row);
    points = withPast(all.points, [...locks.values()]);
    if (ownPoints.length === 0) beginView();
    changes = all.changes;
    trouble();
    draw();
  });
  on('look', (look) => {
    aheadMs = look.nowMs - Date.now();
    isCut = look.isCut;
    for (const row of look.changed) learn(row);
    for (const name of look.gone) locks.delete(name);
    points = thinned([...points, look.point]);
    if (!isOfAll()) ownPoints = thinned([...ownPoints, pointAt(nowMs(), inView(view()))]);
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

/** Takes a lock as the server tells it. The server does not know which leases are renewed: that is seen, look by look. */
function learn(row) {
  const known = new Map(locks.get(row.name)?.holders.map((holder) => [holder.ownerId, holder]));
  for (const holder of row.holders) {
    const before = known.get(holder.ownerId);
    holder.longestMs = Math.max(before?.longestMs ?? 0, holder.endsAtMs - nowMs());
    const isRenewed = before && holder.endsAtMs > before.endsAtMs + 500;
    holder.renewedAtMs = isRenewed ? nowMs() : before?.renewedAtMs;
  }
  locks.set(row.name, row);
}

/** Of these locks, what the charts show. Of the past, only those are known that were there by then and still are. */
function pointAt(atMs, rows, isPast = false) {
  const isThere = ({ sinceMs, state }) => state !== 'released' && (!isPast || sinceMs <= atMs);
  const point = { atMs, held: 0, waiting: 0, longestWaitMs: 0 };
  for (const { holders, waiters, waitingClients } of rows) {
    const line = waiters.filter(isThere);
    point.held += holders.filter(isThere).length;
    point.waiting += line.length || (isPast ? 0 : waitingClients);
    for (const { sinceMs = atMs } of line)
      point.longestWaitMs = Math.max(point.longestWaitMs, atMs - sinceMs);
  }
  return point;
}

/** The minute before the first point, as far as it is known. */
function withPast(known, rows) {
  const times = Array.from({ length: 31 }, (_, index) => nowMs() - (61 - 2 * index) * 1000);
  const past = times.filter((atMs) => !known[0] || atMs < known[0].atMs);
  return [...past.map((atMs) => pointAt(atMs, rows, true)), ...known];
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

const age = ({ sinceMs }) => (sinceMs === undefined ? '?' : inWords(nowMs() - sinceMs));
const sinceText = (holder) =>
  holder.state + (holder.isHeldSince ? ` ${age(holder)}` : `, asked ${age(holder)} ago`);
/** The same for a list, as short as can be. */
const stateText = (holder) => {
  if (holder.state !== 'held' || holder.sinceMs === undefined) return holder.state;
  return holder.isHeldSince ? `held ${age(holder)}` : `asked ${age(holder)} ago`;
};
const isLong = (holder) => holder.state === 'held' && nowMs() - holder.sinceMs >= LONG_MS;
const left = ({ endsAtMs }) =>
  endsAtMs === undefined ? 'without expiry' : inWords(endsAtMs - nowMs());
const listed = (items) => items.filter(Boolean).join(', ');
/** Who stands in line, or else listens. (A client goes on listening for a moment after its last wait.) */
const waitingOf = ({ waiters, waitingClients }) => waiters.length || waitingClients;

function waitText(lock) {
  if (lock.client && lock.waiters.length > 0) return `waits ${age(lock.waiters[0])}`;
  if (lock.waiters.length > 0) return `${lock.waiters.length} in line`;
  if (lock.waitingClients === 0) return '';
  return lock.waitingClients === 1 ? '1 client' : `${lock.waitingClients} clients`;
}

/** How much is left of a lease, of the longest that was seen of it: 0 to 1. */
const partLeft = ({ endsAtMs, longestMs }) =>
  endsAtMs === undefined || !longestMs ? 1 : Math.max(endsAtMs - nowMs(), 0) / longestMs;

/** A watchdog renews a lease when a third of it is over. Until then, and of a lease that was just taken, nothing is known. */
const isWatched = (holder) => holder.renewedAtMs !== undefined && partLeft(holder) >= 0.5;
/** Nobody renews what was released or exported. */
const isRunningOut = (holder) => ['held', 'kept'].includes(holder.state) && partLeft(holder) < 0.5;

// What is looked at: all locks, one of them, or a client. No encoded name has an equals sign.

function view() {
  const [, of, text] = /^#(client=)?(.*)$/s.exec(location.hash) ?? [];
  try {
    return { name: '', client: '', [of ? 'client' : 'name']: decodeURIComponent(text ?? '') };
  } catch {
    return { name: '', client: '' }; // a hash that is no name
  }
}

const isOfAll = () => view().name + view().client === '';
const hrefOf = (client) => `#client=${encodeURIComponent(client)}`;

/** The locks of a view; of a client's locks, only its part. */
function inView({ name, client }) {
  if (name !== '') return [lockNamed(name)].filter(Boolean);
  if (client === '') return [...locks.values()];
  const isOwn = ({ clientId }) => clientId === client;
  return [...locks.values()]
    .map((lock) => ({
      ...lock,
      client,
      holders: lock.holders.filter(isOwn),
      waiters: lock.waiters.filter(isOwn),
      waitingClients: 0,
    }))
    .filter(({ holders, waiters }) => holders.length + waiters.length > 0);
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

function filtered(rows) {
  const text = byId('filter').value.toLowerCase();
  const isContended = byId('contended').checked;
  const has = (part) => part.toLowerCase().includes(text);
  const hasOwner = ({ ownerId }) => has(ownerId);
  return rows
    .filter((lock) => !isContended || waitingOf(lock) > 0)
    .filter(
      ({ name, holders, waiters }) =>
        text === '' || has(name) || holders.some(hasOwner) || waiters.some(hasOwner),
    )
    .sort(ORDERS[byId('sort').value]);
}

const isNarrow = window.matchMedia('(max-width: 700px)');
const rowHeight = () => (isNarrow.matches ? 73 : 33);

function drawAll() {
  const rows = inView(view());
  visible = filtered(rows);
  byId('space').style.height = `${visible.length * rowHeight()}px`;
  setText(byId('shown'), `${visible.length} of ${rows.length}${isCut ? ' or more' : ''}`);
  byId('none').hidden = visible.length > 0;
  setText(
    byId('none'),
    rows.length > 0 ? 'No lock is like that.' : 'Nobody holds or awaits a lock.',
  );
  drawRows();
}

function drawRows() {
  const rows = byId('rows');
  const height = rowHeight();
  const first = Math.max(Math.floor(rows.scrollTop / height) - 5, 0);
  const count = Math.ceil(rows.clientHeight / height) + 10;
  const wanted = visible.slice(first, first + count);
  const known = new Map([...rows.querySelectorAll('a.row')].map((row) => [row.dataset.name, row]));
  const { name: focused, index: focusedIndex } = document.activeElement?.dataset ?? {};
  for (const [name, row] of known) if (!wanted.some((lock) => lock.name === name)) row.remove();
  for (const [index, lock] of wanted.entries()) {
    const row = known.get(lock.name) ?? newRow(lock.name);
    fillRow(row, lock);
    row.style.top = `${(first + index) * height}px`;
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
  // The end of a long name tells it from others, so the middle is what is cut.
  const letters = [...name];
  const parts = element('span', undefined, 'name');
  parts.append(element('span', letters.slice(0, -10).join('')), letters.slice(-10).join(''));
  row.append(parts);
  for (const part of ['kind', 'holder', 'age', 'lease', 'waits'])
    row.append(element('span', undefined, part));
  return row;
}

function fillRow(row, lock) {
  // A client that waits sees whom it waits for.
  const holders = lock.holders.length > 0 ? lock.holders : (locks.get(lock.name)?.holders ?? []);
  const [holder] = holders;
  const more = holders.length > 1 ? ` +${holders.length - 1}` : '';
  const cells = [
    lock.kind,
    holder ? holder.clientId + more : 'nobody',
    holder ? stateText(holder) : '',
    holder ? left(holder) + (isWatched(holder) ? ' ↻' : '') : '',
    waitText(lock),
  ];
  for (const [index, text] of cells.entries()) setText(row.children[index + 1], text);
  const [, , , since, lease] = row.children;
  row.title = listed([lock.name, holder?.ownerId]);
  since.classList.toggle('long', holder !== undefined && isLong(holder));
  lease.classList.toggle('ends', holder !== undefined && isRunningOut(holder));
  lease.style.setProperty('--part', `${holder ? Math.round(partLeft(holder) * 100) : 0}%`);
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
  const bottom = (index + step + 1) * rowHeight();
  rows.scrollTop = Math.min(rows.scrollTop, bottom - rowHeight());
  rows.scrollTop = Math.max(rows.scrollTop, bottom - rows.clientHeight);
  drawRows();
  rowOf(next.name)?.focus();
});

const rowOf = (name) =>
  [...byId('rows').querySelectorAll('a.row')].find((row) => row.dataset.name === name);

for (const id of ['filter', 'contended', 'sort']) byId(id).addEventListener('input', drawAll);

// Charts.

let charts;
/** Those of one lock or of a client, since it is looked at. */
let ownPoints = [];

function beginView() {
  const rows = isOfAll() ? [] : inView(view());
  ownPoints = withPast([pointAt(nowMs(), rows)], rows);
}

function drawCharts() {
  const { name, client } = view();
  setText(byId('charts-of'), name || client || 'all locks');
  const shown = isOfAll() ? points : ownPoints;
  const times = shown.map(({ atMs }) => atMs / 1000);
  const counts = [times, shown.map(({ held }) => held), shown.map(({ waiting }) => waiting)];
  const waits = [times, shown.map(({ longestWaitMs }) => Math.round(longestWaitMs / 1000))];
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
  const clock = (seconds) => new Date((seconds - aheadMs / 1000) * 1000).toLocaleTimeString();
  const times = { space: 90, incrs: [1, 5, 10, 15, 30, 60, 300, 900, 3600, 14400, 86400] };
  const counts = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].flatMap((one) => [one, 2 * one, 5 * one]);
  // The latest, while nobody points at another.
  const value = (plot, at, index) => at ?? plot.data[index].at(-1) ?? '';
  const fromZero = (_, _least, most) => [0, Math.max(most ?? 1, 1) * 1.1];
  const options = {
    width: byId(id).clientWidth || 500,
    height: 150,
    padding: [8, 36, 0, 0],
    series: [
      { label: 'at', value: (...at) => clock(value(...at)) },
      ...series.map((each) => ({ ...each, value })),
    ],
    axes: [
      { ...axis, ...times, size: 30, values: (_, at) => at.map(clock) },
      { ...axis, size: 52, incrs: counts },
    ],
    scales: { y: { range: fromZero } },
    cursor: { y: false },
  };
  return new uPlot(options, [[], ...series.map(() => [])], byId(id));
}

window.addEventListener('resize', () => {
  for (const [index, id] of ['chart-counts', 'chart-waits'].entries())
    charts?.[index].setSize({ width: byId(id).clientWidth, height: 150 });
  draw();
});

// One lock.

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
  const { holders = [], waiters = [], permits } = lock ?? {};
  const facts = listed([
    permits && `${permits.available} of ${permits.capacity} permits free`,
    lock?.token && `last fencing token ${lock.token}`,
    lock?.isCut && 'there are more than are listed',
  ]);
  setText(byId('facts'), facts);
  fillOwners(byId('holders'), holders, lock ? 'nobody' : 'Nobody holds this lock.', aboutHolder);
  const others =
    lock?.waitingClients > 0 ? `${waitText(lock)} listening for its release` : 'nobody';
  fillOwners(byId('waiters'), waiters, others, aboutWaiter);
  byId('force').hidden = !mayForce;
  byId('force-button').disabled = holders.length === 0;
  const items = changes
    .filter((change) => change.name === name)
    .slice(-100)
    .reverse()
    .map(({ atMs, what, ownerId }) => {
      const at = new Date(atMs - aheadMs).toLocaleTimeString();
      return element('li', `${at}  ${what} ${ownerId}`);
    });
  byId('history').replaceChildren(...(items.length > 0 ? items : [element('li', 'no change yet')]));
}

/** Changes what is there, since a link that is made anew loses its focus. */
function fillOwners(list, owners, nobody, about) {
  while (list.children.length > owners.length) list.lastElementChild.remove();
  setText(list.nextElementSibling, owners.length > 0 ? '' : nobody);
  for (const [index, owner] of owners.entries()) {
    const item = list.children[index] ?? list.appendChild(element('li'));
    if (!item.firstChild) item.append(element('a'), element('span'), element('span'));
    const [link, since, rest] = item.children;
    link.href = hrefOf(owner.clientId);
    link.title = `all that ${owner.clientId} holds and waits for`;
    setText(link, owner.ownerId);
    const [first, ...others] = about(owner).filter(Boolean);
    setText(since, others.length > 0 ? `${first}, ` : first);
    setText(rest, listed(others));
    since.classList.toggle('long', list.id === 'holders' && isLong(owner));
  }
}

function aboutHolder(holder) {
  const { sinceMs, holdCount, renewedAtMs } = holder;
  return [
    sinceMs === undefined ? `${holder.state} by no owner of this holdfast` : sinceText(holder),
    what(holder),
    holdCount > 1 && `${holdCount} times`,
    `${holder.state === 'released' ? 'stays taken for' : 'lease left'} ${left(holder)}`,
    isWatched(holder) && `renewed ${inWords(nowMs() - renewedAtMs)} ago`,
    isRunningOut(holder) && 'not renewed: it is fixed, or its holder is gone',
    holder.state === 'kept' &&
      'perhaps not in use: its client keeps it for its next caller, until another client wants it',
  ];
}

const aboutWaiter = (waiter) => [`waits ${age(waiter)}`, what(waiter)];

function what({ mode, permits }) {
  if (mode) return mode === 'read' ? 'to read' : 'to write';
  return permits === undefined ? '' : `${permits} ${permits === 1 ? 'permit' : 'permits'}`;
}

/** The holders that the user was asked about. */
let shownOwnerIds = [];

byId('force-button').addEventListener('click', () => {
  const { name } = view();
  const lock = lockNamed(name);
  if (!lock?.holders.length) return; // it was released before the button was drawn anew
  shownOwnerIds = lock.holders.map(({ ownerId }) => ownerId);
  const holders = shownOwnerIds.join(', ');
  const isReleased = lock.holders.every(({ state }) => state === 'released');
  const warning = isReleased
    ? 'Nobody works any more, but others start before that time is over.'
    : 'The holder learns of this by a message or at its next renewal; until then it works on. Make sure that its process is gone.';
  const since = isReleased ? '' : ` (${sinceText(lock.holders[0])})`;
  byId('force-text').textContent =
    `Free “${name}”? It is ${lock.holders[0].how} ${holders}${since}. ${warning}`;
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
      body: JSON.stringify({ name: view().name, ownerIds: shownOwnerIds }),
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
  const { held, waiting } = pointAt(nowMs(), [...locks.values()]);
  byId('counts').textContent = `${held} held, ${waiting} waiting`;
  const { name, client } = view();
  byId('all').hidden = name !== '';
  byId('one').hidden = name === '';
  byId('subject').hidden = isOfAll();
  const kind = name && lockNamed(name)?.kind;
  setText(byId('one-name'), client || (kind ? `${name} (${kind})` : name));
  if (client) setText(byId('facts'), doneBy(client));
  if (name === '') drawAll();
  else drawOne(name);
  drawCharts();
}

function doneBy(client) {
  const { held: holds, waiting: waits } = pointAt(nowMs(), inView({ name: '', client }));
  return `This client holds ${holds} and waits in ${waits} lines. The server does not know who waits for a plain lock.`;
}

/** The lock that was looked at last: its row has the focus when the list is back. */
let viewed = '';

window.addEventListener('hashchange', () => {
  byId('force-ask').hidden = true;
  byId('force-said').textContent = '';
  window.getSelection()?.removeAllRanges();
  beginView();
  draw();
  const { name, client } = view();
  if (name || client) byId('subject').querySelector('a').focus();
  else rowOf(viewed)?.focus();
  viewed = name;
});
document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  const { name, client } = view();
  if (event.key === 'Escape' && !byId('force-ask').hidden) byId('force-no').click();
  else if (event.key === 'Escape' && isTyping) event.target.blur();
  else if (event.key === 'Escape' && (name || client)) location.hash = '';
  else if (event.key === '/' && !isTyping && name === '') {
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
  const { name } = view();
  if (name === '') drawRows();
  else drawOne(name);
}, 1000);
