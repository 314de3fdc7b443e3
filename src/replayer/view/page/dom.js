// Small helpers for elements and texts. Text of a tape becomes text nodes only: nothing here parses HTML.

// What all addresses begin with: in a frame of a notebook, the token.
export const BASE = location.pathname.replace(/[^/]*$/, '');

export const byId = (id) => document.getElementById(id);

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes('-') || name === 'role') element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';
export function icon(path) {
  // Not characters: many fonts lack those of media players.
  const svg = document.createElementNS(SVG, 'svg');
  const shape = document.createElementNS(SVG, 'path');
  svg.setAttribute('viewBox', '0 0 12 12');
  svg.setAttribute('aria-hidden', 'true');
  shape.setAttribute('d', path);
  svg.append(shape);
  return svg;
}

export const whole = (n) => n.toLocaleString('en');

export function figure(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'number') return String(value);
  if (Number.isSafeInteger(value)) return whole(value);
  if (!Number.isFinite(value)) return String(value);
  if (Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)) return value.toExponential(2);
  return Number(value.toPrecision(5)).toLocaleString('en', { maximumSignificantDigits: 5 });
}

// Values of style rules are kept until the scheme changes: each look at them could make the browser compute all styles.
let rules = {};
export const css = (name) => (rules[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
export const restyle = () => { rules = {}; };

// A text that is the same is not set anew: that would lay out the page again.
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function tip(event, text) {
  const box = byId('tip');
  box.hidden = !event || !text;
  if (box.hidden) return;
  box.textContent = text;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(innerWidth - width - 8, event.clientX + 14))}px`;
  box.style.top = `${event.clientY + height + 24 > innerHeight ? event.clientY - height - 12 : event.clientY + 16}px`;
}

export async function ask(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== null && value !== undefined) query.set(name, value);
  const response = await fetch(`${BASE}api/${path}?${query}`);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

// The size of an element in CSS pixels, as it was when it was measured last: reading it may lay out the page.
const sizes = new WeakMap();
export function measure(element) {
  sizes.set(element, { width: element.clientWidth, height: element.clientHeight });
}

export function sizeOf(element) {
  if (!sizes.get(element)?.width) measure(element);
  return sizes.get(element);
}

// Clear a canvas of this size in CSS pixels; returns its context in CSS pixels.
export function penOf(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// What was drawn before, and a pen to draw over it.
export function copied(base, canvas, width, height) {
  const pen = penOf(canvas, width, height);
  if (base.width && base.height) pen.drawImage(base, 0, 0, width, height);
  return pen;
}
