// Colours of values and differences. Values: maps of even lightness that colour-blind people can read, the same in both
// schemes. Differences run away from the page's ground: pale to deep in light, dark to bright in dark.

import { WHOLE_STEPS_MAX } from '/f/wire.js';

const STOPS = {
  viridis: '44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725',
  cividis: '00224e002e6a1a386f32436d434e6c535a6d61656f6f70737d7c788c88789b9476aba072bcae6ccdbb63dec958f0d846fee838',
  inferno: '0000040b0724210c4a3d096557106e71196e8a226aa32c61bc3754d24644e45a31f1731df98e09fcac11f9cb35f2ea69fcffa4',
  grey: '0000001313132525253c3c3c525252636363737373858585979797aaaaaabebebeccccccdadadae5e5e5f0f0f0f8f8f8ffffff',
  differenceLight: '00385c0072b27fbde0e6eaeeeab676b85c005c2e00',
  differenceDark: 'c4e6fb56b4e91f5a7f14181c704916f0a13cffe3b8',
};
// Of whole numbers that are few: colours without an order, none of them one of a ring (Paul Tol's, for all eyes).
const CATEGORIES = ['ee8866', '4477aa', 'ee6677', '228833', 'ccbb44', '66ccee', 'aa3377', 'bbbbbb'];
export const MAPS = ['viridis', 'cividis', 'inferno', 'grey'];
export const POINT_COLOURS = ['#e69f00', '#56b4e9', '#cc79a7', '#f0e442', '#009e73', '#d55e00'];
export const NOT_FINITE = 0xffff00ff; // Magenta: in none of the maps.

const made = new Map();

export const isDark = () => document.documentElement.dataset.theme === 'dark';

export const word = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// True of a map of whole numbers, as far as this scale goes at most as many as there are colours.
export const isFew = (layer, { low, high }) => layer.steps <= WHOLE_STEPS_MAX && high - low < CATEGORIES.length;

// The colour of a category: that of its number, whatever other numbers a run has.
export function categoryOf(value) {
  const count = CATEGORIES.length;
  return `#${CATEGORIES[((value % count) + count) % count]}`;
}

export function wordOf(hex) {
  return word(parseInt(hex.slice(1, 3), 16), parseInt(hex.slice(3, 5), 16), parseInt(hex.slice(5, 7), 16));
}

// 256 colours as little-endian RGBA words.
export function table(name) {
  const full = name === 'difference' ? `difference${isDark() ? 'Dark' : 'Light'}` : name;
  if (!made.has(full)) {
    const stops = STOPS[full], last = stops.length / 6 - 1;
    const channel = (stop, offset) => parseInt(stops.slice(stop * 6 + offset, stop * 6 + offset + 2), 16);
    made.set(full, Uint32Array.from({ length: 256 }, (_, index) => {
      const place = (index / 255) * last, stop = Math.min(last - 1, Math.floor(place)), share = place - stop;
      const mixed = [0, 2, 4].map((offset) => Math.round(channel(stop, offset) * (1 - share) + channel(stop + 1, offset) * share));
      return word(...mixed);
    }));
  }
  return made.get(full);
}
