// The socket, the decoding of frames (see frame_encoding.py), and the frames that the page itself keeps.

import { BASE } from '/f/dom.js';

export const PREVIEW = 1, CACHED = 2, OTHER_TICK = 4, HEAD = 8;
export const VALUES = 0, PICTURE = 1, DIFFERENCE = 2;
export const WHOLE_STEPS_MAX = 253; // Fewer steps than any layer of other values has, see frame_encoding.py.
export const POINT = 3; // Numbers of a point: x, y and its size, NaN without one.
const KEPT_BYTES = 96e6;
const RETRY_MS = [500, 8000];

export function decode(buffer) {
  const view = new DataView(buffer);
  const frame = {
    side: view.getUint8(1),
    flags: view.getUint8(2),
    asked: Number(view.getBigUint64(8, true)),
    shown: Number(view.getBigUint64(16, true)),
    hash: view.getBigUint64(24, true).toString(16).padStart(16, '0'),
    layers: new Map(),
    points: new Map(),
    bytes: buffer.byteLength,
  };
  let at = 32;
  for (let left = view.getUint8(3); left > 0; left--) {
    const size = view.getUint32(at + 12, true);
    frame.layers.set(view.getUint16(at, true), {
      kind: view.getUint8(at + 2),
      steps: view.getUint8(at + 3),
      width: view.getUint32(at + 4, true),
      height: view.getUint32(at + 8, true),
      low: view.getFloat64(at + 16, true),
      high: view.getFloat64(at + 24, true),
      codes: new Uint8Array(buffer, at + 32, size),
    });
    at += 32 + size + ((8 - (size % 8)) % 8);
  }
  while (at < buffer.byteLength) {
    const count = view.getUint32(at + 4, true);
    frame.points.set(view.getUint32(at, true), new Float32Array(buffer, at + 8, count * POINT));
    at += 8 + count * POINT * 4;
  }
  return frame;
}

// The value of one cell as far as its byte tells, as text: with the error of the rounding.
export function valueOf(layer, index, figure) {
  const code = layer.codes[index];
  if (layer.kind === DIFFERENCE) {
    if (code === 128) return '0 (the same)';
    return code > layer.steps ? 'not finite' : `${figure(((code - 128) / 126) * layer.high)} ± ${figure(layer.high / 252)}`;
  }
  if (code > layer.steps) return 'not a finite number';
  const span = layer.high - layer.low;
  const value = layer.low + (code / layer.steps) * span;
  return span > 0 && code !== 0 && layer.steps > WHOLE_STEPS_MAX ? `${figure(value)} ± ${figure(span / (2 * layer.steps))}` : figure(value);
}

export class Wire {
  constructor(on) {
    this.on = on;
    this.kept = new Map();
    this.bytes = 0;
    this.asked = new Set();
    this.request = 0;
    this.wait = RETRY_MS[0];
    this.connect();
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  connect() {
    this.socket = new WebSocket(`ws://${location.host}${BASE}frames`);
    this.socket.binaryType = 'arraybuffer';
    this.socket.onopen = () => {
      this.wait = RETRY_MS[0];
      this.on.open();
    };
    this.socket.onmessage = ({ data }) => {
      if (typeof data === 'string') return this.on.message(JSON.parse(data));
      const frame = decode(data);
      if (!(frame.flags & PREVIEW)) this.keep(frame);
      return this.on.frame(frame);
    };
    this.socket.onclose = () => {
      this.on.close();
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(RETRY_MS[1], this.wait * 2);
    };
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }

  keep(frame) {
    const key = `${frame.side}:${frame.asked}`;
    this.asked.delete(frame.asked);
    this.bytes -= this.kept.get(key)?.bytes ?? 0;
    this.kept.delete(key); // So that it becomes the newest.
    this.kept.set(key, frame);
    this.bytes += frame.bytes;
    for (const [old, { bytes }] of this.kept) {
      if (this.bytes < KEPT_BYTES) break;
      this.kept.delete(old);
      this.bytes -= bytes;
    }
  }

  get(side, tick) {
    return this.kept.get(`${side}:${tick}`);
  }

  look(layers, difference, curves) {
    this.kept.clear();
    this.asked.clear();
    this.bytes = 0;
    this.send({ op: 'look', layers, difference, curves });
  }

  seek(tick, drag) {
    this.asked.clear();
    this.request = (this.request + 1) % 2 ** 31;
    this.send({ op: 'seek', id: this.request, tick, drag });
  }

  block(ticks) {
    for (const tick of ticks) this.asked.add(tick);
    if (ticks.length) this.send({ op: 'block', ticks });
  }
}
