/**
 * The addresses of one device. A place is an offset in bytes from the lowest address, without the gaps between segments and
 * memory outside the pool.
 */
import {lastWhere} from './axis.js';
import {FORWARDED, HOST} from './recording.js';

const GAP_SHARE = 400; /* a gap's width is this fraction of the whole */

export class MemoryMap {
  /** @param {Recording} recording @param {number} device */
  constructor(recording, device) {
    const {lives, segments} = recording;
    /** @type {[number, number][]} */
    const ranges = [];
    for (let i = 0; i < segments.count; i++)
      if (segments.device[i] === device)
        ranges.push([segments.address[i], segments.address[i] + segments.size[i]]);
    for (let i = 0; i < lives.count; i++)
      if (lives.kind[i] === FORWARDED && lives.device[i] === device && lives.rounded[i] > 0)
        ranges.push([lives.address[i], lives.address[i] + lives.rounded[i]]);
    ranges.sort((a, b) => a[0] - b[0]);
    /** @type {number[]} */
    this.begins = [];
    /** @type {number[]} */
    const ends = [];
    for (const [begin, end] of ranges) {
      if (ends.length && begin <= ends[ends.length - 1])
        ends[ends.length - 1] = Math.max(ends[ends.length - 1], end);
      else {
        this.begins.push(begin);
        ends.push(end);
      }
    }
    const all = ends.reduce((sum, end, i) => sum + end - this.begins[i], 0);
    const gap = ends.length > 1 ? Math.min(all / GAP_SHARE, all / 4 / ends.length) : 0;
    /** @type {number[]} */
    this.offsets = [];
    let offset = 0;
    for (let i = 0; i < ends.length; i++) {
      this.offsets.push(offset);
      offset += ends[i] - this.begins[i] + gap;
    }
    this.size = Math.max(1, offset - gap);
    this.device = device;
    this.places = lives.address.map((address, i) => /* -1: not on this device */
      lives.device[i] === device && lives.kind[i] !== HOST ? this.place(address) : -1);
    this.segmentPlaces = segments.address.map((address, i) => segments.device[i] === device ? this.place(address) : -1);
  }

  /** @param {number} address @returns {number} -1: outside all ranges */
  place(address) {
    const i = rangeOf(this.begins, address);
    return i < 0 ? -1 : this.offsets[i] + (address - this.begins[i]);
  }

  /** @param {number} place */
  address(place) {
    const i = rangeOf(this.offsets, place);
    return i < 0 ? 0 : this.begins[i] + (place - this.offsets[i]);
  }
}

/** @param {number[]} begins @param {number} value @returns {number} the last range that begins by then; -1: none */
function rangeOf(begins, value) {
  return lastWhere(-1, begins.length - 1, i => begins[i] <= value);
}

/**
 * The device for a view that shows only one: the selected one, else the one with most memory.
 * @param {Context} context
 */
export function shownDevice(context) {
  const {device} = context.selection.state;
  if (device >= 0)
    return device;
  const recording = context.recording();
  let best = recording.devices[0] || 0;
  let most = -1;
  for (const each of recording.summary.devices) {
    const {reserved_bytes: reserved, passthrough_bytes: passthrough} = each.stats;
    const peak = (reserved.peak ?? reserved.current) + passthrough.peak;
    if (peak > most) {
      most = peak;
      best = each.device;
    }
  }
  return best;
}
