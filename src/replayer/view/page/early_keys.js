// While the page opens: how long it takes so far, and the keys that are pressed, which are done once the page is there.

import { byId, whole } from '/f/dom.js';

const SAID_FROM_S = 2, KEPT_MAX = 200;

export class EarlyKeys {
  constructor() {
    this.events = [];
    this.keep = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || this.events.length >= KEPT_MAX || /INPUT|SELECT|TEXTAREA|BUTTON/.test(event.target.tagName)) return;
      this.events.push(event);
      if (event.key.length === 1) event.preventDefault(); // "/" would search in the browser.
    };
    addEventListener('keydown', this.keep);
    const said = byId('maps').querySelector('.empty'), begun = performance.now();
    this.timer = setInterval(() => {
      const seconds = Math.floor((performance.now() - begun) / 1000);
      if (said?.isConnected && seconds >= SAID_FROM_S) said.textContent = `opening the tape … ${whole(seconds)} s`;
    }, 1000);
  }

  // The page is there, or it cannot be shown.
  stop() {
    removeEventListener('keydown', this.keep);
    clearInterval(this.timer);
  }

  // Do what was pressed. box: of the tick, with what its keys do; all other keys are onKey's.
  replay(onKey, box, typed) {
    this.stop();
    for (const event of this.events) {
      const field = document.activeElement;
      if (!/INPUT|TEXTAREA/.test(field?.tagName)) onKey(event);
      else if (event.key.length === 1) field.setRangeText(event.key, field.selectionStart, field.selectionEnd, 'end');
      else if (field === box) typed(event);
    }
  }
}
