// The page of `replay view`: its state, going to ticks, keys, and the address, which holds what is seen.

import { ask, BASE, byId, h, tell, whole } from '/f/dom.js';
import { Questions } from '/f/ask.js';
import { showBanner } from '/f/banner.js';
import { MAPS, POINT_COLOURS } from '/f/colours.js';
import { Curves } from '/f/curves.js';
import { EarlyKeys } from '/f/early_keys.js';
import { Inspector } from '/f/inspector.js';
import { Live } from '/f/live.js';
import { Maps } from '/f/maps.js';
import { Playback } from '/f/playback.js';
import { openSave } from '/f/save.js';
import { openSearch } from '/f/search.js';
import { Theme } from '/f/theme.js';
import { TimeBar } from '/f/timebar.js';
import { HEAD, PREVIEW, Wire } from '/f/wire.js';

const MODES = { side: ['A | B', 'Side by side'], both: ['A | B | Δ', 'Side by side, with the difference'], difference: ['Δ', 'The difference B − A'], blink: ['Blink', 'One after the other in the same place ( b )'] };
const KEYS = {
  Space: 'play or pause', 'J K L': 'backwards, stop, forwards; again: faster', '← →': 'one tick', 'Shift ← →': 'ten ticks', 'Home End': 'first, last tick',
  'PgUp PgDn': 'keyframe before, after', '[ ]': 'event before, after (of the chosen kind)', '{ }': 'input before, after', 'D  Shift D': 'next, previous difference', 'F  Shift F': 'next, previous finding',
  G: 'type a tick (−1 is the last)', '/': 'search', '+ − 0': 'zoom the time bar, whole run', 'I O': 'loop from, to here', '\\': 'no loop', '1 … 9': 'layer on or off',
  Q: 'ask: find ticks, who wrote a value, branch from here', W: 'who wrote this? (the cell under the pointer)', 'M  Shift M': 'next, previous match of what was asked',
  N: 'now: follow the recording', C: 'compare: next way', B: 'blink: the other tape', S: 'save: picture, curves, video, this view', X: 'one map alone, as large as the page', T: 'colour scheme', '?': 'these keys', Esc: 'close',
};
const REST_MS = 90, ADDRESS_MS = 300, DETAIL_MS = 250, LAYERS_MAX = 12, CURVES_MAX = 6, CURVES_SHOWN = 4;

const state = {
  tapes: [], info: null, first: 0, last: 0, tick: 0, window: [0, 1], layers: [], curves: [], curvesChosen: false, telemetry: [], hidden: new Set(), compare: 'side', blink: 0, map: 'viridis', few: 'categories', large: null,
  scale: 'grows', speed: 30, direction: 1, playing: false, loopRange: null, kind: null, tab: 'tick', table: null, page: null, difference: null, trouble: null, said: null, live: null, following: false,
  clamp: (tick) => Math.max(state.first, Math.min(state.last, Math.round(tick))),
  shownTick: (side) => (side < 2 ? Math.max(state.tapes[side].first, Math.min(state.tapes[side].last, state.tick)) : state.tick),
};
let wire, maps, bar, curves, inspector, playback, theme, live, questions;
let dragged = null, isDragging = false, isWaiting = false, restTimer = 0, addressTimer = 0, curveTimer = 0, detailed = 0;

// --- going to ticks

const needsDifference = () => state.tapes.length > 1 && (state.compare === 'both' || state.compare === 'difference');
const isCommon = (tick) => state.tapes.every((tape) => tick >= tape.first && tick <= tape.last);

function frameAt(side, tick) {
  const tape = state.tapes[side];
  return wire.get(side, tape ? Math.max(tape.first, Math.min(tape.last, tick)) : tick);
}

function sidesAt(tick) {
  return [...state.tapes.keys(), ...(needsDifference() && isCommon(tick) ? [2] : [])];
}

const has = (tick) => sidesAt(tick).every((side) => frameAt(side, tick));

// While the pointer drags, at most one question a picture; the last one always goes out.
function go(tick, drag = false) {
  live.leave();
  state.tick = state.clamp(tick);
  state.trouble = null;
  isDragging = drag;
  if (has(state.tick)) { dragged = null; paint(); }
  else if (isWaiting && drag) { dragged = { tick: state.tick }; maps.soon(); }
  else {
    wire.seek(state.tick, drag);
    dragged = null;
    isWaiting = true;
    maps.soon();
    requestAnimationFrame(() => {
      isWaiting = false;
      if (dragged) go(dragged.tick, true);
    });
  }
  if (!drag) bar.follow();
  bar.move();
  curves.move();
  say();
  clearTimeout(restTimer);
  restTimer = setTimeout(rest, drag ? 2 * REST_MS : REST_MS);
}

// The cursor rests: now ask for all that is told of the tick.
function rest() {
  wire.seek(state.tick, false);
  inspector.load();
  showBanner(state, actions);
  changed();
  byId('live').textContent = `tick ${state.tick}`;
}

function paint() {
  maps.show([0, 1, 2].map((side) => (state.tapes[side] || side === 2 ? frameAt(side, state.tick) ?? (side === 2 && !isCommon(state.tick) ? undefined : maps.frames[side]) : undefined)));
}

// Playing has come to a tick that is there.
function arrive(tick) {
  state.tick = tick;
  paint();
  bar.follow();
  bar.move();
  curves.move();
  say();
  const now = performance.now();
  if (now - detailed > DETAIL_MS) { detailed = now; inspector.load(); }
}

function onFrame(frame) {
  if (frame.flags & HEAD) { live.arrive(frame); return; }
  const expected = state.shownTick(frame.side);
  // What comes while the pointer drags was asked for a moment ago; waiting for the tick that it is at now would show little.
  if (frame.asked !== expected && !(isDragging && frame.flags & PREVIEW)) return;
  if (frame.flags & PREVIEW) {
    if (state.playing || has(state.tick)) return;
    const frames = [...maps.frames];
    frames[frame.side] = frame;
    maps.show(frames);
  } else if (!state.playing || has(state.tick)) paint();
  say();
}

async function jump(kind, back, name = null) {
  playback.pause();
  const { tick } = await ask('jump', { kind, name, tick: state.tick, back: back ? 1 : 0 });
  if (tick !== null) go(tick);
  else byId('live').textContent = `no ${name ?? kind} ${back ? 'before' : 'after'} this tick`;
}

// Without a chosen kind: the rarest, of which each one tells most; without events, episodes.
function jumpEvent(back) {
  const counts = Object.entries(bar.data?.event_counts ?? {}).sort((one, other) => one[1] - other[1]);
  const kind = state.kind ?? counts[0]?.[0] ?? null;
  return kind === null ? jump('episode', back) : jump('event', back, kind);
}

// --- what is seen

function look() {
  wire.look(state.layers, needsDifference(), state.curves.filter((name) => !state.telemetry.includes(name)));
  maps.frames = [];
  if (state.layers.length) buildMaps();
  else {
    maps.cards = [];
    byId('maps').replaceChildren(noLayers());
  }
  buildRail();
  buildModes();
  wire.seek(state.tick, false);
  changed();
}

function buildMaps() {
  if (!state.layers.includes(state.large)) state.large = null;
  document.body.classList.toggle('large', state.large !== null);
  maps.build(state.large ? [state.large] : state.layers);
}

// One map alone, without what stands around the maps; null: all of them.
function enlarge(name) {
  state.large = name;
  buildMaps();
  maps.show(maps.frames);
  curves.draw();
  changed();
}

function noLayers() {
  if (state.info.layers.length) return h('div', { className: 'empty card' }, h('h2', { textContent: 'No layer is chosen' }), h('p', { textContent: 'Choose one on the left, or press 1.' }));
  return h('div', { className: 'empty card' }, h('h2', { textContent: 'This recording has no map' }), h('p', { textContent: 'No field of its state has two dimensions and more than three columns. Its values are listed here, and any number can be drawn as a curve.' }));
}

function setLayer(name, isOn) {
  state.layers = state.info.layers.filter((one) => (one === name ? isOn : state.layers.includes(one))).slice(0, LAYERS_MAX);
  look();
}

function setCurve(name, isOn) {
  state.curvesChosen = true;
  state.curves = isOn ? [...state.curves.filter((one) => one !== name), name].slice(-CURVES_MAX) : state.curves.filter((one) => one !== name);
  curves.build();
  inspector.show();
  look();
}

function setKind(kind) {
  state.kind = kind;
  bar.draw();
  changed();
}

function setLoop(first, last) {
  state.loopRange = first === undefined || first >= last ? null : [first, last];
  playback.show();
  bar.draw();
  changed();
}

function repaint() {
  if (maps && bar && curves && playback) { maps.paint(); bar.draw(); curves.build(); }
}

function check(text, isOn, change, colour = null) {
  const dot = colour ? h('span', { className: 'dot' }) : null;
  if (dot) dot.style.background = colour;
  return h('label', {}, h('input', { type: 'checkbox', checked: isOn, onchange: (event) => change(event.target.checked) }), dot, text);
}

function buildRail() {
  const { info } = state, out = [];
  const choice = (label, values, value, change) => {
    const box = h('select', { ariaLabel: label, title: label, onchange: () => change(box.value) }, ...Object.entries(values).map(([key, text]) => h('option', { value: key, textContent: text, selected: key === value })));
    return box;
  };
  if (info.layers.length) out.push(h('h2', { textContent: 'Layers' }), ...info.layers.map((name) => check(name, state.layers.includes(name), (isOn) => setLayer(name, isOn))));
  if (info.points.length) out.push(h('h2', { textContent: 'Points' }), ...info.points.map((name, at) => check(name, !state.hidden.has(name), (isOn) => { state.hidden[isOn ? 'delete' : 'add'](name); maps.paint(); changed(); }, POINT_COLOURS[at % POINT_COLOURS.length])));
  if (info.layers.some((name) => name !== 'picture' || !info.has_picture)) {
    out.push(h('h2', { textContent: 'Colours' }), choice('Colours', Object.fromEntries(MAPS.map((name) => [name, name])), state.map, (map) => { state.map = map; maps.paint(); changed(); }));
    out.push(choice('Few whole numbers: categories have colours without an order, amounts those of the map', { categories: 'few: categories', amounts: 'few: amounts' }, state.few, (few) => { state.few = few; maps.paint(); changed(); }));
    out.push(choice('Scale: one that grows keeps colours comparable from tick to tick', { grows: 'scale: grows', own: 'scale: each tick' }, state.scale, (scale) => { state.scale = scale; maps.paint(); changed(); }));
  }
  const rail = byId('rail'), focused = [...rail.querySelectorAll('input, select')].indexOf(document.activeElement);
  rail.replaceChildren(...out);
  rail.hidden = !out.length;
  if (focused >= 0) rail.querySelectorAll('input, select')[focused]?.focus();
}

function buildModes() {
  const box = byId('modes');
  box.hidden = state.tapes.length < 2 || !state.info.layers.length;
  box.replaceChildren(...Object.entries(MODES).map(([mode, [text, title]]) => h('button', { textContent: text, title, role: 'radio', 'aria-checked': String(state.compare === mode), onclick: () => { state.compare = mode; look(); } })));
}

function say() {
  if (document.activeElement !== playback.box) playback.box.value = whole(state.tick);
  tell(playback.total, `of ${whole(state.last)}`);
  const shown = maps.frames[0], fill = bar.ready ?? [];
  const count = fill.reduce((sum, { ranges }) => sum + ranges.reduce((part, [first, last]) => part + last - first + 1, 0), 0);
  const isDone = fill.length && fill.every((one) => one.done);
  if (state.said?.tick !== state.tick) state.said = null; // It is about the tick that was reached.
  tell(playback.status, state.said ? state.said.text : wire.isOpen && state.following ? live.text : !wire.isOpen ? 'no connection, trying again …' : shown && shown.shown !== state.shownTick(0) && !has(state.tick) ? `at ${whole(shown.shown)}, going to ${whole(state.tick)} …` : fill.length ? `${whole(count)} ticks ready${isDone ? '' : ' …'}` : '');
}

// The way back to the list of the folder, as it was left; from a branch beside its parent to the page that led there.
function backToRuns() {
  if (state.folder === null) return [];
  if (BASE.includes('/beside/')) return [h('a', { className: 'button', href: `${BASE}../../`, title: `The page of ${state.folder}`, textContent: `‹ ${state.folder}` })];
  let kept = '';
  try { kept = sessionStorage.getItem('runs') ?? ''; } catch { /* Storage is off. */ }
  return [h('a', { className: 'button', href: `${BASE}../../${kept}`, title: 'All runs of the folder', textContent: `‹ ${state.folder}` })];
}

function buildNames() {
  byId('tapes').replaceChildren(...backToRuns(), ...state.tapes.map((tape, side) => h('span', { className: 'tape', title: tape.name },
    state.tapes.length > 1 ? h('span', { className: `side s${side}`, textContent: 'AB'[side] }) : null, h('b', { textContent: tape.role ? `${tape.name}, ${tape.role}` : tape.name }),
    tape.live === 'recording' ? h('span', { className: 'badge recording', textContent: 'being recorded' }) : h('span', { className: `badge ${tape.status ?? 'refused'}`, textContent: tape.status ?? 'cannot be read' }),
    tape.scenario ? h('span', { className: 'dim', textContent: `${tape.scenario}, seed ${tape.seed}` }) : null)));
}

// --- the address

function address() {
  const query = new URLSearchParams({ tapes: state.tapes.map(({ name }) => name).join('|'), tick: state.following ? 'live' : state.tick, layers: state.layers.join('|'), curves: state.curves.join('|'), tab: state.tab });
  if (state.tapes.length > 1) query.set('compare', state.compare);
  if (state.window[0] > state.first || state.window[1] < state.last) query.set('window', state.window.join('-'));
  if (state.loopRange) query.set('loop', state.loopRange.join('-'));
  if (state.kind) query.set('kind', state.kind);
  if (state.map !== 'viridis') query.set('map', state.map);
  if (state.scale !== 'grows') query.set('scale', state.scale);
  if (state.few !== 'categories') query.set('few', state.few);
  if (state.large) query.set('large', state.large);
  if (state.hidden.size) query.set('hidden', [...state.hidden].join('|'));
  return query.toString();
}

function changed() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, '', `#${address()}`), ADDRESS_MS);
}

function readAddress() {
  const query = new URLSearchParams(location.hash.slice(1)), { info } = state;
  const list = (name, known) => (query.has(name) ? query.get(name).split('|').filter((one) => known.includes(one)) : null);
  const range = (name) => {
    const found = /^(\d+)-(\d+)$/.exec(query.get(name) ?? '');
    return found && Number(found[1]) < Number(found[2]) ? [state.clamp(Number(found[1])), state.clamp(Number(found[2]))] : null;
  };
  state.layers = list('layers', info.layers) ?? info.layers.slice(0, 2);
  state.curvesChosen = query.has('curves');
  if (state.curvesChosen) state.curves = query.get('curves').split('|').filter(Boolean).slice(0, CURVES_MAX);
  else state.curves = (state.telemetry.length ? state.telemetry : info.first_curves).slice(0, CURVES_SHOWN);
  state.window = range('window') ?? [state.first, state.last];
  state.loopRange = range('loop');
  state.kind = query.get('kind');
  state.hidden = new Set(list('hidden', info.points) ?? []);
  if (MAPS.includes(query.get('map'))) state.map = query.get('map');
  if (query.get('scale') === 'own') state.scale = 'own';
  if (query.get('few') === 'amounts') state.few = 'amounts';
  if (state.layers.includes(query.get('large'))) state.large = query.get('large');
  if (query.get('compare') in MODES) state.compare = query.get('compare');
  state.tab = query.get('tab') ?? (state.finding ? 'finding' : info.has_object ? 'object' : info.layers.length || info.world ? 'tick' : info.tables.length ? 'tables' : 'fields');
  state.tick = state.clamp(query.get('tick') === 'live' ? state.last : query.has('tick') ? Number(query.get('tick')) || 0 : state.finding?.tick ?? state.first);
}

// --- keys

function onKey(event) {
  const { target, key } = event;
  const isTyping = /INPUT|SELECT|TEXTAREA/.test(target.tagName) && target.type !== 'checkbox';
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping || document.querySelector('dialog[open]')) return;
  if (key === ' ' && (/BUTTON|SUMMARY/.test(target.tagName) || target.type === 'checkbox')) return;
  if (/^(Home|End|Page)/.test(key) && target.id === 'panel') return; // They scroll the panel.
  const step = (by) => { playback.pause(); go(state.tick + by); };
  const modes = Object.keys(MODES), isTwo = state.tapes.length > 1;
  const acts = {
    ' ': () => playback.toggle(), k: () => playback.pause(), l: () => playback.faster(1), j: () => playback.faster(-1),
    arrowleft: () => step(event.shiftKey ? -10 : -1), arrowright: () => step(event.shiftKey ? 10 : 1), home: () => { playback.pause(); go(state.first); }, end: () => toEnd(), n: () => live.follow(),
    pageup: () => jump('keyframe', true), pagedown: () => jump('keyframe', false), '[': () => jumpEvent(true), ']': () => jumpEvent(false),
    '{': () => jump('input', true), '}': () => jump('input', false), d: () => isTwo && jump('difference', event.shiftKey), f: () => jump('finding', event.shiftKey), g: () => playback.box.focus(),
    '/': () => openSearch(state, bar, curves, actions), '+': () => actions.zoom(0.5), '=': () => actions.zoom(0.5), '-': () => actions.zoom(2), 0: () => actions.zoom(Infinity),
    i: () => setLoop(state.tick, state.loopRange?.[1] ?? state.last), o: () => setLoop(state.loopRange?.[0] ?? state.first, state.tick), '\\': () => setLoop(),
    c: () => { if (isTwo) { state.compare = modes[(modes.indexOf(state.compare) + 1) % modes.length]; look(); } },
    b: () => { if (isTwo) { if (state.compare !== 'blink') { state.compare = 'blink'; look(); } else { state.blink = 1 - state.blink; maps.paint(); } } },
    x: () => enlarge(state.large ? null : maps.hover?.layer ?? state.layers[0] ?? null), q: () => questions.open('find'), w: () => whoUnderPointer(), m: () => questions.jump(event.shiftKey),
    s: () => openSave(state, maps, address), t: () => theme.turn(), '?': () => byId('keys').showModal(),
  };
  const layer = /^[1-9]$/.test(key) ? state.info.layers[Number(key) - 1] : undefined;
  const act = layer !== undefined ? () => setLayer(layer, !state.layers.includes(layer)) : acts[key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

// The cell under the pointer, if its map is a field of the state.
function whoUnderPointer() {
  const { hover } = maps, isField = hover && state.info.fields.includes(hover.layer);
  questions.open('who', isField ? hover.layer : '', isField ? `${hover.y},${hover.x}` : '');
}

// --- the start

// The last tick; of a recording that goes on, its head.
function toEnd() {
  playback.pause();
  if (live.isRecording) live.follow();
  else go(state.last);
}

const actions = {
  turned: () => playback?.show(),
  toEnd, leave: () => live.leave(), describe: () => inspector.load(),
  painted: () => { paint(); bar.move(); curves.move(); say(); },
  grown: () => { bar.draw(); curves.draw(); say(); },
  named: () => { buildNames(); showBanner(state, actions); say(); if (state.tab === 'tape') inspector.show(); },
  figures: (head) => { curves.arrive(head); bar.arrive(head); },
  curves: () => curves.load(),
  go, arrive, rest, has, jump, changed, say, look,
  jumpTo: (tick) => { playback.pause(); go(tick); },
  find: (condition, way) => questions.find(condition, way),
  who: (...what) => questions.who(...what),
  asks: (...what) => questions.open(...what),
  matched: () => bar.draw(),
  pause: () => playback.pause(), loop: setLoop, kind: setKind, curve: setCurve, layer: setLayer,
  tab: (tab) => inspector.choose(tab), enlarge,
  zoom: (factor) => (factor === Infinity ? bar.show(state.first, state.last) : bar.zoom(factor)),
  windowed: () => { curves.load(); curves.draw(); },
  tickAt: (x) => bar.tickAt(x),
  exact: (layer, x, y) => inspector.exact(layer, x, y),
  marks: (data) => {
    const telemetry = data.telemetry.filter((name) => !state.telemetry.includes(name));
    if (telemetry.length) {
      state.telemetry = data.telemetry;
      if (!state.curvesChosen) state.curves = state.telemetry.slice(0, CURVES_SHOWN);
      curves.build();
      changed();
    }
    const findings = JSON.stringify(data.troubles);
    if (findings !== state.findingsShown && state.tapes.length < 2) { Object.assign(state, { findings: data.troubles, findingsShown: findings }); showBanner(state, actions); }
    if (data.difference && !state.difference) { state.difference = data.difference; showBanner(state, actions); }
  },
};

function onMessage(message) {
  switch (message.kind) {
    case 'hello':
      state.page = message.page;
      inspector.load();
      break;
    case 'fill':
      (bar.ready ??= [])[message.side] = message;
      bar.fills[message.side] = message.ranges;
      maps.filled(message.scales);
      bar.draw();
      say();
      if (state.curves.some((name) => !state.telemetry.includes(name))) curveTimer ||= setTimeout(() => { curveTimer = 0; curves.load(); }, 600);
      break;
    case 'marks':
      if (message.checked) {
        Object.assign(state.tapes[message.side], message.checked);
        buildNames();
        showBanner(state, actions);
        if (state.tab === 'tape') inspector.show();
      }
      bar.load();
      if (state.live) curves.load();
      break;
    case 'answer':
      questions.heard(message);
      break;
    case 'grown':
      live.extend(message.first, message.last);
      break;
    case 'head':
      live.figures(message);
      break;
    case 'recording':
      live.turned(message.facts);
      break;
    case 'hooks':
      state.tapes[message.side].hook_problems = message.problems;
      showBanner(state, actions);
      break;
    case 'trouble':
      playback.pause();
      state.trouble = message.text;
      showBanner(state, actions);
      bar.load();
      break;
  }
}

function refused(tape) {
  document.body.classList.add('alone');
  byId('maps').replaceChildren(h('div', { className: 'empty card' }, h('h2', { textContent: `${tape.name} cannot be shown` }), h('p', { textContent: tape.refused }), h('p', { className: 'dim' }, 'More about it: ', h('code', { textContent: `replay info ${tape.name}` }))));
}

async function start() {
  const early = new EarlyKeys();
  theme = new Theme(repaint);
  const { tapes, finding, command, folder, beside, writes } = await ask('info', {});
  Object.assign(state, { tapes, finding, command, folder, beside, writes, info: tapes[0] });
  if (tapes[0].live === 'ended') tapes[0].live = null; // Before this page was there.
  state.live = tapes[0].live ?? null;
  buildNames();
  document.title = `${tapes.map(({ name }) => name).join(' | ')} – replay view`;
  const bad = tapes.find((tape) => tape.refused);
  if (bad) { early.stop(); refused(bad); return; }
  state.first = Math.min(...tapes.map(({ first }) => first));
  state.last = Math.max(...tapes.map(({ last }) => last));
  readAddress();
  for (const id of ['inspector', 'time']) byId(id).hidden = false;
  document.body.classList.add(state.info.layers.length ? 'maps' : 'no-maps');
  document.body.classList.toggle('two', tapes.length > 1);
  maps = new Maps(state, actions);
  curves = new Curves(state, actions);
  bar = new TimeBar(state, actions);
  inspector = new Inspector(state, actions);
  wire = new Wire({ open: () => { look(); if (state.following) live.follow(); say(); }, close: () => say(), frame: onFrame, message: onMessage });
  live = new Live(state, wire, actions);
  questions = new Questions(state, wire, actions);
  playback = new Playback(state, wire, actions, live.button);
  state.following = live.isRecording && !/(^|[#&])tick=\d/.test(location.hash);
  live.show();
  buildRail();
  buildModes();
  inspector.build();
  curves.build();
  showBanner(state, actions);
  say();
  byId('keys').replaceChildren(...Object.entries(KEYS).map(([key, what]) => h('p', {}, h('kbd', { textContent: key }), h('span', { textContent: what }))));
  byId('keys').onclick = () => byId('keys').close();
  byId('help').onclick = () => byId('keys').showModal();
  byId('find').onclick = () => openSearch(state, bar, curves, actions);
  byId('question').onclick = () => questions.open('find');
  byId('keep').onclick = () => openSave(state, maps, address);
  early.replay(onKey, playback.box, (event) => playback.typed(event));
  addEventListener('keydown', onKey);
  addEventListener('hashchange', () => { readAddress(); curves.build(); inspector.build(); look(); go(state.tick); });
}

start();
