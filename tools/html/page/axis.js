/** The horizontal axis: converts pixels to moments and back, by time or by events. */
import {formatCount, formatDuration} from './format.js';

/**
 * A binary search for the last number from low to high for which isThere is true; it must be true for all numbers below that.
 * @param {number} low @param {number} high @param {(number: number) => boolean} isThere
 */
export function lastWhere(low, high, isThere) {
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (isThere(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

export class Axis {
  /**
   * @param {Recording} recording @param {'time' | 'event'} kind @param {number} from moment @param {number} to moment
   * @param {number} width pixels
   */
  constructor(recording, kind, from, to, width) {
    this.recording = recording;
    this.kind = kind;
    this.from = from;
    this.to = to;
    this.width = Math.max(1, Math.round(width));
    this.low = this.valueOf(from);
    this.high = Math.max(this.valueOf(to), this.low + 1e-9);
  }

  /** @param {number} moment */
  valueOf(moment) {
    return this.kind === 'time' ? this.recording.timeOf(moment) : moment;
  }

  /** @param {number} moment @returns {number} pixels from the left; may be outside the axis */
  x(moment) {
    return (this.valueOf(moment) - this.low) / (this.high - this.low) * this.width;
  }

  /** @param {number} x @returns {number} the last moment at or left of x, within the axis */
  moment(x) {
    const value = this.low + x / this.width * (this.high - this.low);
    return lastWhere(this.from, this.to, moment => this.valueOf(moment) <= value);
  }

  /**
   * The first moment of each column (of one pixel), and after them the last moment.
   * @returns {Uint32Array} width + 1
   */
  edges() {
    const edges = new Uint32Array(this.width + 1);
    for (let x = 0; x < this.width; x++)
      edges[x] = this.moment(x);
    edges[this.width] = this.to;
    return edges;
  }

  /**
   * The column of each moment, indexed by moment minus `from`.
   * @returns {Uint16Array} to - from + 2; the last is the width
   */
  columns() {
    const columns = new Uint16Array(this.to - this.from + 2);
    const factor = this.width / (this.high - this.low);
    const last = this.width - 1;
    for (let i = 0; i <= this.to - this.from; i++) {
      const value = this.kind === 'time' ? this.recording.times[this.from + i] : this.from + i;
      const x = (value - this.low) * factor;
      columns[i] = x > last ? last : x;
    }
    columns[this.to - this.from + 1] = this.width;
    return columns;
  }

  /** The positions of labels. */
  ticks() {
    const most = Math.max(2, Math.floor(this.width / 130));
    const step = niceStep((this.high - this.low) / most);
    const ticks = [];
    for (let value = Math.ceil(this.low / step) * step; value <= this.high && ticks.length < 100; value += step) {
      const x = (value - this.low) / (this.high - this.low) * this.width;
      ticks.push({x, text: this.kind === 'time' ? tickTime(value, step) : formatCount(Math.round(value))});
    }
    return ticks;
  }
}

/** @param {number} least @returns {number} 1, 2 or 5 times a power of ten */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10])
    if (power * factor >= least)
      return power * factor;
  return power * 10;
}

/** @param {number} ns @param {number} step */
function tickTime(ns, step) {
  /** @type {[number, string]} */
  const [unit, name] = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : ns >= 1e3 ? [1e3, 'us'] : [1, 'ns'];
  if (ns === 0)
    return '0';
  if (ns >= 120e9 && step >= 1e9)
    return formatDuration(ns);
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step)));
  return `${(ns / unit).toFixed(Math.min(digits, 6))} ${name}`;
}
