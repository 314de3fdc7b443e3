// The list of the runs of a folder: sorted and filtered here, with a small curve of each run that is seen.

import { ask, byId, figure, h, tell, tip, whole } from '/f/dom.js';
import { Theme } from '/f/theme.js';

const PAGE_ROWS = 120, SKETCHES = 12, RELOAD_MS = 4000, ADDRESS_MS = 200, CHOICES_MAX = 60;
const SVG = 'http://www.w3.org/2000/svg';
const WORDS = {
  'not checked': 'sealed, and no fault is visible; replay info reads all of it', incomplete: 'the recording was not closed, or ticks were dropped', corrupt: 'damage was found',
  unreadable: 'not a tape, or nothing of it can be read', 'being recorded': 'a process is recording it now',
};
const KINDS = { 'being recorded': 'recording', 'not checked': 'plain' };
// Title, value to sort by, and what a cell shows. A column without any value is not there.
const COLUMNS = {
  name: ['run', (run) => run.name, (run) => (run.can_open ? h('a', { href: addressOf(run), textContent: run.name }) : run.name), 'left'],
  status: ['status', (run) => run.status, (run) => h('span', { className: `badge ${KINDS[run.status] ?? run.status}`, title: WORDS[run.status] ?? '', textContent: run.status }), 'left'],
  scenario: ['scenario', (run) => run.scenario, (run) => run.scenario ?? '–', 'left'],
  seed: ['seed', (run) => run.seed, (run) => (run.seed === null ? '–' : String(run.seed))],
  ticks: ['ticks', (run) => run.ticks, (run) => (run.ticks === null ? '–' : whole(run.ticks))],
  curve: [null, null, () => '', 'left'],
  players: ['players', (run) => run.players.join(', ') || null, (run) => run.players.join(', ') || '–', 'left'],
  end: ['ended by', (run) => run.end, (run) => run.end ?? '–', 'left'],
  quality: ['inputs', (run) => run.quality, (run) => run.quality ?? '–', 'left'],
  size: ['size', (run) => run.size, (run) => bytes(run.size)],
  changed: ['changed', (run) => run.changed, (run) => (run.changed ? new Date(run.changed).toLocaleString('sv').slice(0, 16) : '–')],
};
const CHOICES = { scenario: 'any scenario', end: 'any end', status: 'any status' };

const state = { runs: [], shown: [], count: PAGE_ROWS, sort: 'name', down: false, words: '', chosen: {}, figure: '', sketches: new Map(), figures: new Set(), read: '' };
let addressTimer = 0, isSketching = false;

const addressOf = (run) => `run/${encodeURIComponent(run.key)}/`;
const textOf = (run) => [run.name, run.scenario, run.seed, run.status, run.reason, run.text, run.error, run.quality, ...run.players].filter((part) => part !== null).join(' ').toLowerCase();

function bytes(size) {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, size)) / 3)));
  return `${power ? (size / 1000 ** power).toPrecision(3) : size} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
}

const hasAny = (column) => column === 'name' || column === 'curve' || state.runs.some((run) => ![null, ''].includes(COLUMNS[column][1](run)));

function compare(one, other) {
  const value = COLUMNS[state.sort][1], a = value(one), b = value(other);
  if (a === null || b === null) return (a === null) - (b === null); // What is not known comes last, either way.
  const order = typeof a === 'string' && typeof b === 'string' ? a.localeCompare(b, 'en', { numeric: true }) : a < b ? -1 : Number(a > b);
  return state.down ? -order : order;
}

// --- what is shown

function choose() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  state.shown = state.runs.filter((run) => Object.entries(state.chosen).every(([key, value]) => (run[key] ?? '–') === value) && words.every((word) => run.words.includes(word)));
  state.shown.sort((one, other) => compare(one, other) || one.at - other.at);
  state.count = PAGE_ROWS;
  show();
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, '', address()), ADDRESS_MS);
}

function show() {
  const ticks = state.shown.reduce((sum, run) => sum + Math.max(0, (run.ticks ?? 0) - (run.first ?? 0)), 0), size = state.shown.reduce((sum, run) => sum + run.size, 0);
  tell(byId('sum'), `${state.shown.length < state.runs.length ? `${whole(state.shown.length)} of ` : ''}${whole(state.runs.length)} ${state.runs.length === 1 ? 'run' : 'runs'}, ${whole(ticks)} ticks, ${bytes(size)}`);
  const columns = Object.keys(COLUMNS).filter(hasAny);
  showHeads(columns);
  const focused = document.activeElement?.closest?.('#rows tr')?.dataset.key;
  byId('rows').replaceChildren(...state.shown.slice(0, state.count).map((run) => rowOf(run, columns)));
  if (focused !== undefined) byId('rows').querySelector(`tr[data-key="${CSS.escape(focused)}"] a`)?.focus();
  const none = byId('none');
  none.hidden = state.shown.length > 0;
  none.textContent = state.runs.length ? 'No run fits this filter.' : 'There is no tape in this folder: names of tapes end in .tape.';
  byId('clear').hidden = !state.words && !Object.keys(state.chosen).length;
  sketchAll();
}

function showHeads(columns) {
  const known = [...state.figures].sort(), key = JSON.stringify([columns, state.sort, state.down, state.figure, known]);
  if (state.heads === key) return;
  state.heads = key;
  byId('heads').replaceChildren(...columns.map((name) => {
    const [title, , , side = ''] = COLUMNS[name];
    if (name === 'curve') {
      const pick = h('select', { ariaLabel: 'Figure of the curves', hidden: known.length < 2, onchange: () => { state.figure = pick.value; state.sketches.clear(); choose(); } },
        h('option', { value: '', textContent: 'the first that changes' }), ...known.slice(0, CHOICES_MAX).map((figure) => h('option', { value: figure, textContent: figure, selected: figure === state.figure })));
      return h('th', { className: 'plain c-curve', scope: 'col' }, 'telemetry', pick);
    }
    const isSorted = state.sort === name, head = h('th', { className: `${side} c-${name}`, scope: 'col' }, h('button', { textContent: `${title}${isSorted ? (state.down ? ' ▼' : ' ▲') : ''}`, onclick: () => { state.down = isSorted && !state.down; state.sort = name; choose(); } }));
    head.setAttribute('aria-sort', isSorted ? (state.down ? 'descending' : 'ascending') : 'none');
    return head;
  }));
}

function rowOf(run, columns) {
  const row = h('tr', { className: run.can_open ? '' : 'closed', onclick: (event) => { if (run.can_open && !event.target.closest('a') && !getSelection().toString()) location.assign(addressOf(run)); } });
  row.dataset.key = run.key;
  row.append(...columns.map((name) => {
    const [, , cell, side = ''] = COLUMNS[name], content = cell(run), element = h('td', { className: `${side} c-${name}` }, content);
    if (typeof content === 'string' && content.length > 20) element.title = content;
    if (name === 'end' && run.reason) element.title = `${run.reason}: ${run.end}`;
    if (name === 'status' && run.error) element.append(h('span', { className: 'why', textContent: ` ${run.error}`, title: run.error }));
    if (name === 'status' && !run.can_open) element.append(h('span', { className: 'why', textContent: ' a link that leads out of the folder: it is not opened' }));
    if (name === 'curve') draw(element, state.sketches.get(run.key));
    return element;
  }));
  return row;
}

// --- small curves

function draw(cell, sketch) {
  const points = (sketch?.points ?? []).filter(([, value]) => value !== null);
  if (!points.length) { cell.replaceChildren(sketch && !sketch.waits ? '–' : ''); return; }
  const values = points.map(([, value]) => value), low = Math.min(...values), high = Math.max(...values), first = points[0][0], last = points.at(-1)[0];
  const svg = document.createElementNS(SVG, 'svg'), path = document.createElementNS(SVG, 'path');
  svg.setAttribute('viewBox', '0 0 100 26');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', 'sketch');
  svg.setAttribute('role', 'img');
  const words = `${sketch.figure}: ${figure(low)} to ${figure(high)}, at the end ${figure(values.at(-1))}`;
  svg.setAttribute('aria-label', words);
  const x = (tick) => ((tick - first) / Math.max(1, last - first)) * 100, y = (value) => 24 - ((value - low) / (high - low || 1)) * 22;
  path.setAttribute('d', `M${points.map(([tick, value]) => `${x(tick).toFixed(1)} ${y(value).toFixed(1)}`).join('L')}`);
  svg.append(path);
  svg.onpointermove = (event) => tip(event, `${words}\nticks ${whole(first)} to ${whole(last)}`);
  svg.onpointerleave = () => tip(null);
  cell.replaceChildren(svg);
}

// The rows that are in the table, a few at a time; the newest order counts.
async function sketchAll() {
  if (isSketching) return;
  isSketching = true;
  try {
    for (;;) {
      const wanted = state.shown.slice(0, state.count).filter((run) => run.can_open && !state.sketches.has(run.key)).slice(0, SKETCHES);
      if (!wanted.length) break;
      const query = new URLSearchParams(wanted.map((run) => ['run', run.key]));
      if (state.figure) query.set('figure', state.figure);
      const { figure: asked } = state, response = await fetch(`api/sketches?${query}`);
      if (!response.ok) break;
      const found = await response.json();
      if (asked !== state.figure) continue;
      for (const run of wanted) {
        const sketch = found[run.key] ?? { points: [], figures: [] };
        state.sketches.set(run.key, sketch);
        for (const name of sketch.figures) state.figures.add(name);
        const cell = byId('rows').querySelector(`tr[data-key="${CSS.escape(run.key)}"] .c-curve`);
        if (cell) draw(cell, sketch);
      }
      showHeads(Object.keys(COLUMNS).filter(hasAny));
    }
  } catch { /* The connection is lost, which the list says. */ } finally { isSketching = false; }
}

// --- filters, and the address, which holds them

function buildChoices() {
  byId('choices').replaceChildren(...Object.entries(CHOICES).map(([key, any]) => {
    const values = [...new Set(state.runs.map((run) => run[key] ?? '–'))].sort();
    if (state.chosen[key] !== undefined && !values.includes(state.chosen[key])) values.push(state.chosen[key]);
    const pick = h('select', { ariaLabel: any, hidden: values.length < 2, onchange: () => {
      if (pick.value) state.chosen[key] = pick.value;
      else delete state.chosen[key];
      choose();
    } }, h('option', { value: '', textContent: any }), ...values.slice(0, CHOICES_MAX).map((value) => h('option', { value, textContent: value === '–' ? `no ${any.slice(4)}` : value, selected: state.chosen[key] === value })));
    return pick;
  }));
}

function address() {
  const query = new URLSearchParams();
  if (state.sort !== 'name' || state.down) query.set('sort', `${state.down ? '-' : ''}${state.sort}`);
  if (state.words) query.set('words', state.words);
  if (state.figure) query.set('figure', state.figure);
  for (const [key, value] of Object.entries(state.chosen)) query.set(key, value);
  return `#${query}`;
}

// The way back from a run leads to the list as it was left.
function remember() {
  try { sessionStorage.setItem('runs', address()); } catch { /* Storage is off: it leads to the whole list. */ }
}

function readAddress() {
  const query = new URLSearchParams(location.hash.slice(1)), sort = query.get('sort') ?? 'name', name = sort.replace(/^-/, '');
  if (COLUMNS[name]?.[1]) Object.assign(state, { sort: name, down: sort.startsWith('-') });
  state.words = query.get('words') ?? '';
  state.figure = query.get('figure') ?? '';
  state.chosen = Object.fromEntries(Object.keys(CHOICES).filter((key) => query.get(key)).map((key) => [key, query.get(key)]));
  byId('words').value = state.words;
}

// --- the start

function warn(text) {
  byId('banner').replaceChildren(...(text ? [h('div', { className: 'warn' }, h('span', { className: 'text', textContent: text }))] : []));
}

async function load() {
  let found;
  try { found = await ask('runs', {}); } catch { warn('no connection, trying again …'); return; }
  warn(found.error ? `the folder cannot be read: ${found.error}` : '');
  const read = JSON.stringify(found.runs);
  if (read === state.read) return;
  const before = new Map(state.runs.map((run) => [run.key, run]));
  state.read = read;
  state.runs = found.runs.map((run, at) => ({ ...run, at, end: run.text ?? run.reason, words: textOf(run) }));
  for (const run of state.runs) if (before.has(run.key) && before.get(run.key).size !== run.size) state.sketches.delete(run.key);
  tell(byId('folder'), found.folder);
  document.title = `${found.folder} – replay view`;
  buildChoices();
  const { count } = state;
  choose();
  if (count > PAGE_ROWS) { state.count = count; show(); }
}

async function start() {
  new Theme(() => {});
  readAddress();
  byId('filters').onsubmit = (event) => { event.preventDefault(); byId('rows').querySelector('a')?.click(); };
  byId('words').oninput = () => { state.words = byId('words').value; choose(); };
  byId('clear').onclick = () => { Object.assign(state, { words: '', chosen: {} }); byId('words').value = ''; buildChoices(); choose(); byId('words').focus(); };
  new IntersectionObserver(([seen]) => {
    if (!seen.isIntersecting || state.count >= state.shown.length) return;
    state.count += PAGE_ROWS;
    show();
  }, { root: byId('list'), rootMargin: '400px' }).observe(byId('more'));
  addEventListener('keydown', (event) => {
    if (event.target.matches?.('input, select') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') { event.preventDefault(); byId('words').focus(); }
    if (event.key === 't') byId('theme').click();
  });
  addEventListener('hashchange', () => { readAddress(); buildChoices(); choose(); });
  addEventListener('pagehide', remember);
  await load();
  const again = async () => {
    if (!document.hidden) await load();
    setTimeout(again, RELOAD_MS);
  };
  setTimeout(again, RELOAD_MS);
}

start();
