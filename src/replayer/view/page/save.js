// Taking along what is seen: a picture, the curves as CSV, and the commands that make a video and show the same again.

import { BASE, byId, css, h, whole } from '/f/dom.js';

const PADDING = 12, TITLE = 22, FORMATS = ['mp4', 'gif', 'webm', 'html'];
const quoted = (text) => (/^[\w.,:/=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function openSave(state, maps, address) {
  const box = byId('save'), parts = [];
  if (maps.cards.length) parts.push(entry('Picture', `The maps at tick ${whole(state.tick)}, as PNG.`, h('button', { textContent: 'Save picture', onclick: () => savePicture(state, maps) })));
  if (state.curves.length) {
    const [first, last] = state.window, query = new URLSearchParams({ first, last });
    for (const name of state.curves) query.append('name', name);
    parts.push(entry('Curves', `Ticks ${whole(first)} to ${whole(last)} as CSV: of computed curves, the values that are known so far.`, h('a', { className: 'button', textContent: 'Save CSV', href: `${BASE}curves.csv?${query}`, download: 'curves.csv' })));
  }
  if (maps.cards.length && !state.finding) {
    for (const side of state.tapes.keys()) parts.push(videoOf(state, side));
  }
  parts.push(entry('This view', 'Opens the page as it is now.', command(`${state.command} --show ${quoted(address())}`)));
  box.replaceChildren(h('h2', { textContent: 'Save' }), ...parts, h('button', { textContent: 'Close', onclick: () => box.close() }));
  box.onclick = (event) => { if (event.target === box) box.close(); };
  box.showModal();
}

function videoOf(state, side) {
  const tape = state.tapes[side], [first, last] = (state.loopRange ?? state.window).map((tick) => Math.max(tape.first, Math.min(tape.last, tick)));
  const options = [...state.layers.flatMap((name) => ['--layer', quoted(name)]), ...[...state.hidden].flatMap((name) => ['--hide', quoted(name)])];
  if (state.map !== 'viridis') options.push('--map', state.map);
  if (state.scale === 'own') options.push('--own-scale');
  if (document.documentElement.dataset.theme === 'dark') options.push('--dark');
  const every = Math.max(1, Math.round(state.speed / 60));
  if (every > 1) options.push('--every', every);
  options.push('--fps', Math.max(1, Math.min(60, Math.round(state.speed / every))));
  const text = (format) => `${tape.render} --ticks ${first}..${last} ${options.join(' ')} -o ${quoted(`${tape.name.replace(/\.tape$/, '')}.${format}`)}`;
  const shown = h('code', { textContent: text(FORMATS[0]) });
  const pick = h('select', { ariaLabel: 'Format', onchange: () => { shown.textContent = text(pick.value); } }, ...FORMATS.map((format) => h('option', { value: format, textContent: format.toUpperCase() })));
  const who = state.tapes.length > 1 ? ` ${'AB'[side]}` : '';
  return entry(`Video${who}`, `Ticks ${whole(first)} to ${whole(last)} (${state.loopRange ? 'the loop' : 'the visible part of the time bar'}) at this speed:`, pick, ...copied(shown));
}

const entry = (title, what, ...parts) => h('section', {}, h('h3', { textContent: title }), h('p', { className: 'dim', textContent: what }), h('div', { className: 'row' }, ...parts));
const command = (text) => h('div', { className: 'row' }, ...copied(h('code', { textContent: text })));

// Where the browser gives no clipboard, the text is selected instead.
function copied(code) {
  const button = h('button', { textContent: 'Copy' });
  button.onclick = async () => {
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Selected';
    }
  };
  return [code, button];
}

function savePicture(state, maps) {
  const ratio = devicePixelRatio || 1, rows = maps.cards.map((card) => card.figures.map(({ canvas }) => canvas));
  const wide = Math.max(...rows.map((row) => row.reduce((sum, canvas) => sum + canvas.width + PADDING * ratio, 0))), sheet = document.createElement('canvas');
  sheet.width = wide + PADDING * ratio;
  sheet.height = rows.reduce((sum, row) => sum + Math.max(...row.map(({ height }) => height)) + (TITLE + PADDING) * ratio, (TITLE + PADDING) * ratio);
  const pen = sheet.getContext('2d');
  pen.fillStyle = css('--ground');
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.fillStyle = css('--ink');
  pen.font = `${13 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  let y = PADDING * ratio;
  for (const [number, row] of rows.entries()) {
    pen.fillText(`${maps.cards[number].name}  ${maps.cards[number].low.textContent} … ${maps.cards[number].high.textContent}`, PADDING * ratio, y + 13 * ratio);
    y += TITLE * ratio;
    let x = PADDING * ratio;
    for (const canvas of row) { pen.drawImage(canvas, x, y); x += canvas.width + PADDING * ratio; }
    y += Math.max(...row.map(({ height }) => height)) + PADDING * ratio;
  }
  pen.fillText(`${state.tapes.map(({ name }) => name).join(' | ')}   tick ${whole(state.tick)}`, PADDING * ratio, y + 13 * ratio);
  sheet.toBlob((blob) => {
    const link = h('a', { href: URL.createObjectURL(blob), download: `${state.tapes[0].name.replace(/\.tape$/, '')}-${state.tick}.png` });
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
