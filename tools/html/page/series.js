/** Memory over time: the sum at each moment, and the maximum over parts of the time. */
import {FORWARDED, HOST} from './recording.js';

/** @type {SeriesName[]} */
export const SERIES_NAMES = ['requested', 'allocated', 'pending', 'reserved', 'forwarded'];

const STEP = 16; /* moments in a part of the lowest level; parts in a part of each next level */

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

/** @param {Float64Array} changes by moment; those of the moment after the last are of no account @returns {Series} their sums up to each moment */
export function summed(changes) {
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
  const {lives, segments, rest, end} = recording;
  const changes = /** @type {Record<SeriesName, Float64Array>} */ ({});
  for (const name of SERIES_NAMES)
    changes[name] = new Float64Array(end + 2);
  /** @param {SeriesName} name @param {number} begin @param {number} end @param {number} bytes */
  const add = (name, begin, end, bytes) => {
    changes[name][begin] += bytes;
    changes[name][end] -= bytes;
  };
  for (let i = 0; i < lives.count; i++) {
    if ((device >= 0 && lives.device[i] !== device) || lives.kind[i] === HOST)
      continue;
    if (lives.kind[i] === FORWARDED) {
      add('forwarded', lives.begin[i], lives.freed[i], lives.requested[i]);
      continue;
    }
    add('requested', lives.begin[i], lives.freed[i], lives.requested[i]);
    add('allocated', lives.begin[i], lives.freed[i], lives.rounded[i]);
    add('pending', lives.freed[i], lives.done[i], lives.rounded[i]);
  }
  for (let i = 0; i < segments.count; i++)
    if (device < 0 || segments.device[i] === device)
      add('reserved', segments.begin[i], segments.end[i], segments.size[i]);
  /** @type {Map<number, number>} */
  const begins = new Map(); /* of what was left out, by device: each row covers the moments since the device's previous one */
  for (let i = 0; i < rest.count; i++) {
    const begin = begins.get(rest.device[i]) || 0;
    const next = rest.moment[i] + 1;
    begins.set(rest.device[i], next);
    if ((device < 0 || rest.device[i] === device) && begin < next)
      for (const name of /** @type {('requested' | 'allocated' | 'pending')[]} */ (['requested', 'allocated', 'pending']))
        add(name, begin, next, rest[name][i]);
  }
  const result = /** @type {Record<SeriesName, Series>} */ ({});
  for (const name of SERIES_NAMES)
    result[name] = summed(changes[name]);
  return result;
}
