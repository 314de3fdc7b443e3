// The search box: ticks, layers, kinds of events, curves.

import { byId, h, whole } from '/f/dom.js';

const HITS_MAX = 40;

export function openSearch(state, bar, curves, actions) {
  const box = byId('search'), query = byId('query'), list = byId('hits');
  let hits = [], chosen = 0;
  const choose = () => { box.close(); hits[chosen]?.act(); };
  const find = () => {
    const text = query.value.trim().toLowerCase(), number = parseInt(text.replace(/[, ]/g, ''), 10), like = (name) => name.toLowerCase().includes(text);
    const kinds = Object.entries(bar.data?.event_counts ?? {});
    const tick = state.clamp(number < 0 ? state.last + 1 + number : number);
    hits = [
      ...(Number.isNaN(number) ? [] : [{ name: `tick ${whole(tick)}`, what: 'go to', act: () => actions.go(tick) }]),
      ...state.info.layers.filter(like).map((name) => ({ name, what: 'layer', act: () => actions.layer(name, true) })),
      ...kinds.filter(([kind]) => like(kind)).map(([kind, count]) => ({ name: kind, what: `${whole(count)} events`, act: () => { actions.kind(kind); actions.jump('event', false, kind); } })),
      ...curves.names().filter(like).map((name) => ({ name, what: 'curve', act: () => actions.curve(name, true) })),
    ].slice(0, HITS_MAX);
    const condition = query.value.trim(), isOne = /[<>=!(]/.test(condition) || (condition && !hits.length);
    if (isOne) hits.push({ name: condition, what: 'find the next tick where this holds', act: () => actions.find(condition, 'next') });
    chosen = 0;
    show();
  };
  const show = () => {
    list.replaceChildren(...hits.map(({ name, what }, at) => h('li', { role: 'option', id: `hit-${at}`, 'aria-selected': String(at === chosen), onclick: () => { chosen = at; choose(); } }, name, h('span', { textContent: what }))));
    query.setAttribute('aria-activedescendant', hits.length ? `hit-${chosen}` : '');
    list.children[chosen]?.scrollIntoView({ block: 'nearest' });
  };
  query.value = '';
  query.oninput = find;
  query.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); chosen = (chosen + step + hits.length) % Math.max(1, hits.length); show(); }
    if (event.key === 'Enter') { event.preventDefault(); choose(); }
  };
  box.onclick = (event) => { if (event.target === box) box.close(); };
  box.showModal();
  query.focus();
  find();
}
