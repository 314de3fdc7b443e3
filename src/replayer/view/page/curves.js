// Curves over ticks, on the time bar's own axis. Tape A is solid, tape B dashed. Names that begin alike share a scale.

import { ask, byId, copied, css, figure, h, measure, penOf, sizeOf, tell, tip, whole } from '/f/dom.js';
import { GUTTER } from '/f/timebar.js';

const CURVES_MAX = 6, PADDING = 6;
const groupOf = (name) => (name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : name);

export class Curves {
  constructor(state, actions) {
    this.state = state;
    this.actions = actions;
    this.plot = byId('plot');
    this.points = new Map(); // "side name" to points.
    this.base = document.createElement('canvas'); // The curves without the cursor.
    new ResizeObserver(() => { measure(this.plot); this.load(); this.draw(); }).observe(this.plot);
    const go = (event, drag) => { if (event.offsetX >= GUTTER) actions.go(actions.tickAt(event.offsetX), drag); };
    this.plot.onpointerdown = (event) => { this.plot.setPointerCapture(event.pointerId); actions.pause(); go(event, true); };
    this.plot.onpointermove = (event) => { if (event.buttons) go(event, true); else this.over(event); };
    this.plot.onpointerup = (event) => go(event, false);
    this.plot.onpointerleave = () => tip(null);
  }

  names() {
    return [...new Set([...this.state.telemetry, ...this.state.info.curves])];
  }

  build() {
    const { state } = this, rest = this.names().filter((name) => !state.curves.includes(name));
    byId('curves').hidden = !this.names().length;
    this.chips = state.curves.map((name, number) => {
      const mark = h('i'), value = h('b'), range = h('span', { className: 'dim', title: 'The lowest and the highest value of this curve in what is seen' }), remove = h('button', { textContent: '×', ariaLabel: `Remove the curve ${name}`, onclick: () => this.actions.curve(name, false) });
      mark.style.background = css(`--c${number}`);
      return { name, value, range, element: h('span', { className: 'chip', title: state.telemetry.includes(name) ? `${name}: recorded telemetry` : `${name}: computed on the way; of an array the sum` }, mark, h('span', { className: 'name', textContent: !state.telemetry.includes(name) && state.info.summed_curves?.includes(name) ? `sum of ${name}` : name }), value, range, remove) };
    });
    const add = h('select', { ariaLabel: 'Add a curve', hidden: !rest.length }, h('option', { textContent: '+ curve', value: '' }), ...rest.map((name) => h('option', { textContent: name, value: name })));
    add.onchange = () => { if (add.value) this.actions.curve(add.value, true); };
    this.axisNote = h('span', { id: 'axis', className: 'dim', hidden: true, title: 'Curves whose names begin alike share a scale; each scale fills the height of the plot' });
    byId('chips').replaceChildren(h('span', { className: 'dim', textContent: 'curves' }), ...this.chips.map(({ element }) => element), add, this.axisNote);
    this.load();
  }

  async load() {
    if (this.loading) { this.again = true; return; }
    this.loading = true;
    try {
      const { state } = this, [first, last] = state.window, bins = Math.max(10, Math.round(sizeOf(this.plot).width - GUTTER));
      const asked = [];
      for (const side of state.tapes.keys()) {
        for (const name of state.curves) asked.push(ask('curve', { name, side, first, last, bins }).then(({ points }) => [`${side} ${name}`, points]));
      }
      this.points = new Map(await Promise.all(asked));
      this.draw();
    } finally {
      this.loading = false;
      if (this.again) { this.again = false; this.load(); }
    }
  }

  // The newest tick of a recording: its values are drawn now, and read again with all others in a moment.
  arrive(head) {
    this.head = head;
    for (const name of this.state.curves) {
      const value = head.figures[name], points = this.points.get(`${head.side} ${name}`);
      if (value === undefined || !points || (points.at(-1)?.[0] ?? -1) >= head.tick) continue;
      if (points.length && points.at(-1)[0] < head.tick - 1) points.push([points.at(-1)[0] + 1, null]);
      points.push([head.tick, value]);
    }
    this.move();
  }

  valueAt(side, name, tick) {
    const points = this.points.get(`${side} ${name}`) ?? [];
    let low = 0, high = points.length; // The first point that is not before the tick.
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < tick) low = middle + 1;
      else high = middle;
    }
    while (points[low + 1]?.[0] === tick) low++;
    return points[low]?.[0] === tick ? points[low][1] : null;
  }

  // The lowest and the highest known value of a curve, of all tapes.
  rangeOf(name) {
    const { state } = this, [first, last] = state.window, range = { low: Infinity, high: -Infinity };
    for (const side of state.tapes.keys()) {
      for (const [tick, value] of this.points.get(`${side} ${name}`) ?? []) {
        if (value === null || tick < first || tick > last) continue; // One before and behind leads the line out of the plot.
        range.low = Math.min(range.low, value);
        range.high = Math.max(range.high, value);
      }
    }
    return range;
  }

  // The scale of each group of curves: it holds the ranges of all of them.
  scales() {
    const scales = new Map();
    for (const name of this.state.curves) {
      const { low, high } = this.rangeOf(name), scale = scales.get(groupOf(name)) ?? { low: Infinity, high: -Infinity };
      scales.set(groupOf(name), { low: Math.min(scale.low, low), high: Math.max(scale.high, high) });
    }
    return scales;
  }

  draw() {
    const { state } = this, { width, height } = sizeOf(this.plot);
    if (!width || !state.window) return;
    const pen = penOf(this.base, width, height), scales = this.scales(), x = (tick) => this.x(tick);
    const y = (value, { low, high }) => height - PADDING - ((value - low) / (high - low || 1)) * (height - 2 * PADDING - 8);
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.textBaseline = 'middle';
    this.drawAxis(pen, width, scales, y);
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, 0, width - GUTTER, height);
    pen.clip();
    pen.lineWidth = 1.6;
    for (const side of state.tapes.keys()) {
      pen.setLineDash(side ? [4, 3] : []);
      for (const [number, name] of state.curves.entries()) this.drawCurve(pen, this.points.get(`${side} ${name}`) ?? [], x, (value) => y(value, scales.get(groupOf(name))), css(`--c${number}`));
    }
    pen.restore();
    pen.setLineDash([]);
    this.tellRanges(scales);
    this.move();
  }

  x(tick) {
    const [first, last] = this.state.window;
    return GUTTER + ((tick + 0.5 - first) / (last - first + 1)) * (sizeOf(this.plot).width - GUTTER);
  }

  // The cursor alone has moved.
  move() {
    const { state } = this, { width, height } = sizeOf(this.plot);
    if (!width || !state.window) return;
    const [first, last] = state.window, pen = copied(this.base, this.plot, width, height);
    if (state.tick >= first && state.tick <= last) {
      pen.fillStyle = css('--accent');
      pen.fillRect(this.x(state.tick) - 1, 0, 2, height);
    }
    for (const { name, value } of this.chips ?? []) tell(value, this.valueText(name));
  }

  // At the head of a recording, what is known last is told with its tick: telemetry comes a moment later.
  valueText(name) {
    const { state } = this, { tick } = state, at = this.head?.tick === tick ? this.head.figures[name] : undefined;
    if (at !== undefined) return figure(at);
    if (state.following && this.valueAt(0, name, tick) === null) {
      const last = (this.points.get(`0 ${name}`) ?? []).findLast(([one, value]) => value !== null && one <= tick);
      return last ? `${figure(last[1])} at ${whole(last[0])}` : figure(null);
    }
    return [...state.tapes.keys()].map((side) => figure(this.valueAt(side, name, tick))).join(' | ');
  }

  // A line only between ticks whose values are known: null breaks it.
  drawCurve(pen, points, x, y, colour) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.beginPath();
    let isDown = false;
    for (const [at, [tick, value]] of points.entries()) {
      if (value === null) { isDown = false; continue; }
      if (isDown) pen.lineTo(x(tick), y(value));
      else {
        pen.moveTo(x(tick), y(value));
        if (points[at + 1] === undefined || points[at + 1][1] === null) pen.fillRect(x(tick) - 1, y(value) - 1, 2, 2);
      }
      isDown = true;
    }
    pen.stroke();
  }

  known(scales) {
    return [...scales].filter(([, { low, high }]) => low <= high);
  }

  drawAxis(pen, width, scales, y) {
    const known = this.known(scales);
    if (!known.length) {
      pen.fillStyle = css('--dim');
      pen.textAlign = 'left';
      pen.fillText(this.state.curves.length ? 'no value of this stretch is known yet' : 'choose a curve above', GUTTER + 6, 24);
      return;
    }
    const [, scale] = known[0];
    pen.textAlign = 'right';
    for (const value of scale.high > scale.low ? [scale.low, scale.high] : [scale.low]) {
      pen.fillStyle = css('--line');
      pen.fillRect(GUTTER, Math.round(y(value, scale)), width - GUTTER, 1);
      pen.fillStyle = css('--dim');
      pen.fillText(figure(value), GUTTER - 8, Math.min(y(value, scale), sizeOf(this.plot).height - 7), GUTTER - 10);
    }
  }

  // Each chip tells the range of its own curve. The axis has one scale: where there are more, a line says whose it is.
  tellRanges(scales) {
    for (const { name, range } of this.chips ?? []) {
      const { low, high } = this.rangeOf(name);
      tell(range, low <= high ? `${figure(low)} … ${figure(high)}` : '');
      range.hidden = !(low <= high);
    }
    if (!this.axisNote) return;
    const known = this.known(scales), shared = (group) => this.state.curves.filter((name) => groupOf(name) === group).length > 1;
    const parts = known.slice(1).map(([group, { low, high }]) => `${group} ${shared(group) ? `together ${figure(low)} … ${figure(high)}` : 'by itself'}`);
    tell(this.axisNote, parts.length ? `axis: ${known[0][0]}; scaled apart: ${parts.join(', ')}` : '');
    this.axisNote.hidden = !parts.length;
  }

  over(event) {
    if (event.offsetX < GUTTER || !this.state.curves.length) return tip(null);
    const tick = this.actions.tickAt(event.offsetX);
    const values = this.state.curves.map((name) => `${name}  ${[...this.state.tapes.keys()].map((side) => figure(this.valueAt(side, name, tick))).join(' | ')}`);
    return tip(event, [`tick ${whole(tick)}`, ...values].join('\n'));
  }
}
