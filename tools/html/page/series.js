/**
 * Memory over time: the sum at each moment, and the maximum over parts of the time.
 */
import {FORWARDED, HOST} from './recording.js';

/** @type {SeriesName[]} */
export const SERIES_NAMES = ['requested', 'allocated', 'pending', 'reserved', 'forwarded'];

const STEP = 16; /* moments in a part of the lowest level; parts in a part of each next level */

/** Bytes at each moment, and the maximum over ranges of moments. */
export class Series {
  /** @param {Float64Array} values by moment */
  constructor(values) {
    this.values = values;
    /** @type {Float64Array[]} */
    this.levels = [];
    let below = values;
    while (below.length > STEP) {
      const level = new Float64Array(Math.ceil(below.length / STEP));
      for (let i = 0; i < level.length; i++) {
        let most = -Infinity;
        for (let k = i * STEP; k < Math.min((i + 1) * STEP, below.length); k++)
          most = below[k] > most ? below[k] : most;
        level[i] = most;
      }
      this.levels.push(level);
      below = level;
    }
  }

  /** @param {number} from @param {number} to the last, at least from */
  most(from, to) {
    let most = this.values[from];
    let level = -1; /* the values themselves */
    let low = from;
    let high = to + 1;
    while (low < high) {
      const values = level < 0 ? this.values : this.levels[level];
      while (low < high && (low % STEP !== 0 || level + 1 >= this.levels.length || high - low < STEP)) {
        most = values[low] > most ? values[low] : most;
        low++;
      }
      while (low < high && high % STEP !== 0) {
        high--;
        most = values[high] > most ? values[high] : most;
      }
      low /= STEP;
      high /= STEP;
      level++;
    }
    return most;
  }

  /** @returns {number} the first moment of the maximum */
  peak() {
    let at = 0;
    for (let i = 1; i < this.values.length; i++)
      if (this.values[i] > this.values[at])
        at = i;
    return at;
  }
}

/** @param {Float64Array} changes */
function summed(changes) {
  let sum = 0;
  for (let i = 0; i < changes.length; i++) {
    sum += changes[i];
    changes[i] = sum;
  }
  return new Series(changes.subarray(0, changes.length - 1));
}

/**
 * The five sums for one device, or all (-1). They include what the tool left out of the page.
 * @param {Recording} recording @param {number} device @returns {Record<SeriesName, Series>}
 */
export function makeSeries(recording, device) {
  const {lives, segments, end} = recording;
  const changes = /** @type {Record<SeriesName, Float64Array>} */ ({});
  for (const name of SERIES_NAMES)
    changes[name] = new Float64Array(end + 2);
  for (let i = 0; i < lives.count; i++) {
    if ((device >= 0 && lives.device[i] !== device) || lives.kind[i] === HOST)
      continue;
    if (lives.kind[i] === FORWARDED) {
      changes.forwarded[lives.begin[i]] += lives.requested[i];
      changes.forwarded[lives.freed[i]] -= lives.requested[i];
      continue;
    }
    changes.requested[lives.begin[i]] += lives.requested[i];
    changes.requested[lives.freed[i]] -= lives.requested[i];
    changes.allocated[lives.begin[i]] += lives.rounded[i];
    changes.allocated[lives.freed[i]] -= lives.rounded[i];
    changes.pending[lives.freed[i]] += lives.rounded[i];
    changes.pending[lives.done[i]] -= lives.rounded[i];
  }
  for (let i = 0; i < segments.count; i++) {
    if (device >= 0 && segments.device[i] !== device)
      continue;
    changes.reserved[segments.begin[i]] += segments.size[i];
    changes.reserved[segments.end[i]] -= segments.size[i];
  }
  addRest(recording, device, changes);
  const result = /** @type {Record<SeriesName, Series>} */ ({});
  for (const name of SERIES_NAMES)
    result[name] = summed(changes[name]);
  return result;
}

/**
 * A row of what was left out covers the moments since the previous row of its device.
 * @param {Recording} recording @param {number} device @param {Record<SeriesName, Float64Array>} changes
 */
function addRest(recording, device, changes) {
  const {rest} = recording;
  /** @type {Map<number, number>} */
  const begins = new Map();
  const names = /** @type {('requested' | 'allocated' | 'pending')[]} */ (['requested', 'allocated', 'pending']);
  for (let i = 0; i < rest.moment.length; i++) {
    const begin = begins.get(rest.device[i]) || 0;
    begins.set(rest.device[i], rest.moment[i] + 1);
    if ((device >= 0 && rest.device[i] !== device) || rest.moment[i] < begin)
      continue;
    for (const name of names) {
      changes[name][begin] += rest[name][i];
      changes[name][rest.moment[i] + 1] -= rest[name][i];
    }
  }
}

