// The lines above the maps, only when there is something to say: differences, damage, no simulation, a tick that fails.

import { BASE, byId, h, whole } from '/f/dom.js';

const button = (text, act) => h('button', { textContent: text, onclick: act });
const text = (words) => h('span', { className: 'text', title: words, textContent: words });
const grow = () => h('span', { className: 'grow' });

export function showBanner(state, actions) {
  const rows = [];
  if (state.finding) rows.push(finding(state.finding, actions));
  else if (state.tapes.length > 1) rows.push(difference(state, actions));
  else rows.push(...found(state, actions));
  const { parent } = state.tapes[0];
  if (state.tapes.length < 2 && parent && !state.finding) rows.push(branch(parent, state.beside));
  for (const [side, tape] of state.tapes.entries()) {
    const who = state.tapes.length > 1 ? `${'AB'[side]}: ` : '';
    if (tape.problem) rows.push(h('div', { className: 'warn' }, h('b', { textContent: `${who}without the simulation` }), text(`only the states of keyframes are shown: ${tape.problem}`)));
    for (const [tick, why] of tape.hook_problems ?? []) rows.push(h('div', { className: 'warn' }, h('b', { textContent: `${who}not shown at tick ${whole(tick)}` }), text(why)));
    rows.push(...condition(tape, who, actions));
  }
  if (state.trouble) rows.push(h('div', {}, h('b', { textContent: 'This tick cannot be shown' }), text(state.trouble)));
  byId('banner').replaceChildren(...rows);
}

// A branch leads to its parent, if that is there.
function branch({ name, tick, path }, beside) {
  const link = beside ? [h('a', { className: 'button', href: `${BASE}${beside}#tick=${tick}&compare=both`, textContent: 'Show beside its parent' })] : [];
  return h('div', { className: 'note' }, h('b', { textContent: `A branch of ${name}` }), text(`it leaves that run at tick ${whole(tick)}${path === null ? '; that tape is not here, or was changed' : ''}`), grow(), ...link);
}

// A desync from its dump: recorded on the left, replayed here on the right.
function finding(one, actions) {
  const next = one.compared_tick === null ? [] : [button(`Keyframe ${whole(one.compared_tick)}`, () => actions.go(one.compared_tick))];
  const where = one.compared_tick === null ? 'no keyframe follows: of the ticks from there on, only hashes are recorded' : `A as recorded, B as replayed here; the next recorded state is keyframe ${whole(one.compared_tick)}`;
  return h('div', {}, h('b', { textContent: one.title }), text(where), grow(), button('Go there', () => actions.go(one.tick)), button('Tick before', () => actions.go(one.tick - 1)), ...next, button('Report', () => actions.tab('finding')));
}

// What was found before this page was opened: dumps of replay verify, violated properties.
function found(state, actions) {
  const rows = state.findings ?? [];
  if (!rows.length) return [];
  const [tick, words] = rows[0], more = rows.length > 1 ? `, and ${whole(rows.length - 1)} more ( f )` : '';
  // A dump is of the code of then: it says nothing about the tape, or the code of now.
  const isEarlier = words.startsWith('an earlier verify');
  return [h('div', { className: isEarlier ? 'warn' : '' }, h('b', { textContent: `Found ${isEarlier ? 'earlier ' : ''}at tick ${whole(tick)}` }), text(words + more), grow(), button('Go there', () => actions.go(tick)))];
}

function difference(state, actions) {
  const found = state.difference;
  if (!found) return h('div', { className: 'warn' }, 'comparing the tapes …');
  if (found.error) return h('div', { className: 'warn' }, text(`the tapes cannot be compared: ${found.error}`));
  const inputs = found.inputs === null ? 'the inputs are the same' : `inputs differ from tick ${whole(found.inputs)}`;
  const unread = found.unreadable ? `; ${whole(found.unreadable)} ticks could not be compared` : '';
  if (found.first === null) {
    const same = found.inputs === null ? `No difference in ${whole(found.compared)} ticks that both have` : `The states are the same; ${inputs}`;
    return h('div', { className: found.inputs === null && !found.unreadable ? 'same' : 'warn' }, same + unread);
  }
  const fields = found.fields === null ? 'fields unknown: the tapes do not state them' : found.fields.length ? `${found.fields.length === 1 ? 'field' : 'fields'} ${found.fields.slice(0, 5).join(', ')}${found.fields.length > 5 ? ` and ${found.fields.length - 5} more` : ''}` : 'only capacities differ';
  const phase = found.phase ? `phase ${found.phase}, ` : '';
  return h('div', {}, h('b', { textContent: `First difference: tick ${whole(found.first)}` }), text(`${phase}${fields}; ${inputs}; ${whole(found.count)} ticks differ (${found.trend})${unread}`), grow(), button('Go there', () => actions.go(found.first)), button('Tick before', () => actions.go(found.first - 1)));
}

const reasonOf = (outcome) => (typeof outcome === 'string' ? outcome : String(outcome?.text ?? outcome?.reason ?? ''));

function condition(tape, who, actions) {
  if (tape.live === 'recording') return [];
  if (tape.live === 'stopped') return [h('div', { className: 'warn' }, h('b', { textContent: 'The recording has stopped' }), text(`its process has gone, and it was not closed; ${whole(tape.last)} is its last tick. It goes on here if it is resumed.`))];
  if (tape.status === 'corrupt') {
    const lost = tape.missing.length ? `ticks ${tape.missing.map(([first, last]) => (first === last ? whole(first) : `${whole(first)} to ${whole(last)}`)).join(', ')} are lost` : 'no tick is lost';
    return [h('div', {}, h('b', { textContent: `${who}this tape is damaged` }), text(lost), grow(), tape.missing.length ? button('Go there', () => actions.go(tape.missing[0][0] - 1)) : '', button('Details', () => actions.tab('tape')))];
  }
  if (tape.live === 'ended' && tape.status !== 'incomplete') return [h('div', { className: 'same' }, h('b', { textContent: `The recording has ended at tick ${whole(tape.last)}` }), text(reasonOf(tape.outcome)))];
  if (tape.status !== 'incomplete') return [];
  const why = tape.being_written ? 'the page shows what was on the disk when it was opened' : `the recording was not closed; its ticks up to ${whole(tape.last)} can be seen`;
  return [h('div', { className: 'warn' }, h('b', { textContent: `${who}${tape.being_written ? 'being recorded' : 'incomplete'}` }), text(why))];
}
