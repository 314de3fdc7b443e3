// Rings around the things on a map, stamped into pixels: the paths of 5,000 rings would take the browser 100 ms a picture.

const STAMPS_MAX = 600;
const stamps = new Map();

// The pixels of one ring about its middle, those that are not clear: a coloured line over a wider dark one.
function stampOf(radius, colour, line, dark) {
  const key = `${radius} ${colour} ${line} ${dark}`;
  if (stamps.has(key)) return stamps.get(key);
  if (stamps.size >= STAMPS_MAX) stamps.clear();
  const half = Math.ceil(radius + dark / 2 + 1), side = 2 * half + 1;
  const pen = new OffscreenCanvas(side, side).getContext('2d', { willReadFrequently: true });
  for (const [style, width] of [['#000c', dark], [colour, line]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    pen.arc(half + 0.5, half + 0.5, radius, 0, 7);
    pen.stroke();
  }
  const words = new Uint32Array(pen.getImageData(0, 0, side, side).data.buffer), stamp = { x: [], y: [], words: [] };
  for (const [at, word] of words.entries()) {
    if (!(word >>> 24)) continue;
    stamp.x.push((at % side) - half);
    stamp.y.push(Math.floor(at / side) - half);
    stamp.words.push(word);
  }
  stamps.set(key, stamp);
  return stamp;
}

export class Rings {
  constructor() {
    this.canvas = document.createElement('canvas');
    this.pen = this.canvas.getContext('2d');
  }

  begin(width, height) {
    if (!this.image || this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      this.image = this.pen.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else this.pixels.fill(0);
  }

  // The clearer pixel wins: no dark line covers the colour of another ring.
  add(x, y, radius, colour, line, dark) {
    const { width, height } = this.canvas, stamp = stampOf(Math.round(radius * 2) / 2, colour, line, dark), left = Math.floor(x), top = Math.floor(y);
    for (let i = 0; i < stamp.words.length; i++) {
      const px = left + stamp.x[i], py = top + stamp.y[i];
      if (px < 0 || py < 0 || px >= width || py >= height) continue;
      const at = py * width + px;
      if (stamp.words[i] >>> 24 > this.pixels[at] >>> 24) this.pixels[at] = stamp.words[i];
    }
  }

  paint(pen) {
    this.pen.putImageData(this.image, 0, 0);
    pen.drawImage(this.canvas, 0, 0);
  }
}
