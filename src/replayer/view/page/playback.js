// Playing: the page's clock leads. Ticks ahead are asked for in blocks; what is not there yet is waited for, never guessed.

import { byId, h, icon, whole } from '/f/dom.js';

const SPEEDS = [1, 2, 5, 10, 30, 60, 120, 300, 1000, 5000];
const AHEAD = 48, ASK_FROM = 16, LOST_MS = 600, PICTURES = 60;
const ICONS = {
  first: 'M1 1h2v10H1zM11 1v10L4 6z', end: 'M9 1h2v10H9zM1 1v10l7-5z', back: 'M9 1v10L2 6z', on: 'M3 1v10l7-5z', play: 'M2 0v12l10-6z',
  backwards: 'M10 0v12L0 6z', pause: 'M2 1h3v10H2zM7 1h3v10H7z', turn: 'M4 1v3h8v1H0zM8 11V8H0V7h12z',
};

export class Playback {
  constructor(state, wire, actions, liveButton) {
    Object.assign(this, { state, wire, actions, liveButton, due: 0, last: 0, progressed: 0 });
    this.build();
  }

  build() {
    const { state, actions } = this;
    const button = (shape, label, act, className = '') => h('button', { title: label, ariaLabel: label, onclick: act, className }, ICONS[shape] ? icon(ICONS[shape]) : shape);
    const move = (tick) => () => { this.pause(); actions.go(tick()); };
    this.box = h('input', { id: 'tick', inputMode: 'numeric', ariaLabel: 'Tick', autocomplete: 'off' });
    this.box.onfocus = () => this.box.select();
    this.box.onkeydown = (event) => this.typed(event);
    this.playButton = button('play', 'Play or pause (space)', () => this.toggle(), 'play');
    this.speed = h('select', { ariaLabel: 'Speed', title: 'Ticks a second', onchange: () => { state.speed = Number(this.speed.value); } }, ...SPEEDS.map((speed) => h('option', { value: speed, textContent: speed === 1 ? '1 tick/s' : `${whole(speed)} ticks/s` })));
    this.turnButton = button('turn', 'Direction', () => { state.direction = -state.direction; this.show(); });
    this.loopButton = button('loop', 'Loop what is seen, or the range dragged with Shift ( I, O, \\ )', () => (state.loopRange ? actions.loop() : actions.loop(...state.window)));
    this.total = h('span', { className: 'dim', textContent: `of ${whole(state.last)}` });
    this.status = h('span', { className: 'dim state' });
    byId('transport').replaceChildren(
      button('first', 'First tick (Home)', move(() => state.first)), button('back', 'One tick back (←)', move(() => state.tick - 1)), this.playButton,
      button('on', 'One tick on (→)', move(() => state.tick + 1)), button('end', 'Last tick (End)', actions.toEnd), this.liveButton, this.box,
      this.total, this.speed, this.turnButton, this.loopButton, h('span', { className: 'grow' }), this.status,
      button('−', 'Zoom out ( − )', () => actions.zoom(2)), button('+', 'Zoom in ( + )', () => actions.zoom(0.5)), button('all', 'The whole run ( 0 )', () => actions.zoom(Infinity)));
    this.show();
  }

  typed(event) {
    event.stopPropagation();
    if (event.key === 'Escape') { this.box.blur(); this.actions.say(); }
    if (event.key !== 'Enter') return;
    const tick = parseInt(this.box.value.replace(/[^0-9-]/g, ''), 10);
    this.box.blur();
    if (Number.isNaN(tick)) return this.actions.say();
    this.pause();
    const { state } = this, wanted = tick < 0 ? state.last + 1 + tick : tick, reached = state.clamp(wanted);
    // A tick that the run has not is not left without a word: the nearest is shown, and why.
    if (wanted > reached) state.said = { tick: reached, text: `the last tick is ${whole(reached)}` };
    else if (wanted < reached) state.said = { tick: reached, text: `the first tick is ${whole(reached)}` };
    return this.actions.go(wanted);
  }

  show() {
    const { state } = this;
    this.playButton.replaceChildren(icon(ICONS[state.playing || state.following ? 'pause' : state.direction < 0 ? 'backwards' : 'play']));
    this.playButton.ariaLabel = state.playing || state.following ? 'Pause' : 'Play';
    this.turnButton.classList.toggle('on', state.direction < 0);
    this.turnButton.title = this.turnButton.ariaLabel = `Direction: ${state.direction < 0 ? 'backwards' : 'forwards'}`;
    this.loopButton.classList.toggle('on', Boolean(state.loopRange));
    this.loopButton.ariaPressed = String(Boolean(state.loopRange));
    this.speed.value = state.speed;
  }

  // Whoever follows a recording stays at the tick that is shown.
  toggle() {
    const { state } = this;
    if (state.following) this.actions.go(state.tick);
    else if (state.playing) this.pause();
    else this.play();
  }

  faster(direction) {
    const { state } = this;
    if (state.playing && state.direction === direction) state.speed = SPEEDS[Math.min(SPEEDS.length - 1, SPEEDS.indexOf(state.speed) + 1)];
    this.play(direction);
  }

  end(direction) {
    const { state } = this;
    if (state.loopRange) return state.loopRange[direction > 0 ? 1 : 0];
    return direction > 0 ? state.last : state.first;
  }

  play(direction = this.state.direction) {
    const { state } = this;
    this.actions.leave();
    state.direction = direction;
    if (state.tick === this.end(direction)) this.actions.go(this.end(-direction));
    const wasPlaying = state.playing;
    state.playing = true;
    this.due = 0;
    this.last = this.progressed = performance.now();
    this.show();
    if (!wasPlaying) requestAnimationFrame((now) => this.turn(now));
  }

  pause() {
    if (!this.state.playing) return;
    this.state.playing = false;
    this.show();
    this.actions.rest();
  }

  // The tick that follows another, a stride further; null behind the end.
  after(tick, stride) {
    const { state } = this, { direction } = state, end = this.end(direction), next = tick + direction * stride;
    if (direction * (next - end) <= 0) return next;
    if (tick !== end) return end;
    return state.loopRange ? this.end(-direction) : null;
  }

  turn(now) {
    const { state, wire, actions } = this;
    if (!state.playing) return;
    this.due += ((now - this.last) / 1000) * state.speed;
    this.last = now;
    const stride = Math.max(1, Math.round(state.speed / PICTURES));
    let tick = state.tick;
    while (this.due >= stride) {
      const next = this.after(tick, stride);
      if (next === null) { if (tick !== state.tick) actions.arrive(tick); this.pause(); if (state.direction > 0 && state.live === 'recording') actions.toEnd(); return; }
      if (!actions.has(next)) { this.due = Math.min(this.due, 2 * stride); break; }
      tick = next;
      this.due -= stride;
    }
    const wanted = [];
    for (let count = 0, at = tick; count < AHEAD; count++) {
      at = this.after(at, stride);
      if (at === null || wanted.includes(at)) break;
      if (!actions.has(at) && !wire.asked.has(at)) wanted.push(at);
    }
    const next = this.after(tick, stride);
    const isWaiting = next !== null && !actions.has(next);
    if (wanted.length >= ASK_FROM || (wanted.length && isWaiting)) wire.block(wanted);
    if (tick !== state.tick) { actions.arrive(tick); this.progressed = now; }
    // A slow page loses frames on the way: ask again.
    else if (!isWaiting) this.progressed = now;
    else if (now - this.progressed > LOST_MS) { wire.asked.clear(); this.progressed = now; }
    requestAnimationFrame((then) => this.turn(then));
  }
}
