// The page in one file: the maps of some ticks, without a server. The ticks are in the file, see drawing/page_file.py.

import { byId, h, tell, whole } from '/f/dom.js';
import { MAPS, POINT_COLOURS } from '/f/colours.js';
import { Maps } from '/f/maps.js';
import { Theme } from '/f/theme.js';
import { decode } from '/f/wire.js';

const SPEEDS = [1, 2, 5, 10, 30, 60], LAYERS_SHOWN = 2;

const facts = JSON.parse(byId('facts').textContent);
const tape = { name: facts.name, layers: facts.known, points: facts.points, role: null };
const state = {
  tapes: [tape], info: { ...tape, fields: [] }, layers: facts.layers.slice(0, LAYERS_SHOWN), hidden: new Set(facts.hidden), compare: 'side', blink: 0, map: facts.colours,
  few: 'categories', large: null, scale: facts.own_scale ? 'own' : 'grows', at: 0, playing: false, speed: 10, finding: null, isWhole: true, // A layer that a frame lacks is not at its tick.
  shownTick: () => facts.ticks[state.at],
};
let maps, frames, last = 0, due = 0;
const slider = byId('ticks'), play = h('button', { className: 'play', title: 'Play or pause (space)', ariaLabel: 'Play', textContent: '▶' }), tick = h('b', { id: 'tick' }), hash = h('span', { className: 'dim mono' });

// Each tick is a message of the wire, after its length.
async function unpacked() {
  const packed = Uint8Array.from(atob(byId('frames').textContent), (letter) => letter.charCodeAt(0));
  const bytes = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'))).arrayBuffer();
  const found = [], view = new DataView(bytes);
  for (let at = 0; at < bytes.byteLength;) {
    const size = view.getUint32(at, true);
    found.push(decode(bytes.slice(at + 4, at + 4 + size)));
    at += 4 + size;
  }
  return found;
}

function go(at) {
  state.at = Math.max(0, Math.min(frames.length - 1, at));
  slider.value = state.at;
  slider.ariaValueText = `tick ${whole(facts.ticks[state.at])}`;
  tell(tick, whole(facts.ticks[state.at]));
  tell(hash, frames[state.at].hash);
  maps.show([frames[state.at]]);
}

function turn(now) {
  if (!state.playing) return;
  due += ((now - last) / 1000) * state.speed;
  last = now;
  if (due >= 1) { go(state.at + Math.floor(due)); due %= 1; }
  if (state.at === frames.length - 1) setPlaying(false);
  else requestAnimationFrame(turn);
}

function setPlaying(isOn) {
  if (isOn && state.at === frames.length - 1) go(0);
  state.playing = isOn;
  play.textContent = isOn ? '❚❚' : '▶';
  play.ariaLabel = isOn ? 'Pause' : 'Play';
  last = performance.now();
  due = 0;
  if (isOn) requestAnimationFrame(turn);
}

function build() {
  if (!state.layers.includes(state.large)) state.large = null;
  document.body.classList.toggle('large', state.large !== null);
  maps.build(state.large ? [state.large] : state.layers);
  go(state.at);
}

function rail() {
  const check = (name, isOn, change, colour) => {
    const dot = colour ? h('span', { className: 'dot' }) : null;
    if (dot) dot.style.background = colour;
    return h('label', {}, h('input', { type: 'checkbox', checked: isOn, onchange: ({ target }) => change(target.checked) }), dot, name);
  };
  const choice = (label, values, value, change) => {
    const box = h('select', { ariaLabel: label, title: label, onchange: () => { change(box.value); maps.paint(); } }, ...Object.entries(values).map(([key, text]) => h('option', { value: key, textContent: text, selected: key === value })));
    return box;
  };
  byId('rail').replaceChildren(
    h('h2', { textContent: 'Layers' }),
    ...facts.layers.map((name) => check(name, state.layers.includes(name), (isOn) => { state.layers = facts.layers.filter((one) => (one === name ? isOn : state.layers.includes(one))); build(); })),
    ...(facts.points.length ? [h('h2', { textContent: 'Points' })] : []),
    ...facts.points.map((name, at) => check(name, !state.hidden.has(name), (isOn) => { state.hidden[isOn ? 'delete' : 'add'](name); maps.paint(); }, POINT_COLOURS[at % POINT_COLOURS.length])),
    h('h2', { textContent: 'Colours' }),
    choice('Colours', Object.fromEntries(MAPS.map((name) => [name, name])), state.map, (map) => { state.map = map; }),
    choice('Few whole numbers', { categories: 'few: categories', amounts: 'few: amounts' }, state.few, (few) => { state.few = few; }),
    choice('Scale', { grows: 'scale: all ticks', own: 'scale: each tick' }, state.scale, (scale) => { state.scale = scale; }));
}

function onKey(event) {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.tagName === 'SELECT') return;
  if (key === ' ' && (target.tagName === 'BUTTON' || target.type === 'checkbox')) return; // They are pressed by it.
  if (target.type === 'range' && /^(Arrow|Home|End)/.test(key)) return; // They move it.
  const move = (at) => { setPlaying(false); go(at); };
  const acts = {
    ' ': () => setPlaying(!state.playing), arrowleft: () => move(state.at - (event.shiftKey ? 10 : 1)), arrowright: () => move(state.at + (event.shiftKey ? 10 : 1)),
    home: () => move(0), end: () => move(frames.length - 1), t: () => theme.turn(), x: () => { state.large = state.large ? null : maps.hover?.layer ?? state.layers[0] ?? null; build(); },
  };
  const act = acts[key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

const theme = new Theme(() => maps?.paint());
maps = new Maps(state, { exact: async () => [null], enlarge: (name) => { state.large = name; build(); } });
frames = await unpacked();
for (const frame of frames) maps.seen(frame);
for (const frame of frames) for (const [number, { low, high, kind }] of frame.layers) if (kind === 0) maps.filled({ [tape.layers[number]]: [low, high] });
tell(byId('name'), facts.name);
tell(byId('said'), `${whole(frames.length)} ${frames.length === 1 ? 'tick' : 'ticks'}, ${whole(facts.ticks[0])} to ${whole(facts.ticks.at(-1))}`);
const speed = h('select', { ariaLabel: 'Speed', title: 'Pictures a second', onchange: () => { state.speed = Number(speed.value); } }, ...SPEEDS.map((one) => h('option', { value: one, textContent: `${one} a second`, selected: one === state.speed })));
play.onclick = () => setPlaying(!state.playing);
byId('transport').replaceChildren(play, h('span', { className: 'dim', textContent: 'tick' }), tick, speed, h('span', { className: 'grow' }), hash);
slider.max = frames.length - 1;
// The tick that the address names, as #tick=10, or the one before it; else the first that has a map to show.
function goToAddress() {
  const asked = Number(new URLSearchParams(location.hash.slice(1)).get('tick') ?? NaN);
  const first = Math.max(0, frames.findIndex((frame) => state.layers.some((name) => frame.layers.has(tape.layers.indexOf(name)))));
  go(Number.isNaN(asked) ? first : facts.ticks.findLastIndex((one) => one <= asked));
}

slider.oninput = () => { setPlaying(false); go(Number(slider.value)); };
addEventListener('keydown', onKey);
addEventListener('hashchange', () => { setPlaying(false); goToAddress(); });
rail();
build();
goToAddress();
