// Questions about the whole run: find next, who wrote this, branch from here. The server answers each in a process of its own.

import { ask, BASE, byId, h, whole } from '/f/dom.js';

const PREFILL_MAX = 2000, NAMES_MAX = 400;
const WAYS = { next: 'Next', before: 'Before', all: 'Mark all' };
const button = (textContent, onclick, more = {}) => h('button', { textContent, onclick, ...more });

export class Questions {
  constructor(state, wire, actions) {
    Object.assign(this, { state, wire, actions, number: 0, side: 0, condition: '', asked: null, prefill: '' });
    this.box = byId('ask');
    this.strip = byId('answer');
    this.box.onclick = (event) => { if (event.target === this.box) this.box.close(); };
  }

  // --- asking

  send(question, side, title) {
    this.number += 1;
    this.asked = { question, side, title };
    this.wire.send({ op: 'ask', id: this.number, side, question });
    this.show([h('b', { textContent: title }), h('span', { className: 'text', id: 'answer-progress', textContent: 'looking …' })], [button('Stop', () => this.stop())]);
  }

  stop() {
    this.asked = null;
    this.wire.send({ op: 'ask', id: this.number, question: null });
    this.hide();
  }

  find(condition, way, side = this.side) {
    this.actions.pause();
    Object.assign(this, { condition, side });
    if (condition.trim()) this.send({ what: 'find', condition, way, tick: this.state.shownTick(side) }, side, condition);
  }

  // The next tick at which the last condition holds, from the marks if they are known.
  jump(back) {
    const { state, condition } = this, { matches } = state;
    if (!condition) { this.open('find'); return; }
    if (matches?.condition !== condition || matches.side !== this.side || !matches.complete) { this.find(condition, back ? 'before' : 'next'); return; }
    const { ranges } = matches, { tick } = state;
    const near = back ? ranges.findLast(([first]) => first < tick) : ranges.find(([, last]) => last > tick);
    if (near) this.actions.jumpTo(back ? Math.min(near[1], tick - 1) : Math.max(near[0], tick + 1));
    else byId('live').textContent = `no tick ${back ? 'before' : 'after'} this one where ${condition}`;
  }

  who(side, value, row = [], entity = null, tick = this.state.shownTick(side)) {
    this.actions.pause();
    const place = entity !== null ? ` of id ${entity}` : row.length ? `[${row.join(', ')}]` : '';
    this.send({ what: 'who', value, row, entity, tick }, side, `Who wrote ${value}${place}?`);
  }

  // --- answers

  heard({ id, share, facts }) {
    if (id !== this.number || !this.asked) return;
    if (!facts) {
      const told = byId('answer-progress');
      if (told) told.textContent = `looking … ${Math.round(100 * share)} %`;
      return;
    }
    const { title } = this.asked;
    if (facts.error) this.show([h('b', { textContent: title }), this.words(facts.error)], [], 'warn');
    else this[facts.what === 'find' ? 'found' : facts.what === 'who' ? 'written' : 'branched'](facts, this.asked);
    this.asked = facts.error ? null : this.asked;
  }

  found(facts, { side }) {
    const ways = Object.entries(WAYS).map(([way, text]) => button(text, () => this.find(facts.condition, way, side)));
    if (facts.way === 'all') {
      this.state.matches = { side, condition: facts.condition, ranges: facts.ranges, complete: facts.proved && facts.ranges.length < 2000 };
      this.actions.matched();
    }
    this.show([h('b', { textContent: facts.condition }), this.words(facts.text.join('; '))], ways, facts.proved ? 'note' : 'warn');
    if (facts.tick !== null) this.actions.jumpTo(facts.tick);
  }

  written(facts, { side }) {
    const go = facts.tick === null ? [] : [button('Go there', () => this.actions.jumpTo(facts.tick)), button('Tick before', () => this.actions.jumpTo(facts.tick - 1))];
    const earlier = facts.earlier === null ? [] : [button('The change before', () => this.who(side, facts.value, facts.row, facts.entity, facts.earlier))];
    const lines = facts.text.map((line) => h('div', { className: /^(line|inputs)/.test(line) ? '' : 'dim', textContent: line }));
    this.show([h('div', { className: 'lines' }, h('b', { textContent: facts.title }), ...lines)], [...go, ...earlier], 'note');
  }

  branched(facts) {
    const at = facts.first_different ?? facts.at, address = `${BASE}${facts.address}#tick=${at}&compare=both`;
    const beside = facts.address ? [h('a', { className: 'button', href: address, textContent: 'Show beside its parent' })] : [];
    this.show([h('b', { textContent: facts.name }), this.words(`a branch at tick ${whole(facts.at)}: ${facts.text.join(', ')}`)], beside, 'same');
  }

  words(textContent) {
    return h('span', { className: 'text', title: textContent, textContent });
  }

  show(parts, buttons, kind = 'note') {
    this.strip.replaceChildren(h('div', { className: kind }, ...parts, h('span', { className: 'grow' }), ...buttons, button('×', () => this.close(), { ariaLabel: 'Close the answer' })));
    this.strip.hidden = false;
  }

  // The marks of a condition go with its answer.
  close() {
    if (this.asked) this.wire.send({ op: 'ask', id: this.number, question: null });
    this.asked = null;
    this.state.matches = null;
    this.actions.matched();
    this.hide();
  }

  hide() {
    this.strip.hidden = true;
    this.strip.replaceChildren();
  }

  // --- the dialog

  // part: what gets the focus. value, row: what is asked about at first.
  open(part = 'find', value = '', row = '') {
    const { state, box } = this;
    const names = h('datalist', { id: 'ask-names' }, ...[...new Set([...state.info.fields, ...state.info.curves])].slice(0, NAMES_MAX).map((name) => h('option', { value: name })));
    const sides = state.tapes.length < 2 ? [] : [h('div', { className: 'row' }, h('span', { className: 'dim', textContent: 'about' }), this.sideChoice())];
    box.replaceChildren(h('h2', { textContent: 'Ask the recording' }), ...sides, this.findPart(), this.whoPart(value, row), this.branchPart(), names, button('Close', () => box.close(), { className: 'close' }));
    box.showModal();
    byId({ find: 'ask-find', who: value ? 'ask-who' : 'ask-value', branch: 'ask-inputs' }[part])?.focus();
    this.fillInputs();
  }

  sideChoice() {
    const pick = h('select', { ariaLabel: 'Tape', onchange: () => { const part = document.activeElement?.id; this.side = Number(pick.value); this.open('find'); byId(part)?.focus(); } }, ...this.state.tapes.map(({ name }, side) => h('option', { value: side, textContent: `${'AB'[side]}  ${name}`, selected: side === this.side })));
    return pick;
  }

  part(title, what, ...parts) {
    return h('section', {}, h('h3', { textContent: title }), h('p', { className: 'dim' }, ...what), ...parts);
  }

  entered(input, act) {
    input.onkeydown = (event) => { if (event.key === 'Enter') { event.preventDefault(); act(); } };
    return input;
  }

  findPart() {
    const input = h('input', { id: 'ask-find', value: this.condition, ariaLabel: 'Condition', placeholder: 'water.max() > 20', spellcheck: false, autocomplete: 'off' });
    const go = (way) => { if (input.value.trim()) { this.box.close(); this.find(input.value, way); } };
    const what = ['Ticks at which a condition holds, such as ', h('code', { textContent: 'plants.energy.sum() > 2000' }), ', ', h('code', { textContent: 'units[14].hp < 3' }), ' or ', h('code', { textContent: 'telemetry.births > 90' }), '. M and Shift M go on.'];
    return this.part('Find', what, h('div', { className: 'row' }, this.entered(input, () => go('next')), ...Object.entries(WAYS).map(([way, text]) => button(text, () => go(way)))));
  }

  whoPart(value, row) {
    const name = h('input', { id: 'ask-value', value, ariaLabel: 'Value', placeholder: 'field, or path such as units[14].hp', spellcheck: false, autocomplete: 'off' });
    name.setAttribute('list', 'ask-names');
    const place = h('input', { id: 'ask-row', value: row, ariaLabel: 'Row', placeholder: 'row: 7 or 10,30', className: 'short' }), entity = h('input', { id: 'ask-entity', ariaLabel: 'Id', placeholder: 'or id', inputMode: 'numeric', className: 'short' });
    const problem = h('p', { className: 'differs', hidden: true });
    const go = () => {
      const rows = place.value.trim() ? place.value.split(',').map(Number) : [], id = entity.value.trim() ? Number(entity.value) : null;
      problem.hidden = rows.every(Number.isInteger) && (id === null || Number.isInteger(id)) && Boolean(name.value.trim());
      problem.textContent = name.value.trim() ? 'A row is a number such as 7, or one for each dimension: 10,30. An id is a number.' : 'Name a value.';
      if (problem.hidden) { this.box.close(); this.who(this.side, name.value.trim(), rows, id); }
    };
    for (const input of [name, place, entity]) this.entered(input, go);
    const what = [`The step that changed a value last, up to tick ${whole(this.state.shownTick(this.side))}, and its line of code. A row is a place; an id follows an entity.`];
    return this.part('Who wrote this?', what, h('div', { className: 'row' }, name, place, entity, button('Ask', go, { id: 'ask-who' })), problem);
  }

  branchPart() {
    const { state, side } = this, tape = state.tapes[side], at = state.shownTick(side);
    if (state.finding) return '';
    const until = h('input', { id: 'ask-until', value: tape.last, ariaLabel: 'Last tick', inputMode: 'numeric', className: 'short' });
    const inputs = h('textarea', { id: 'ask-inputs', rows: 3, ariaLabel: 'Inputs', spellcheck: false, placeholder: `{"tick": ${at + 1}, "inputs": []}` });
    const command = h('code', {}), tell = () => { command.textContent = `${tape.branch} --at ${at} --until ${until.value}${this.changed(inputs.value) ? ' --override inputs.jsonl' : ''} -o branch.tape`; };
    until.oninput = inputs.oninput = tell;
    tell();
    const go = () => {
      this.box.close();
      this.actions.pause();
      this.send({ what: 'branch', at, until: Number(until.value) || 0, inputs: this.changed(inputs.value) }, side, `Branch from tick ${whole(at)}`);
    };
    const what = ['Records another way from this tick on, in a tape next to this one. Each line replaces the inputs of its tick; all others are those of the recording.'];
    const record = state.writes ? [button('Record', go)] : [h('span', { className: 'dim', textContent: 'not from this page; the command does it:' })];
    return this.part(`Branch from tick ${whole(at)}`, what, inputs, h('div', { className: 'row' }, h('span', { className: 'dim', textContent: 'to tick' }), until, ...record, command));
  }

  // The recorded inputs of the next tick, to be changed.
  async fillInputs() {
    const { state, side } = this, tick = state.shownTick(side) + 1, box = byId('ask-inputs');
    this.prefill = '';
    if (!box || tick > state.tapes[side].last) return;
    const answer = await ask('detail', { side, page: state.page, tick, part: 'tick' }).catch(() => null);
    const line = `{"tick": ${tick}, "inputs": ${JSON.stringify(answer?.inputs ?? null)}}`;
    if (!answer || answer.gone || answer.superseded || answer.inputs_error || line.length > PREFILL_MAX || line.includes('…') || box.value) return;
    this.prefill = box.value = line;
  }

  // Lines that were left as they were are not sent: the recording has them exactly.
  changed(text) {
    return text.split('\n').filter((line) => line.trim() && line !== this.prefill).join('\n');
  }
}
