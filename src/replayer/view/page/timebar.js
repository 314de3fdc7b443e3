// The time bar: a strip of the whole run, a ruler and tracks of marks over the visible stretch of ticks.

import { ask, byId, copied, css, measure, penOf, sizeOf, tip, whole } from '/f/dom.js';

export const GUTTER = 76;
const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
const RULER = 20, OVERVIEW = 18;
const HEIGHTS = { matches: 12, keyframes: 14, events: 34, inputs: 14, episodes: 14, difference: 14, findings: 14, cache: 10, 'cache A': 10, 'cache B': 10 };

function rulerStep(span, width) {
  const raw = span / Math.max(1, width / 90), power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? 10 * power;
}

export class TimeBar {
  constructor(state, actions) {
    this.state = state;
    this.actions = actions;
    this.tracks = byId('tracks');
    this.strip = byId('overview');
    this.data = null; // Marks of the visible stretch.
    this.whole = null; // Marks of the whole run, for the strip.
    this.fills = [];
    this.pointer = null;
    this.drag = null;
    this.bases = [document.createElement('canvas'), document.createElement('canvas')]; // Both canvases without the cursor.
    this.seen = 0;
    new ResizeObserver(() => {
      measure(this.tracks);
      if (this.seen === this.width) return; // Its height alone has changed, of itself.
      this.seen = this.width;
      this.load();
      this.draw();
    }).observe(this.tracks);
    this.listen();
  }

  get width() { return Math.max(1, sizeOf(this.tracks).width - GUTTER); }
  x(tick) { const [first, last] = this.state.window; return GUTTER + ((tick - first) / (last - first + 1)) * this.width; }
  exactTick(x) { const [first, last] = this.state.window; return first + ((x - GUTTER) / this.width) * (last - first + 1); }
  tickAt(x) { return this.state.clamp(Math.floor(this.exactTick(x))); }

  listen() {
    const { tracks, strip } = this;
    tracks.onpointerdown = (event) => {
      tracks.setPointerCapture(event.pointerId);
      const tick = this.tickAt(event.offsetX);
      if (event.button === 1 || event.altKey) this.drag = { pan: event.offsetX, window: [...this.state.window] };
      else if (event.shiftKey || event.offsetY < RULER) this.drag = { from: tick, moved: false };
      else { this.drag = { scrub: true }; this.actions.pause(); this.actions.go(tick, true); }
    };
    tracks.onpointermove = (event) => this.moved(event);
    tracks.onpointerup = (event) => {
      const { drag } = this;
      this.drag = null;
      if (drag?.scrub || (drag && drag.from !== undefined && !drag.moved)) this.actions.go(this.tickAt(event.offsetX), false);
      this.actions.changed();
    };
    tracks.onpointerleave = () => { this.pointer = null; tip(null); this.move(); };
    tracks.ondblclick = () => this.show(this.state.first, this.state.last);
    tracks.addEventListener('wheel', (event) => {
      event.preventDefault();
      const [first, last] = this.state.window;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const by = ((event.deltaX || event.deltaY) / this.width) * (last - first);
        this.show(first + by, last + by);
      } else this.zoom(Math.exp(event.deltaY / 300), this.exactTick(event.offsetX));
    }, { passive: false });
    const move = (event) => {
      const { first, last, window } = this.state, share = (event.offsetX - GUTTER) / this.width, half = (window[1] - window[0]) / 2;
      const centre = first + share * (last - first);
      if (window[0] <= first && window[1] >= last) this.actions.go(centre, true);
      else this.show(centre - half, centre + half);
    };
    strip.onpointerdown = (event) => { strip.setPointerCapture(event.pointerId); this.actions.pause(); move(event); };
    strip.onpointermove = (event) => { if (event.buttons) move(event); };
    strip.onpointerup = () => this.actions.go(this.state.tick, false);
  }

  moved(event) {
    const { drag } = this;
    if (!drag) return this.over(event);
    tip(null);
    if (drag.scrub) return this.actions.go(this.tickAt(event.offsetX), true);
    if (drag.from !== undefined) {
      const tick = this.tickAt(event.offsetX);
      drag.moved ||= tick !== drag.from;
      if (drag.moved) this.actions.loop(Math.min(tick, drag.from), Math.max(tick, drag.from));
      return undefined;
    }
    const by = ((drag.pan - event.offsetX) / this.width) * (drag.window[1] - drag.window[0]);
    return this.show(drag.window[0] + by, drag.window[1] + by);
  }

  zoom(factor, about = this.state.tick) {
    const [first, last] = this.state.window;
    this.show(about - (about - first) * factor, about + (last - about) * factor);
  }

  show(first, last) {
    const { state } = this, least = Math.min(10, state.last - state.first);
    let from = first, to = last;
    if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2; to = middle + least / 2; }
    if (from < state.first) { to += state.first - from; from = state.first; }
    if (to > state.last) { from = Math.max(state.first, from - (to - state.last)); to = state.last; }
    state.window = [Math.round(from), Math.round(to)];
    this.load();
    this.draw();
    this.actions.windowed();
    this.actions.changed();
  }

  // Keep the cursor in the visible stretch.
  follow() {
    const { tick, window: [first, last] } = this.state;
    if (tick >= first && tick <= last) return;
    const span = last - first;
    this.show(tick - span * (tick > last ? 0.1 : 0.9), tick + span * (tick > last ? 0.9 : 0.1));
  }

  async load() {
    if (this.loading) { this.again = true; return; }
    this.loading = true;
    try {
      const { state } = this, [first, last] = state.window, bins = Math.round(this.width);
      const asked = [ask('tracks', { first, last, bins })];
      if (state.tapes.length > 1) asked.push(ask('tracks', { first, last, bins, side: 1 }));
      if (!this.whole?.complete || this.wholeBins !== bins) asked[2] = ask('tracks', { first: state.first, last: state.last, bins });
      const [data, other, all] = await Promise.all([asked[0], asked[1], asked[2]]);
      this.data = data;
      this.other = other;
      if (all) { this.whole = all; this.wholeBins = bins; }
      this.actions.marks(data, other);
      this.draw();
    } finally {
      this.loading = false;
      if (this.again) { this.again = false; this.load(); }
    }
  }

  // Events of the newest ticks of a recording: they are counted now, and all are read again in a moment.
  arrive({ events }) {
    const { data } = this;
    if (!data) return;
    for (const [tick, counts] of events) {
      const bin = Math.floor((tick - data.first) / data.width);
      if (bin < data.keyframes.length - 1 || bin > data.keyframes.length + 64) continue; // It is read already, or far away.
      for (const [kind, count] of Object.entries(counts)) {
        data.event_counts[kind] = (data.event_counts[kind] ?? 0) + count;
        const bins = (data.events[kind] ??= []);
        while (bins.length <= bin) bins.push(0);
        bins[bin] += count;
      }
    }
  }

  // Tracks that have nothing to say are not there.
  rows() {
    const { data, state } = this, rows = ['keyframes'];
    if (data && Object.keys(data.event_counts).length) rows.push('events');
    if (data?.input_count) rows.push('inputs');
    if (data?.episode_count) rows.push('episodes');
    if (state.matches) rows.push('matches');
    if (data?.difference?.count) rows.push('difference');
    if (this.findings().length || state.tapes.some((tape) => tape.missing.length)) rows.push('findings');
    return [...rows, ...(state.tapes.length > 1 ? ['cache A', 'cache B'] : ['cache'])];
  }

  findings() {
    return [...(this.data?.troubles ?? []), ...(this.other?.troubles ?? [])];
  }

  eventBins(data) {
    const { kind } = this.state;
    if (kind && data.events[kind]) return data.events[kind];
    const all = Object.values(data.events);
    const length = Math.max(0, ...all.map((bins) => bins.length));
    return Array.from({ length }, (_, at) => all.reduce((sum, bins) => sum + (bins[at] ?? 0), 0));
  }

  draw() {
    const { width } = sizeOf(this.tracks);
    if (!width) return;
    const { state } = this, rows = this.rows();
    const total = RULER + rows.reduce((sum, row) => sum + HEIGHTS[row] + 3, 0);
    if (this.total !== total) this.tracks.style.height = `${total}px`;
    this.total = total;
    const pen = penOf(this.bases[0], width, total);
    pen.font = FONT;
    pen.textBaseline = 'middle';
    this.drawRuler(pen, width, total);
    let y = RULER;
    this.places = [];
    for (const row of rows) {
      const height = HEIGHTS[row];
      pen.fillStyle = css('--dim');
      pen.textAlign = 'right';
      pen.fillText(row === 'events' && state.kind ? state.kind.slice(0, 11) : row, GUTTER - 8, y + height / 2, GUTTER - 10);
      pen.fillStyle = css('--ground');
      pen.fillRect(GUTTER, y, this.width, height);
      pen.save();
      pen.beginPath();
      pen.rect(GUTTER, y, this.width, height);
      pen.clip();
      this.drawRow(pen, row, y, height);
      pen.restore();
      this.places.push([row, y, y + height]);
      y += height + 3;
    }
    this.drawStrip(penOf(this.bases[1], width, OVERVIEW), width);
    this.move();
  }

  // The cursor alone has moved.
  move() {
    const { width } = sizeOf(this.tracks), { state, tracks, total } = this;
    if (!width || !total) return;
    this.drawCursor(copied(this.bases[0], tracks, width, total), total);
    const pen = copied(this.bases[1], this.strip, width, OVERVIEW);
    pen.fillStyle = css('--accent');
    pen.fillRect(this.stripX(state.tick + 0.5) - 1, 0, 2, OVERVIEW);
    tracks.setAttribute('aria-valuemin', state.first);
    tracks.setAttribute('aria-valuemax', state.last);
    tracks.setAttribute('aria-valuenow', state.tick);
    tracks.setAttribute('aria-valuetext', `tick ${state.tick} of ${state.last}`);
  }

  drawRuler(pen, width, total) {
    const [first, last] = this.state.window, step = rulerStep(last - first, this.width);
    for (let tick = Math.ceil(first / step) * step; tick <= last; tick += step) {
      const x = Math.round(this.x(tick)) + 0.5;
      pen.fillStyle = css('--line');
      pen.fillRect(x, 3, 1, total - 3);
      pen.fillStyle = css('--dim');
      const isLast = x + 6 + pen.measureText(whole(tick)).width > width; // Its number stands before the line.
      pen.textAlign = isLast ? 'right' : 'left';
      pen.fillText(whole(tick), x + (isLast ? -4 : 4), 9);
    }
  }

  // The number of the tick next to its handle, in place of the numbers of the ruler that both would cover in part.
  drawTick(pen, x) {
    const { width } = sizeOf(this.tracks), [first, last] = this.state.window, step = rulerStep(last - first, this.width);
    pen.font = FONT;
    pen.textBaseline = 'middle';
    pen.textAlign = 'left';
    const words = whole(this.state.tick), wide = pen.measureText(words).width, at = x + 10 + wide < width ? x + 10 : x - 10 - wide;
    const [from, to] = [Math.min(at, x - 6) - 4, Math.max(at + wide, x + 6) + 4];
    pen.fillStyle = css('--panel');
    for (let tick = Math.floor(this.state.tick / step) * step - step, end = tick + 3 * step; tick <= end; tick += step) {
      const label = pen.measureText(whole(tick)).width, line = Math.round(this.x(tick)) + 0.5, start = line + (line + 6 + label > width ? -4 - label : 4);
      if (start < to && start + label > from) pen.fillRect(start - 1, 2, label + 2, 13);
    }
    pen.fillStyle = css('--accent');
    pen.fillText(words, at, 9);
  }

  drawRow(pen, row, y, height) {
    const { data, state } = this;
    if (row.startsWith('cache')) {
      pen.fillStyle = css('--fill');
      for (const [first, last] of this.fills[row === 'cache B' ? 1 : 0] ?? []) pen.fillRect(this.x(first), y, Math.max(1, this.x(last + 1) - this.x(first)), height);
      return;
    }
    if (row === 'matches') {
      pen.fillStyle = css('--match');
      for (const [first, last] of state.matches.ranges) pen.fillRect(this.x(first), y + 1, Math.max(1.5, this.x(last + 1) - this.x(first)), height - 2);
      return;
    }
    if (!data) return;
    if (row === 'keyframes') this.drawBins(pen, data.keyframes, y + 2, height - 4, css('--key'), false);
    if (row === 'events') this.drawBins(pen, this.eventBins(data), y, height, css('--event'), true);
    if (row === 'inputs') this.drawBins(pen, data.inputs, y + 2, height - 4, css('--input'), false);
    if (row === 'difference') this.drawBins(pen, data.differences, y + 2, height - 4, css('--bad'), false, true);
    if (row === 'episodes') {
      for (const [number, [first, last]] of data.episodes.entries()) {
        pen.globalAlpha = number % 2 ? 0.5 : 0.9;
        pen.fillStyle = css('--episode');
        pen.fillRect(this.x(first), y + 3, Math.max(1, this.x(last + 1) - this.x(first) - 1), height - 6);
      }
      pen.globalAlpha = 1;
    }
    if (row === 'findings') {
      for (const { missing } of state.tapes) for (const [first, last] of missing) this.hatch(pen, this.x(first), y + 1, Math.max(3, this.x(last + 1) - this.x(first)), height - 2);
      for (const [tick] of this.findings()) this.diamond(pen, this.x(tick + 0.5), y + height / 2, 5);
    }
  }

  drawBins(pen, bins, y, height, colour, asBars, hatched = false) {
    const { first, width } = this.data, most = Math.max(1, ...bins);
    pen.fillStyle = colour;
    for (const [at, count] of bins.entries()) {
      if (!count) continue;
      const x = this.x(first + at * width), wide = Math.max(1, this.x(first + (at + 1) * width) - x);
      if (asBars) { const tall = Math.max(1, (count / most) * height); pen.fillRect(x, y + height - tall, Math.max(1, wide), tall); }
      else if (hatched) this.hatch(pen, x, y, wide, height);
      else pen.fillRect(x, y, Math.max(1.5, Math.min(wide, 3)), height);
    }
  }

  // Red and of a shape of its own: never colour alone.
  hatch(pen, x, y, width, height) {
    pen.save();
    pen.fillStyle = css('--bad');
    pen.globalAlpha = 0.45;
    pen.fillRect(x, y, width, height);
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = css('--bad');
    pen.lineWidth = 1.2;
    pen.beginPath();
    const start = Math.floor((x - height) / 5) * 5;
    for (let at = start; at < x + width + height; at += 5) { pen.moveTo(at, y + height); pen.lineTo(at + height, y); }
    pen.stroke();
    pen.restore();
  }

  diamond(pen, x, y, size) {
    pen.fillStyle = css('--bad');
    pen.beginPath();
    pen.moveTo(x, y - size);
    pen.lineTo(x + size, y);
    pen.lineTo(x, y + size);
    pen.lineTo(x - size, y);
    pen.fill();
  }

  drawCursor(pen, total) {
    const { state } = this;
    if (state.loopRange) {
      const [first, last] = state.loopRange;
      pen.fillStyle = css('--accent');
      pen.globalAlpha = 0.14;
      pen.fillRect(this.x(first), 0, this.x(last + 1) - this.x(first), total);
      pen.globalAlpha = 1;
    }
    const first = this.data?.difference?.first;
    if (first !== null && first !== undefined) {
      pen.strokeStyle = css('--bad');
      pen.setLineDash([3, 2]);
      pen.beginPath();
      pen.moveTo(this.x(first), RULER);
      pen.lineTo(this.x(first), total);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (this.pointer !== null) { pen.fillStyle = css('--hair'); pen.fillRect(Math.round(this.pointer), 0, 1, total); }
    const x = this.x(state.tick + 0.5);
    if (x < GUTTER) return;
    this.drawTick(pen, x);
    pen.fillStyle = css('--accent');
    pen.fillRect(x - 1, 0, 2, total);
    pen.beginPath();
    pen.moveTo(x - 6, 2);
    pen.lineTo(x + 6, 2);
    pen.lineTo(x + 6, 9);
    pen.lineTo(x, 15);
    pen.lineTo(x - 6, 9);
    pen.fill();
  }

  stripX(tick) {
    const { first, last } = this.state;
    return GUTTER + ((tick - first) / (last - first + 1)) * this.width;
  }

  drawStrip(pen, width) {
    const { state, whole: all } = this, height = OVERVIEW, x = (tick) => this.stripX(tick);
    pen.font = FONT;
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    pen.fillStyle = css('--dim');
    pen.fillText('whole run', GUTTER - 8, height / 2);
    pen.fillStyle = css('--raised');
    pen.fillRect(GUTTER, 0, width - GUTTER, height);
    if (all) {
      const bins = this.eventBins(all), most = Math.max(1, ...bins);
      pen.fillStyle = css('--event');
      pen.globalAlpha = 0.6;
      for (const [at, count] of bins.entries()) {
        if (!count) continue;
        const from = x(all.first + at * all.width), tall = (count / most) * (height - 3);
        pen.fillRect(from, height - tall, Math.max(1, x(all.first + (at + 1) * all.width) - from), tall);
      }
      pen.globalAlpha = 1;
      pen.fillStyle = css('--bad');
      for (const [at, count] of all.differences.entries()) if (count) pen.fillRect(x(all.first + at * all.width), 0, 2, 4);
    }
    pen.strokeStyle = css('--accent');
    pen.strokeRect(x(state.window[0]) + 0.5, 0.5, Math.max(3, x(state.window[1] + 1) - x(state.window[0]) - 1), height - 1);
  }

  over(event) {
    const { data, state } = this;
    this.pointer = event.offsetX >= GUTTER ? event.offsetX : null;
    if (this.pointer === null || !data) { tip(null); return this.move(); }
    const tick = this.tickAt(event.offsetX), lines = [`tick ${whole(tick)}`];
    const row = this.places?.find(([, top, bottom]) => event.offsetY >= top && event.offsetY <= bottom)?.[0];
    const bin = Math.floor((tick - data.first) / data.width);
    const stretch = data.width > 1 ? `in these ${data.width} ticks: ` : '';
    if (row === 'events') {
      const counts = Object.entries(data.events).map(([kind, bins]) => [kind, bins[bin]]).filter(([, count]) => count);
      counts.sort((one, other) => other[1] - one[1]);
      if (counts.length) lines.push(stretch + counts.slice(0, 6).map(([kind, count]) => `${count} ${kind}`).join(', '));
    }
    if (row === 'inputs' && data.inputs[bin]) lines.push(data.width > 1 ? `${stretch}${data.inputs[bin]} with inputs` : 'has inputs');
    if (row === 'keyframes' && data.keyframes[bin]) lines.push('keyframe');
    if (row === 'difference' && data.differences[bin]) lines.push(data.width > 1 ? `${stretch}${data.differences[bin]} differ` : 'differs');
    if (row === 'episodes') {
      const one = data.episodes.find(([first, last]) => first <= tick && tick <= last);
      if (one) lines.push(`episode: step ${tick - one[0]} of ${one[1] - one[0]}${one[2] === null ? '' : `, return ${one[2]}`}`);
    }
    if (row === 'findings') {
      for (const { missing } of state.tapes) for (const [first, last] of missing) if (tick >= first && tick <= last) lines.push(`ticks ${whole(first)} to ${whole(last)} are lost`);
      for (const [at, text] of this.findings()) if (Math.abs(this.x(at) - event.offsetX) < 7) lines.push(text);
    }
    if (row === 'matches') lines.push(`${state.matches.condition}: ${state.matches.ranges.some(([first, last]) => tick >= first && tick <= last) ? 'holds' : 'does not hold'}`);
    if (row?.startsWith('cache')) {
      const filled = this.fills[row === 'cache B' ? 1 : 0]?.some(([first, last]) => tick >= first && tick <= last);
      lines.push(filled ? 'in the cache: shown at once' : 'not in the cache: re-simulated when you go there');
    }
    tip(event, lines.join('\n'));
    return this.move();
  }
}
