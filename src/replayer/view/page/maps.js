// Heat maps and pictures: one card a layer, in it one figure a side, with legend, points, cross hair and values on hover.

import { h, byId, css, figure, tell, tip, whole } from '/f/dom.js';
import { categoryOf, isFew, MAPS, NOT_FINITE, POINT_COLOURS, table, wordOf } from '/f/colours.js';
import { Rings } from '/f/rings.js';
import { DIFFERENCE, OTHER_TICK, PICTURE, POINT, VALUES, valueOf } from '/f/wire.js';

const GAP = 10, CARD_PADDING = 22, TOP = 46, CAPTION = 20, NAMED = 22, SIDE_GAP = 8, EXACT_MS = 220, SIZES_SHOWN = 6, SMOOTH_TO = 3, KEPT_SHARE = 0.85;
const SHAPE = { width: 48, height: 48 }; // Until the first frame is there.
export { MAPS };

export class Maps {
  constructor(state, actions) {
    this.state = state;
    this.actions = actions;
    this.root = byId('maps');
    this.cards = [];
    this.frames = [];
    this.ranges = new Map();
    this.largest = 0; // Size among the points that were seen.
    this.hover = null;
    new ResizeObserver(() => this.fit()).observe(this.root);
  }

  sides() {
    if (this.state.tapes.length < 2) return [0];
    return { side: [0, 1], both: [0, 1, 2], difference: [2], blink: [0] }[this.state.compare];
  }

  build(layers) {
    this.cards = layers.map((name) => this.card(name));
    this.root.replaceChildren(...this.cards.map(({ element }) => element));
    this.fit();
  }

  card(name) {
    const card = { name, figures: [], legend: h('canvas', { width: 256, height: 1 }), nothing: h('i', { hidden: true, title: '0 has this colour, so that sparse maps can be read' }), low: h('span'), high: h('span'), shape: SHAPE };
    for (const side of this.sides()) {
      const one = { side, canvas: h('canvas', { role: 'img' }), small: document.createElement('canvas'), rings: new Rings(), wait: h('div', { className: 'wait', hidden: true }), mark: h('span'), note: h('span') };
      one.element = h('figure', {}, one.canvas, one.wait);
      if (this.state.tapes.length > 1) one.element.append(h('figcaption', {}, one.mark, one.note));
      one.canvas.onpointermove = (event) => this.over(event, one, card);
      if (this.state.info.fields.includes(name) && !this.state.finding) one.canvas.onclick = () => { if (this.hover) this.actions.asks('who', name, `${this.hover.y},${this.hover.x}`); };
      one.canvas.onpointerleave = () => { this.hover = null; tip(null); this.soon(); };
      card.figures.push(one);
    }
    card.legendBox = h('div', { className: 'legend' }, card.low, card.nothing, card.legend, card.high);
    card.categories = h('div', { className: 'legend', hidden: true });
    card.named = h('div', { className: 'named', hidden: true });
    const isLarge = this.state.large === name, word = isLarge ? 'All maps' : 'This map alone, as large as the page';
    const enlarge = h('button', { className: 'enlarge', title: `${word} ( x )`, ariaLabel: word, ariaPressed: String(isLarge), textContent: isLarge ? '⤡' : '⤢', onclick: () => this.actions.enlarge(isLarge ? null : name) });
    card.element = h('article', { className: 'card' },
      h('div', { className: 'top' }, h('b', { textContent: name, title: name }), card.legendBox, card.categories, ...(this.actions.enlarge ? [enlarge] : [])),
      h('div', { className: 'pair' }, ...card.figures.map(({ element }) => element)), card.named);
    return card;
  }

  layerOf(frame, name) {
    if (!frame) return undefined;
    const names = this.state.tapes[frame.side === 2 ? 0 : frame.side].layers;
    return frame.layers.get(names.indexOf(name));
  }

  show(frames) {
    this.frames = frames;
    for (const frame of frames) this.seen(frame);
    const hasPoints = frames.some((frame) => frame?.points.size);
    let changed = hasPoints !== this.hasPoints;
    this.hasPoints = hasPoints;
    for (const card of this.cards) {
      const layer = frames.map((frame) => this.layerOf(frame, card.name)).find(Boolean);
      if (layer && (layer.width !== card.shape.width || layer.height !== card.shape.height)) {
        card.shape = { width: layer.width, height: layer.height };
        changed = true;
      }
    }
    if (changed) this.fit();
    else this.soon();
  }

  // As many columns as make the smallest map largest; whole device pixels a cell, if little is lost.
  fit() {
    if (!this.cards.length) return;
    const sides = this.cards[0].figures.length, count = this.cards.length;
    const width = this.root.clientWidth - 20, height = this.root.clientHeight - 20;
    const caption = this.state.tapes.length > 1 ? CAPTION : 0, ratio = devicePixelRatio || 1;
    const scale = (card, columns) => {
      const rows = Math.ceil(count / columns);
      const wide = ((width - GAP * (columns - 1)) / columns - CARD_PADDING - SIDE_GAP * (sides - 1)) / sides;
      const tall = Math.max(120, (height - GAP * (rows - 1)) / rows - TOP - caption - (this.hasPoints ? NAMED : 0));
      return Math.min(wide / card.shape.width, tall / card.shape.height);
    };
    let columns = 1;
    const smallest = (n) => Math.min(...this.cards.map((card) => scale(card, n)));
    for (let n = 2; n <= count; n++) if (smallest(n) > smallest(columns)) columns = n;
    this.root.style.gridTemplateColumns = `repeat(${columns}, max-content)`;
    for (const card of this.cards) {
      const exact = Math.max(scale(card, columns), 40 / card.shape.width);
      const whole = Math.floor(exact * ratio); // Device pixels; uneven cells are better than a map that is much smaller.
      const cell = whole >= 2 && whole >= KEPT_SHARE * exact * ratio ? whole / ratio : exact;
      const shown = { width: card.shape.width * cell, height: card.shape.height * cell };
      card.element.style.width = `${Math.max(Math.min(230, Math.floor((width - GAP * (columns - 1)) / columns)), sides * shown.width + SIDE_GAP * (sides - 1) + 20)}px`;
      for (const { canvas } of card.figures) {
        canvas.style.width = `${shown.width}px`;
        canvas.style.height = `${shown.height}px`;
        canvas.width = Math.round(shown.width * ratio);
        canvas.height = Math.round(shown.height * ratio);
      }
    }
    this.paint();
  }

  // Once a picture of the screen, however often it is asked for.
  soon() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const ground = wordOf(css('--map'));
    for (const card of this.cards) {
      const range = this.rangeOf(card);
      for (const one of card.figures) this.paintFigure(card, one, range, ground);
      this.paintLegend(card, range);
      this.namePoints(card);
    }
  }

  // The scales of all ticks that are ready: a colour means the same before and after a tick is looked at.
  filled(scales) {
    for (const [name, [low, high]] of Object.entries(scales)) {
      const { low: least, high: most } = this.ranges.get(name) ?? { low, high };
      this.ranges.set(name, { low: Math.min(least, low), high: Math.max(most, high) });
    }
    this.soon();
  }

  // The range of colours: all that is known of the layer, or this tick's own.
  rangeOf(card) {
    const own = { low: Infinity, high: -Infinity };
    for (const frame of this.frames) {
      const layer = frame && frame.side < 2 ? this.layerOf(frame, card.name) : undefined;
      if (!layer || layer.kind === PICTURE) continue;
      own.low = Math.min(own.low, layer.low);
      own.high = Math.max(own.high, layer.high);
    }
    const seen = this.ranges.get(card.name) ?? { low: Infinity, high: -Infinity };
    const grown = { low: Math.min(seen.low, own.low), high: Math.max(seen.high, own.high) };
    this.ranges.set(card.name, grown);
    return this.state.scale === 'own' ? own : grown;
  }

  sideOf(one) {
    return this.state.compare === 'blink' && this.state.tapes.length > 1 ? this.state.blink : one.side;
  }

  paintFigure(card, one, range, ground) {
    const { state } = this, side = this.sideOf(one), frame = this.frames[side], layer = this.layerOf(frame, card.name);
    const expected = state.shownTick(side);
    const isLate = !frame || frame.shown !== expected;
    one.element.classList.toggle('stale', isLate && !state.playing);
    one.wait.hidden = !isLate || state.playing;
    tell(one.wait, !frame ? 'reading …' : frame.flags & OTHER_TICK && frame.asked === expected ? (state.tapes[side]?.role === 'recorded' ? `not recorded; tick ${whole(frame.shown)}, the last that agrees` : `keyframe ${whole(frame.shown)}`) : `${whole(frame.shown)} – on the way to ${whole(expected)}`);
    tell(one.mark, 'ABΔ'[side]);
    one.mark.className = `side s${side}`;
    const label = this.label(card, side, frame, layer);
    if (one.canvas.ariaLabel !== label) one.canvas.ariaLabel = label;
    const pen = one.canvas.getContext('2d');
    if (!layer) {
      if (frame) pen.clearRect(0, 0, one.canvas.width, one.canvas.height);
      tell(one.note, frame ? 'not at this tick' : '');
      if (frame && state.isWhole) { tell(one.wait, 'not at this tick'); one.wait.hidden = false; }
      return;
    }
    const differing = this.paintCells(one, card.name, layer, range, ground);
    pen.imageSmoothingEnabled = one.canvas.width < layer.width * (layer.kind === PICTURE ? SMOOTH_TO : 1);
    pen.clearRect(0, 0, one.canvas.width, one.canvas.height);
    pen.drawImage(one.small, 0, 0, one.canvas.width, one.canvas.height);
    tell(one.note, side < 2 ? state.tapes[side].role ?? state.tapes[side].name : differing ? `${whole(differing)} ${differing === 1 ? 'cell differs' : 'cells differ'}, by ${figure(layer.high)} at most` : 'the same');
    one.note.title = one.note.textContent; // It may be wider than the map.
    if (layer.kind === VALUES) this.paintPoints(pen, one, frame, layer);
    this.paintHair(pen, one, layer);
  }

  label(card, side, frame, layer) {
    const who = this.state.tapes.length > 1 ? `, ${['tape A', 'tape B', 'difference B minus A'][side]}` : '';
    const range = layer && layer.kind !== PICTURE ? `, from ${figure(layer.low)} to ${figure(layer.high)}` : '';
    return `${card.name}${who}, tick ${frame ? frame.shown : 'unknown'}${range}`;
  }

  paintCells(one, name, layer, range, ground) {
    const { small } = one;
    if (small.width !== layer.width || small.height !== layer.height || !one.image) {
      small.width = layer.width;
      small.height = layer.height;
      one.image = small.getContext('2d').createImageData(layer.width, layer.height);
    }
    const pixels = new Uint32Array(one.image.data.buffer), { codes } = layer;
    let differing = 0;
    if (layer.kind === PICTURE) {
      for (let i = 0, at = 0; i < pixels.length; i++, at += 3) pixels[i] = ((255 << 24) | (codes[at + 2] << 16) | (codes[at + 1] << 8) | codes[at]) >>> 0;
    } else {
      const colours = this.coloursOf(name, layer, range, ground);
      for (let i = 0; i < pixels.length; i++) {
        pixels[i] = colours[codes[i]];
        if (codes[i] !== 128) differing++;
      }
    }
    small.getContext('2d').putImageData(one.image, 0, 0);
    return layer.kind === DIFFERENCE ? differing : 0;
  }

  // One colour for each byte of this frame: each frame has a range of its own, the shown scale may be wider.
  coloursOf(name, layer, range, ground) {
    const colours = new Uint32Array(256);
    if (layer.kind === DIFFERENCE) {
      const all = table('difference');
      for (let code = 2; code < 255; code++) colours[code] = all[Math.round(127.5 + ((code - 128) / 126) * 127.5)];
      colours[128] = ground;
    } else {
      const all = table(this.state.map), areFew = this.areFew(name, layer), span = range.high - range.low || 1;
      for (let code = 0; code <= layer.steps; code++) {
        const value = layer.low + (code / layer.steps) * (layer.high - layer.low);
        colours[code] = areFew ? wordOf(categoryOf(Math.round(value))) : all[Math.max(0, Math.min(255, Math.floor(((value - range.low) / span) * 255)))];
      }
      // Nothing looks like the ground, so that sparse layers can be read. The legend says so: 0 is where its scale begins.
      if (layer.low === 0 && range.low === 0) colours[0] = ground;
    }
    if (layer.steps < 255) colours[255] = NOT_FINITE;
    return colours;
  }

  // As far as all ticks that are known tell, whatever the scale is: else the colours of a tick could be of the other sort.
  areFew(name, layer) {
    return this.state.few === 'categories' && layer.kind === VALUES && isFew(layer, this.ranges.get(name));
  }

  // Below a map: the rings on it, with their names and how many there are at this tick, of each tape that is shown.
  namePoints(card) {
    const shown = card.figures.map((one) => this.frames[this.sideOf(one)]).filter((frame) => this.layerOf(frame, card.name)?.kind === VALUES);
    const counts = new Map();
    for (const [at, frame] of shown.entries()) {
      for (const [kind, places] of frame.points) {
        const name = this.state.tapes[frame.side].points[kind];
        if (!counts.has(name)) counts.set(name, shown.map(() => 0));
        counts.get(name)[at] = places.length / POINT;
      }
    }
    const kinds = [...counts].filter(([name]) => !this.state.hidden.has(name)).map(([name, each]) => [name, each.map(whole).join(' | ')]);
    const text = kinds.map((one) => one.join(' ')).join(' ');
    if (card.namedText === text) return;
    card.namedText = text;
    card.named.hidden = !kinds.length;
    card.named.title = text;
    card.named.replaceChildren(...kinds.map(([name, each]) => {
      const ring = h('i', { className: 'ring' });
      ring.style.borderColor = POINT_COLOURS[this.state.info.points.indexOf(name) % POINT_COLOURS.length];
      return h('span', {}, ring, `${name} `, h('b', { textContent: each }));
    }));
  }

  // Rings: the value below stays seen.
  paintPoints(pen, one, frame, layer) {
    if (!frame.points.size) return;
    const scale = one.canvas.width / layer.width, ratio = devicePixelRatio || 1;
    one.rings.begin(one.canvas.width, one.canvas.height);
    const least = 2.2 * ratio, plain = Math.max(least, Math.min(scale * 0.4, 8));
    const most = Math.max(plain, Math.min(scale * 1.5, 14 * ratio)), largest = this.largest || 1;
    for (const [kind, places] of frame.points) {
      const name = this.state.tapes[frame.side].points[kind];
      if (this.state.hidden.has(name)) continue;
      const dark = Math.max(2.6 * ratio, plain * 0.55), line = Math.max(1.5 * ratio, plain * 0.34);
      const colour = POINT_COLOURS[this.state.info.points.indexOf(name) % POINT_COLOURS.length];
      for (let i = 0; i < places.length; i += POINT) {
        const size = places[i + 2];
        const radius = Number.isNaN(size) ? plain : Math.max(least, most * Math.sqrt(Math.max(0, Math.min(1, size / largest)))); // The area tells the size.
        one.rings.add(places[i] * scale, places[i + 1] * scale, radius, colour, line, dark);
      }
    }
    one.rings.paint(pen);
  }

  // One scale for the rings of all kinds, both tapes and all ticks that were seen: rings can be compared.
  seen(frame) {
    for (const places of frame?.points.values() ?? []) for (let i = 2; i < places.length; i += POINT) if (places[i] > this.largest && Number.isFinite(places[i])) this.largest = places[i];
  }

  paintHair(pen, one, layer) {
    const { hover } = this;
    if (!hover || hover.x >= layer.width || hover.y >= layer.height || layer.kind === PICTURE) return;
    const scale = one.canvas.width / layer.width;
    pen.strokeStyle = css('--hair');
    pen.lineWidth = devicePixelRatio || 1;
    pen.beginPath();
    pen.moveTo((hover.x + 0.5) * scale, 0);
    pen.lineTo((hover.x + 0.5) * scale, one.canvas.height);
    pen.moveTo(0, (hover.y + 0.5) * scale);
    pen.lineTo(one.canvas.width, (hover.y + 0.5) * scale);
    pen.stroke();
    pen.strokeStyle = '#fff';
    pen.strokeRect(hover.x * scale, hover.y * scale, scale, scale);
  }

  paintLegend(card, range) {
    const first = card.figures[0], isDifference = first.side === 2;
    const layer = this.layerOf(this.frames[this.sideOf(first)], card.name);
    const areFew = !isDifference && layer && this.areFew(card.name, layer);
    card.legendBox.hidden = areFew || !layer || layer.kind === PICTURE; // Nothing drawn has no scale, nor have colours.
    card.categories.hidden = !areFew;
    if (areFew) { this.paintCategories(card); return; }
    if (card.known) { card.known = null; card.categories.replaceChildren(); } // There were fewer until now.
    const colours = table(isDifference ? 'difference' : this.state.map);
    if (card.colours !== colours) {
      card.colours = colours;
      const pen = card.legend.getContext('2d'), image = pen.createImageData(256, 1);
      new Uint32Array(image.data.buffer).set(colours);
      pen.putImageData(image, 0, 0);
    }
    const { low, high } = isDifference ? layer ?? { low: NaN, high: NaN } : range;
    const short = (value) => (Number.isFinite(value) ? figure(Number.isInteger(value) ? value : Number(value.toPrecision(3))) : '');
    card.nothing.hidden = isDifference || low !== 0;
    tell(card.low, short(low));
    tell(card.high, short(high));
  }

  paintCategories(card) {
    const { low, high } = this.ranges.get(card.name);
    const key = `${low} ${high}`;
    if (card.known === key) return;
    card.known = key;
    card.categories.replaceChildren(...Array.from({ length: high - low + 1 }, (_, at) => {
      const square = h('i');
      if (low !== 0 || at > 0) square.style.background = categoryOf(low + at); // Nothing has the colour of the ground.
      return h('span', {}, square, String(low + at));
    }));
  }

  over(event, one, card) {
    const side = this.sideOf(one), frame = this.frames[side], layer = this.layerOf(frame, card.name);
    if (!layer || layer.kind === PICTURE) return;
    const place = (offset, shown, cells) => Math.max(0, Math.min(cells - 1, Math.floor((offset / shown) * cells)));
    const x = place(event.offsetX, one.canvas.clientWidth, layer.width), y = place(event.offsetY, one.canvas.clientHeight, layer.height);
    this.hover = { x, y, layer: card.name };
    const lines = this.lines(card, x, y, side);
    tip(event, lines.join('\n'));
    this.soon();
    clearTimeout(this.exactly);
    if (!this.state.playing) this.exactly = setTimeout(() => this.exact(event, card.name, x, y, lines), EXACT_MS);
  }

  lines(card, x, y, side) {
    const several = this.state.tapes.length > 1, lines = [`x ${x}, y ${y}`];
    for (const frame of this.frames) {
      const layer = this.layerOf(frame, card.name);
      if (layer && layer.kind !== PICTURE) lines.push(`${several ? `${'ABΔ'[frame.side]}  ` : ''}${valueOf(layer, y * layer.width + x, figure)}`);
    }
    for (const [kind, places] of this.frames[side].points) {
      const sizes = [];
      for (let i = 0; i < places.length; i += POINT) if (Math.floor(places[i]) === x && Math.floor(places[i + 1]) === y) sizes.push(places[i + 2]);
      if (!sizes.length) continue;
      const shown = sizes.filter((size) => !Number.isNaN(size)).slice(0, SIZES_SHOWN).map(figure).join(', ');
      lines.push(`${sizes.length} × ${this.state.tapes[side].points[kind]}${shown ? `, size ${shown}${sizes.length > SIZES_SHOWN ? ', …' : ''}` : ''}`);
    }
    return lines;
  }

  async exact(event, layer, x, y, lines) {
    const cells = await this.actions.exact(layer, x, y);
    if (!this.hover || this.hover.x !== x || this.hover.y !== y || cells.some((cell) => cell === null)) return;
    const several = cells.length > 1;
    tip(event, [...lines, ...cells.map((cell, side) => `${several ? `${'AB'[side]}  ` : ''}${cell} exactly`)].join('\n'));
  }
}
