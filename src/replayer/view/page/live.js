// Following a tape that is being recorded: its newest tick is shown as it comes. Whoever moves elsewhere leaves the head.

import { h, whole } from '/f/dom.js';

const DETAIL_MS = 500, GROW_MS = 120, LOST_MS = 2500, CURVES_MS = 600;

export class Live {
  constructor(state, wire, actions) {
    Object.assign(this, { state, wire, actions, detailed: 0, grown: 0, came: 0, timer: 0 });
    this.button = h('button', { id: 'follow', title: 'Follow the recording ( n )', onclick: () => this.follow() }, h('span', { className: 'dot' }), 'live');
    setInterval(() => this.askAgain(), LOST_MS);
    this.show();
  }

  get isRecording() {
    return this.state.live === 'recording';
  }

  show() {
    this.button.hidden = !this.isRecording;
    this.button.classList.toggle('on', this.state.following);
    this.button.ariaPressed = String(this.state.following);
    this.actions.turned();
  }

  follow() {
    const { state, wire } = this;
    if (!this.isRecording) return;
    this.actions.pause();
    state.following = true;
    this.came = performance.now();
    wire.send({ op: 'follow', on: true });
    this.show();
    this.actions.say();
    this.actions.changed();
  }

  leave() {
    if (!this.state.following) return;
    this.state.following = false;
    this.wire.send({ op: 'follow', on: false });
    this.show();
  }

  // The socket is open again, or what was on its way is lost.
  askAgain() {
    if (this.state.following && performance.now() - this.came > LOST_MS) this.wire.send({ op: 'follow', on: true });
  }

  // The newest tick. The next but one is sent once this one is painted: a slow page skips those between.
  arrive(frame) {
    const { state, actions } = this, now = performance.now();
    this.came = now;
    requestAnimationFrame(() => this.wire.send({ op: 'seen' }));
    if (!state.following) return;
    this.extend(state.first, Math.max(state.last, frame.asked));
    state.tick = frame.asked;
    actions.painted();
    if (now - this.detailed > DETAIL_MS) { this.detailed = now; actions.describe(); }
  }

  // The tape goes further now.
  extend(first, last) {
    const { state, actions } = this, now = performance.now();
    if (first === state.first && last === state.last) return;
    const wasWhole = state.window[0] <= state.first && state.window[1] >= state.last, was = state.last;
    Object.assign(state, { first, last });
    Object.assign(state.tapes[0], { first, last });
    if (wasWhole) state.window = [first, last];
    else if (state.following && state.window[1] >= was - 1) state.window = [state.window[0] + last - was, last];
    if (now - this.grown < GROW_MS) return;
    this.grown = now;
    actions.grown();
  }

  // What is drawn of curves is a moment old: it is read again from time to time.
  figures(message) {
    this.actions.figures(message);
    this.timer ||= setTimeout(() => { this.timer = 0; this.actions.curves(); }, CURVES_MS);
  }

  // The recording has ended, or its process has gone.
  turned(facts) {
    const { state, actions } = this, { following } = state;
    Object.assign(state.tapes[0], facts);
    state.live = facts.live;
    this.show();
    actions.named();
    if (this.isRecording || !following) return;
    this.leave();
    actions.go(state.last);
  }

  get text() {
    const { state } = this, behind = state.last - state.tick;
    return behind > 100 ? `live, ${whole(behind)} ticks behind` : 'live';
  }
}
