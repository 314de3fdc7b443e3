// The colour scheme: that of the system, light, or dark. The choice is kept.

import { byId, restyle } from '/f/dom.js';

const NEXT = { auto: 'light', light: 'dark', dark: 'auto' };

export class Theme {
  constructor(onChange) {
    this.onChange = onChange;
    let kept = 'auto';
    try { kept = localStorage.getItem('theme') ?? 'auto'; } catch { /* Storage is off. */ }
    this.set(kept in NEXT ? kept : 'auto');
    byId('theme').onclick = () => this.turn();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.set(this.chosen));
  }

  turn() {
    this.set(NEXT[this.chosen]);
  }

  set(chosen) {
    this.chosen = chosen;
    const dark = chosen === 'dark' || (chosen === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    restyle();
    byId('theme').textContent = { auto: '◐', light: '☀', dark: '☾' }[chosen];
    byId('theme').ariaLabel = `Colour scheme: ${chosen}`;
    try { localStorage.setItem('theme', chosen); } catch { /* Storage is off: the choice lasts as long as the page. */ }
    this.onChange();
  }
}
