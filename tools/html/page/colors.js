/**
 * Colours of owners, by their rank in bytes. Twelve hues, which people who cannot tell red from green can tell apart; further
 * owners repeat them with another lightness.
 */
import {HOST} from './recording.js';

const HUES = [212, 30, 160, 285, 48, 340, 190, 95, 255, 10, 125, 315];

const dark = window.matchMedia('(prefers-color-scheme: dark)');

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
  /** @param {number} n */
  const channel = n => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/** @param {[number, number, number]} rgb @returns {number} a pixel of ImageData, little-endian */
function pixelOf(rgb) {
  return (0xff000000 | rgb[2] << 16 | rgb[1] << 8 | rgb[0]) >>> 0;
}

/** The colours of a recording's owners in the present theme: assigned by bytes, so that large owners differ. */
export class OwnerColors {
  /** @param {Recording} recording */
  constructor(recording) {
    const {lives, owners} = recording;
    const bytes = new Float64Array(owners.length);
    for (let i = 0; i < lives.count; i++)
      if (lives.kind[i] !== HOST)
        bytes[lives.owner[i]] += lives.rounded[i] * Math.log2(2 + lives.freed[i] - lives.begin[i]);
    const base = isDark() ? 0.52 : 0.6;
    const order = [...owners.keys()].sort((a, b) => bytes[b] - bytes[a]);
    this.pixels = new Uint32Array(owners.length);
    this.others = new Uint32Array(owners.length); /* for every second allocation, to separate neighbours */
    this.edges = new Uint32Array(owners.length);
    this.pending = new Uint32Array(owners.length);
    /** @type {string[]} */
    this.css = [];
    order.forEach((owner, place) => {
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
    });
  }

  /** @param {number} owner @param {number} life */
  pixel(owner, life) {
    return life % 2 ? this.others[owner] : this.pixels[owner];
  }
}

/** @param {number} place */
export function phaseColor(place) {
  return `hsl(${HUES[place % HUES.length]} ${isDark() ? '40% 34%' : '55% 80%'})`;
}

/** @type {Map<string, string>} custom properties that were looked up in the present theme */
const styles = new Map();
dark.addEventListener('change', () => styles.clear());

/** @param {string} name a custom property of the style sheet: "--line" */
export function styleColor(name) {
  const color = styles.get(name) ?? getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  styles.set(name, color);
  return color;
}

/** @param {string} name a custom property of the form #rrggbb */
export function stylePixel(name) {
  const rgb = parseInt(styleColor(name).slice(1), 16);
  return pixelOf([rgb >> 16, rgb >> 8 & 255, rgb & 255]);
}
