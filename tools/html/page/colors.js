/**
 * Colours of owners, by their rank in bytes, and of curves. One list of twelve hues for light and one for
 * dark; people who cannot tell red from green can tell them apart. Further owners repeat the hues with
 * another lightness.
 */
import {HOST} from './recording.js';

const HUES = [212, 30, 160, 285, 48, 340, 190, 95, 255, 10, 125, 315];

const dark = window.matchMedia('(prefers-color-scheme: dark)');

/** @returns {boolean} */
export function isDark() {
  return dark.matches;
}

/** @param {() => void} listener called when the theme changes */
export function onTheme(listener) {
  dark.addEventListener('change', listener);
}

/** @param {number} hue @param {number} saturation 0..1 @param {number} lightness 0..1 @returns {[number, number, number]} */
function rgbOf(hue, saturation, lightness) {
  const a = saturation * Math.min(lightness, 1 - lightness);
  /** @param {number} n @returns {number} */
  const channel = n => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/**
 * Converts to a pixel of ImageData, little-endian.
 * @param {[number, number, number]} rgb @returns {number}
 */
function pixelOf(rgb) {
  return (0xff000000 | rgb[2] << 16 | rgb[1] << 8 | rgb[0]) >>> 0;
}

/** The colours of a recording's owners: assigned by bytes, so that large owners differ. */
export class OwnerColors {
  /** @param {Recording} recording */
  constructor(recording) {
    const {lives, owners} = recording;
    const bytes = new Float64Array(owners.length);
    for (let i = 0; i < lives.count; i++)
      if (lives.kind[i] !== HOST)
        bytes[lives.owner[i]] += lives.rounded[i] * Math.log2(2 + lives.freed[i] - lives.begin[i]);
    const order = [...owners.keys()].sort((a, b) => bytes[b] - bytes[a]);
    this.rank = new Uint32Array(owners.length);
    this.pixels = new Uint32Array(owners.length);
    this.others = new Uint32Array(owners.length); /* for every second allocation, to separate neighbours */
    this.edges = new Uint32Array(owners.length);
    this.pending = new Uint32Array(owners.length);
    /** @type {string[]} */
    this.css = [];
    order.forEach((owner, place) => {
      this.rank[owner] = place;
    });
    this.make();
  }

  /**
   * The pixel value of an allocation.
   * @param {number} owner @param {number} life @returns {number}
   */
  pixel(owner, life) {
    return life % 2 ? this.others[owner] : this.pixels[owner];
  }

  /** Makes the colours again for the present theme. */
  make() {
    const count = this.rank.length;
    const base = isDark() ? 0.52 : 0.6;
    for (let owner = 0; owner < count; owner++) {
      const place = this.rank[owner];
      const round = Math.floor(place / HUES.length) % 4;
      const hue = HUES[place % HUES.length];
      const lightness = base + [0, 0.14, -0.12, 0.07][round];
      const saturation = [0.55, 0.4, 0.45, 0.3][round];
      const rgb = rgbOf(hue, saturation, lightness);
      this.pixels[owner] = pixelOf(rgb);
      this.others[owner] = pixelOf(rgbOf(hue, saturation, lightness + 0.045));
      this.edges[owner] = pixelOf(rgbOf(hue, saturation, lightness - 0.16));
      this.pending[owner] = pixelOf(rgbOf(hue, saturation * 0.35, isDark() ? 0.3 : 0.84));
      this.css[owner] = `rgb(${rgb.join(' ')})`;
    }
  }
}

/**
 * The colour behind the name of a phase.
 * @param {number} place @returns {string}
 */
export function phaseColor(place) {
  return `rgb(${rgbOf(HUES[place % HUES.length], isDark() ? 0.4 : 0.55, isDark() ? 0.34 : 0.8).join(' ')})`;
}

/**
 * Custom properties of the style sheet that were looked up in the present theme.
 * @type {Map<string, string>}
 */
const styles = new Map();
dark.addEventListener('change', () => styles.clear());

/**
 * The value of a custom property of the style sheet, as text for a canvas.
 * @param {string} name "--line" @returns {string}
 */
export function styleColor(name) {
  const color = styles.get(name) ?? getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  styles.set(name, color);
  return color;
}

/**
 * Like styleColor, as a pixel; the property must be #rrggbb.
 * @param {string} name @returns {number}
 */
export function stylePixel(name) {
  const text = styleColor(name);
  /** @param {number} at @returns {number} */
  const part = at => parseInt(text.slice(at, at + 2), 16);
  return pixelOf([part(1), part(3), part(5)]);
}
