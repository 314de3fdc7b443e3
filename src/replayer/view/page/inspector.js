// What exactly is at the tick: inputs and events, tables, objects, fields, and the tape itself.

import { ask, byId, h, figure, whole } from '/f/dom.js';

const TABS = { tick: 'Tick', tables: 'Tables', object: 'Object', fields: 'Fields', finding: 'Finding', tape: 'Tape' };
const TIMELESS = ['finding', 'tape']; // Tabs that say the same at each tick.
const STEPS = /^[^.[]+|\.[^.[]+|\['(?:[^'\\]|\\.)*'\]|\["(?:[^"\\]|\\.)*"\]|\[[^\]]*\]| element \d+/g;

export class Inspector {
  constructor(state, actions) {
    this.state = state;
    this.actions = actions;
    this.panel = byId('panel');
    this.answers = []; // By side.
    this.opened = new Set();
    this.table = { sort: null, descending: false, filter: '', offset: 0 };
    this.asked = 0;
  }

  tabs() {
    const { info } = this.state;
    return Object.keys(TABS).filter((tab) => (tab === 'tables' ? info.tables.length : tab === 'object' ? info.has_object : tab === 'finding' ? this.state.finding : true));
  }

  build() {
    if (!this.tabs().includes(this.state.tab)) this.state.tab = 'tick';
    const buttons = this.tabs().map((tab) => h('button', {
      textContent: TABS[tab], role: 'tab', id: `tab-${tab}`, 'aria-selected': String(tab === this.state.tab), 'aria-controls': 'panel', tabIndex: tab === this.state.tab ? 0 : -1,
      onclick: () => this.choose(tab),
    }));
    byId('tabs').replaceChildren(...buttons);
    byId('tabs').onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      const tabs = this.tabs(), next = tabs[(tabs.indexOf(this.state.tab) + step + tabs.length) % tabs.length];
      this.choose(next);
      byId(`tab-${next}`).focus();
    };
    this.panel.setAttribute('aria-labelledby', `tab-${this.state.tab}`);
    this.answers = [];
    this.show();
    this.load();
  }

  choose(tab) {
    this.state.tab = tab;
    this.actions.changed();
    this.build();
  }

  query(side, more = {}) {
    const { state } = this, query = { side, page: state.page, tick: state.tick, part: state.tab, ...more };
    if (state.tab === 'tables') {
      const { sort, descending, filter, offset } = this.table;
      Object.assign(query, { table: state.table ?? state.info.tables[0], sort, descending: descending ? 1 : 0, filter, offset });
    }
    return query;
  }

  async load() {
    const { state } = this, ticket = ++this.asked, { tab } = state;
    if (!state.page || TIMELESS.includes(tab)) return;
    let answers;
    try {
      answers = await Promise.all([...state.tapes.keys()].map((side) => ask('detail', this.query(side))));
    } catch (error) {
      return; // The connection is lost, which the state line says; it is asked again when it is back.
    }
    if (ticket !== this.asked || tab !== state.tab || answers.some((answer) => answer.gone)) return; // As above.
    if (answers.some((answer) => answer.superseded)) {
      this.panel.replaceChildren(h('p', { className: 'dim', textContent: `tick ${whole(state.tick)} cannot be described` }));
      return;
    }
    this.answers = answers;
    this.show();
  }

  // The exact values of one cell, of each tape.
  async exact(layer, x, y) {
    const answers = await Promise.all([...this.state.tapes.keys()].map((side) => ask('detail', { side, page: this.state.page, tick: this.state.tick, layer, x, y })));
    return answers.map((answer) => answer.cell ?? null);
  }

  show() {
    const { state, panel } = this, scroll = panel.scrollTop, focused = document.activeElement?.id;
    const make = { tick: () => this.tick(), tables: () => this.tables(), object: () => this.object(), fields: () => this.fields(), finding: () => this.finding(), tape: () => this.tape() }[state.tab];
    panel.replaceChildren(...(!TIMELESS.includes(state.tab) && !this.answers.length ? [h('p', { className: 'dim', textContent: 'reading …' })] : [...this.elsewhere(), ...make()]));
    panel.scrollTop = scroll;
    if (focused && panel.querySelector(`#${CSS.escape(focused)}`)) byId(focused).focus();
  }

  // Without the simulation a keyframe stands for the ticks after it.
  elsewhere() {
    if (TIMELESS.includes(this.state.tab)) return [];
    const late = this.answers.filter((answer) => answer.shown !== answer.tick);
    const words = (answer) => (this.roleOf(answer) === 'recorded' ? `of tick ${whole(answer.tick)} only the hash is recorded: A is tick ${whole(answer.shown)}, the last that agrees` : `tick ${whole(answer.tick)} cannot be made: this is the state of keyframe ${whole(answer.shown)}`);
    return late.map((answer) => h('p', { className: 'differs', textContent: words(answer) }));
  }

  roleOf(answer) {
    return this.state.tapes[this.answers.indexOf(answer)]?.role;
  }

  // The other side's answer, if it is about the same tick: only then what differs is marked.
  opposite(side) {
    const [one, other] = [this.answers[side], this.answers[1 - side]];
    return other && one.shown === other.shown ? other : null;
  }

  finding() {
    const { finding } = this.state, pre = (words) => h('pre', { className: 'mono', textContent: words });
    const explained = finding.explanation ? [h('h2', { textContent: 'replay explain' }), pre(finding.explanation)] : [h('p', { className: 'dim' }, 'Why it differs: ', h('code', { textContent: `replay explain ${finding.folder}` }), ' searches the cause. Written to explain.txt in the folder, its text is shown here.')];
    return [h('h2', { textContent: finding.folder }), pre(finding.report || finding.title), ...explained];
  }

  pairs(entries) {
    return h('dl', {}, ...entries.flatMap(([name, value]) => [h('dt', { textContent: name }), h('dd', {}, value)]));
  }

  sideMark(side) {
    return this.state.tapes.length > 1 ? h('span', { className: `side s${side}`, textContent: 'AB'[side] }) : null;
  }

  // --- tick

  tick() {
    const several = this.answers.length > 1, out = [];
    for (const [side, answer] of this.answers.entries()) out.push(...this.tickOf(answer, side, several));
    return out;
  }

  tickOf(answer, side, several) {
    const other = this.opposite(side);
    const said = answer.recorded_hash === null || answer.shown !== answer.tick ? '' : answer.recorded_hash === answer.hash ? ', as recorded' : `, recorded: ${answer.recorded_hash}`;
    const facts = [['state hash', h('span', { className: 'mono' }, answer.hash + said)]];
    if (answer.shown === answer.tick) facts.push(['keyframe before', whole(answer.keyframe_tick)]);
    for (const [name, text] of Object.entries(answer.summary)) {
      const differs = other && other.summary[name] !== text;
      facts.push([name, h('span', { className: differs ? 'differs' : '' }, text)]);
    }
    const head = h('h2', {}, this.sideMark(side), `${several ? ' ' : ''}tick ${whole(answer.tick)}`);
    const inputs = answer.inputs_error ? h('p', { textContent: answer.inputs_error }) : isEmpty(answer.inputs) ? h('p', { className: 'dim', textContent: answer.inputs ? `${JSON.stringify(answer.inputs)}, empty` : 'none at this tick' }) : this.branch(`${side}inputs`, '', answer.inputs);
    const differs = other && JSON.stringify(other.inputs) !== JSON.stringify(answer.inputs);
    return [head, this.pairs(facts), h('h2', {}, h('span', { className: differs ? 'differs' : '', textContent: differs ? 'inputs: they differ' : 'inputs' })), inputs, ...this.events(answer, side)];
  }

  events(answer, side) {
    const kinds = Object.entries(answer.event_kinds), total = kinds.reduce((sum, [, count]) => sum + count, 0);
    const unknown = { none: 'this recording has no events', pending: 'the events of this tick are not written yet' }[answer.events_from];
    const out = [h('h2', { textContent: unknown ? 'events' : `events: ${whole(total)}` })];
    if (answer.events_from === 'step') out.push(h('p', { className: 'dim', textContent: 'of the step as it was run again here; the recorded ones are not written yet' }));
    if (unknown || !total) out.push(h('p', { className: 'dim', textContent: unknown ?? 'none at this tick' }));
    for (const [kind, count] of kinds) {
      const key = `${side}event ${kind}`, list = answer.events.filter((event) => String(event.kind ?? '') === kind);
      const body = () => list.slice(0, 100).map((event, number) => this.branch(`${key}${number}`, '', event));
      const more = count > list.length ? [h('div', { className: 'leaf dim', textContent: `${whole(count - list.length)} more are not listed` })] : [];
      const only = h('button', { className: 'small', textContent: this.state.kind === kind ? 'all kinds' : 'only these', title: 'Show only this kind in the time bar; [ and ] go to the next of it', onclick: (event) => { event.preventDefault(); this.actions.kind(this.state.kind === kind ? null : kind); this.show(); } });
      out.push(this.fold(key, [`${whole(count)} × ${kind} `, only], () => [...body(), ...more]));
    }
    return out;
  }

  // A part that opens, and stays open from tick to tick.
  fold(key, title, body, isOpen = false) {
    const folded = h('details', {}, h('summary', {}, ...title));
    const fill = () => { if (folded.childElementCount === 1) folded.append(...body()); };
    folded.open = isOpen ? !this.opened.has(`-${key}`) : this.opened.has(key);
    if (folded.open) fill();
    folded.ontoggle = () => {
      fill();
      const mark = isOpen ? `-${key}` : key;
      if (folded.open !== isOpen) this.opened.add(mark);
      else this.opened.delete(mark);
    };
    return folded;
  }

  // Plain data as a tree.
  branch(key, name, value) {
    const label = name === '' ? [] : [h('span', { className: 'name', textContent: name })];
    if (value !== null && typeof value === 'object' && Object.keys(value).length) {
      const short = JSON.stringify(value);
      const title = short.length < 60 ? short : Array.isArray(value) ? `${value.length} items` : `{ ${Object.keys(value).slice(0, 4).join(', ')} … }`;
      const body = () => Object.entries(value).map(([inner, one]) => this.branch(`${key}.${inner}`, inner, one));
      return h('div', { className: 'branch' }, this.fold(key, [...label, label.length ? ': ' : '', title], body));
    }
    return h('div', { className: 'leaf' }, ...label, h('span', { className: 'value', textContent: value === null ? 'null' : typeof value === 'object' ? JSON.stringify(value) : typeof value === 'number' ? figure(value) : String(value) }));
  }

  // --- tables

  tables() {
    const { state } = this, name = state.table ?? state.info.tables[0];
    const pick = h('select', { id: 'table-name', ariaLabel: 'Table', onchange: () => { state.table = pick.value; this.table = { sort: null, descending: false, filter: '', offset: 0 }; this.load(); } }, ...state.info.tables.map((one) => h('option', { textContent: one, value: one, selected: one === name })));
    const filter = h('input', { id: 'table-filter', value: this.table.filter, placeholder: 'filter, such as energy > 10', ariaLabel: 'Filter rows', spellcheck: false });
    filter.onchange = () => { this.table.filter = filter.value; this.table.offset = 0; this.load(); };
    const out = [h('div', { className: 'controls' }, pick, filter)];
    for (const [side, answer] of this.answers.entries()) out.push(...this.tableOf(answer.table, side));
    return out;
  }

  tableOf(table, side) {
    if (!table) return [h('p', {}, this.sideMark(side), ' this tape has no such table at this tick')];
    const other = this.opposite(side)?.table ?? null;
    const turn = (by) => () => { this.table.offset = Math.max(0, table.offset + by); this.load(); };
    const last = Math.min(table.offset + table.page, table.count);
    const free = table.free ? `; ${whole(table.free)} rows of zeros are left out` : '';
    const pages = table.count > table.page ? [h('button', { className: 'small', textContent: 'before', disabled: !table.offset, onclick: turn(-table.page) }), h('button', { className: 'small', textContent: 'next', disabled: last >= table.count, onclick: turn(table.page) })] : [];
    const title = table.count ? `rows ${whole(table.offset + 1)} to ${whole(last)} of ${whole(table.count)}${free}` : `no row${free}`;
    const head = h('p', { className: 'dim' }, this.sideMark(side), ` ${title} `, ...pages);
    const problem = table.problem ? [h('p', { className: 'differs', textContent: `filter: ${table.problem}` })] : [];
    return [head, ...problem, h('div', { className: 'scrolled' }, h('table', {}, this.tableHead(table), this.tableBody(table, other, side)))];
  }

  tableHead(table) {
    const cell = (name) => {
      const { sort, descending } = this.table, isSorted = sort === name;
      const head = h('th', { scope: 'col' }, h('button', { textContent: name + (isSorted ? (descending ? ' ↓' : ' ↑') : ''), title: `Sort by ${name}`, onclick: () => { this.table.descending = isSorted ? !descending : false; this.table.sort = name; this.table.offset = 0; this.load(); } }));
      head.setAttribute('aria-sort', isSorted ? (descending ? 'descending' : 'ascending') : 'none');
      return head;
    };
    return h('thead', {}, h('tr', {}, h('th', { className: 'left', scope: 'col', textContent: 'row' }), ...table.columns.map(({ name }) => cell(name))));
  }

  // Who wrote a cell: of the entity, where the table has a column of ids; else of the place.
  askWho(table, side, name, at) {
    const field = `${table.name}.${name}`, id = table.columns.find((column) => column.name === 'id')?.values[at];
    if (Number.isInteger(id) && name !== 'id') this.actions.who(side, field, [], id);
    else this.actions.who(side, field, [table.rows[at]]);
  }

  tableBody(table, other, side) {
    const rows = new Map((other?.rows ?? []).map((row, at) => [row, at]));
    return h('tbody', {}, ...table.rows.map((row, at) => h('tr', {}, h('td', { className: 'left dim', textContent: row }), ...table.columns.map(({ name, values, changed }) => {
      const cell = h('td', { textContent: Array.isArray(values[at]) ? JSON.stringify(values[at]) : figure(values[at]) });
      const opposite = other?.columns.find((column) => column.name === name)?.values[rows.get(row)];
      if (other && rows.has(row) && JSON.stringify(opposite) !== JSON.stringify(values[at])) { cell.className = 'differs'; cell.title = `in the other tape: ${opposite}`; }
      else if (changed[at]) { cell.className = 'changed'; cell.title = 'changed in this tick'; }
      if (!this.state.finding) {
        cell.classList.add('asks');
        cell.title = `${cell.title ? `${cell.title}; ` : ''}click: who wrote this?`;
        cell.onclick = () => { if (getSelection().isCollapsed) this.askWho(table, side, name, at); };
      }
      return cell;
    }))));
  }

  // --- objects

  object() {
    const out = [];
    for (const [side, answer] of this.answers.entries()) {
      const opposite = this.opposite(side), other = opposite ? new Map((opposite.leaves ?? []).map(([path, value]) => [path, value])) : null;
      out.push(h('p', { className: 'dim' }, this.sideMark(side), h('span', { className: 'key changed', textContent: 'changed in this tick' }), ' ', other ? h('span', { className: 'key differs', textContent: 'differs between A and B' }) : ''));
      if (!answer.leaves?.length) out.push(h('p', { className: 'dim', textContent: 'none at this tick' }));
      const tree = nest(answer.leaves ?? []);
      for (const child of tree.children.values()) out.push(this.node(child, side, other, 0));
      if (answer.more_leaves) out.push(h('p', { className: 'dim', textContent: `only the first ${whole(answer.leaves.length)} values are listed` }));
    }
    return out;
  }

  node(node, side, other, depth) {
    if (!node.children.size) return this.leaf(node, other, side);
    const marks = count(node, other);
    const notes = [marks.changed ? h('span', { className: 'key changed', textContent: `${marks.changed} changed` }) : '', marks.differing ? h('span', { className: 'key differs', textContent: `${marks.differing} differ` }) : ''];
    const body = () => [...(node.leaf ? [this.leaf(node, other, side)] : []), ...[...node.children.values()].map((child) => this.node(child, side, other, depth + 1))];
    return h('div', { className: 'branch' }, this.fold(`${side}object ${node.path}`, [`${node.step.replace(/^\./, '')} `, ...notes], body, depth < 1 && node.children.size <= 40));
  }

  leaf({ step, leaf: [path, value, changed] }, other, side) {
    const differs = other && (!other.has(path) || other.get(path) !== value);
    const text = h('span', { className: `value mono ${differs ? 'differs' : changed ? 'changed' : ''}`, textContent: typeof value === 'string' ? value : String(value) });
    if (differs) text.title = `in the other tape: ${other.has(path) ? other.get(path) : 'not there'}`;
    const isCurve = this.state.info.curves.includes(path);
    const who = this.state.finding ? null : h('button', { className: 'small', textContent: 'who?', title: `Who wrote ${path}? Ask for the step that changed it last`, onclick: () => this.actions.who(side, path) });
    const draw = isCurve && !this.state.curves.includes(path) ? h('button', { className: 'small', textContent: 'curve', title: `Draw ${path} over ticks`, onclick: () => this.actions.curve(path, true) }) : null;
    return h('div', { className: 'leaf', title: path }, h('span', { className: 'name', textContent: step.replace(/^\./, '') }), text, who, draw);
  }

  // --- fields and tape

  fields() {
    const other = this.answers.length > 1 ? new Map(this.answers[1].fields.map(({ name, text }) => [name, text])) : null;
    const rows = this.answers[0].fields.map(({ name, text, changed }) => {
      const note = changed === null ? 'another size' : changed ? whole(changed) : '';
      const cells = [h('td', { className: 'left mono', textContent: name }), h('td', { className: 'left', textContent: text, title: text }), h('td', { className: changed === 0 ? '' : 'changed', textContent: note })];
      if (other) {
        const mine = other.get(name), differs = this.opposite(0) && mine !== text;
        cells.splice(2, 0, h('td', { className: `left ${differs ? 'differs' : ''}`, textContent: mine ?? 'not there', title: mine ?? '' }));
      }
      return h('tr', {}, ...cells);
    });
    const heads = ['field', other ? 'A' : 'values', ...(other ? ['B'] : []), 'changed'];
    return [h('div', { className: 'scrolled' }, h('table', {}, h('thead', {}, h('tr', {}, ...heads.map((text) => h('th', { className: 'left', scope: 'col', textContent: text })))), h('tbody', {}, ...rows)))];
  }

  tape() {
    return this.state.tapes.flatMap((tape, side) => {
      const facts = [['ticks', `${whole(tape.first)} to ${whole(tape.last)}`], ['keyframes', whole(tape.keyframes)], ['status', tape.status + (tape.sealed ? '' : ', not sealed')], ['mode', tape.mode ?? 'unknown'], ['simulation', tape.simulation ?? 'unknown'], ['recorded', tape.created ?? 'unknown'], ['size', `${whole(tape.bytes)} bytes`]];
      if (tape.world) facts.push(['world', tape.world]);
      if (tape.outcome) facts.push(['ended', tape.outcome.text ?? JSON.stringify(tape.outcome)]);
      for (const damage of [...tape.damages.map(({ what, offset }) => `byte ${whole(offset)}: ${what}`), ...(tape.damaged_blocks ?? [])]) facts.push(['damage', damage]);
      return [h('h2', {}, this.sideMark(side), ` ${tape.name}`), this.pairs(facts)];
    });
  }
}

const isEmpty = (value) => value === null || value === undefined || (typeof value === 'object' && !Object.keys(value).length);

// Leaves by path as a tree of steps. A path that cannot be split stays one step.
function nest(leaves) {
  const root = { children: new Map() };
  for (const leaf of leaves) {
    const found = leaf[0].match(STEPS), steps = found?.join('') === leaf[0] ? found : [leaf[0]];
    let node = root, path = '';
    for (const step of steps) {
      path += step;
      if (!node.children.has(step)) node.children.set(step, { step, path, children: new Map() });
      node = node.children.get(step);
    }
    node.leaf = leaf;
  }
  return root;
}

function count(node, other) {
  const sum = { changed: 0, differing: 0 };
  if (node.leaf?.[2]) sum.changed++;
  if (node.leaf && other && other.get(node.leaf[0]) !== node.leaf[1]) sum.differing++;
  for (const child of node.children.values()) {
    const inner = count(child, other);
    sum.changed += inner.changed;
    sum.differing += inner.differing;
  }
  return sum;
}
