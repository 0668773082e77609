/**
 * The differences between two recordings, counted like `gpupool diff`.
 */
/** @typedef {import('./recording.js').Recording} Recording */
/** @typedef {import('./table_rows.js').Sum} Sum */
import {formatBytes} from './format.js';
import {ownerRows, sizeRows} from './table_rows.js';

/**
 * Statistics of a device, in the tool's words.
 * @type {[string, string, boolean][]} name, words, is in bytes
 */
const FIGURES = [
  ['requested_bytes.peak', 'requested, peak', true], ['requested_bytes.current', 'requested, now', true],
  ['allocated_bytes.peak', 'allocated, peak', true], ['reserved_bytes.peak', 'reserved, peak', true],
  ['reserved_bytes.current', 'reserved, now', true], ['surplus_bytes.peak', 'surplus, peak', true],
  ['surplus_bytes.current', 'surplus, now', true], ['deferred_bytes.peak', 'deferred, peak', true],
  ['passthrough_bytes.peak', 'passthrough, peak', true], ['passthrough_bytes.current', 'passthrough, now', true],
  ['pinned_host_bytes.peak', 'pinned host, peak', true], ['allocation.peak', 'blocks, peak', false],
  ['allocation.current', 'blocks, now', false], ['allocation.allocated', 'allocations', false], ['cache_hits', 'hits', false],
  ['cache_misses', 'misses', false], ['driver_allocs', 'driver allocations', false], ['driver_frees', 'driver frees', false],
  ['fences', 'fences', false], ['host_waits', 'host waits', false], ['num_ooms', 'out of memory', false],
  ['num_alloc_retries', 'retries', false],
];

/**
 * @param {any} stats of a device; undefined: unused
 * @param {string} name "reserved_bytes.peak"
 * @returns {number}
 */
export function figureOf(stats, name) {
  const [first, second] = name.split('.');
  const value = stats ? stats[first] : undefined;
  const number = second && value ? value[second] : value;
  return typeof number === 'number' ? number : 0;
}

/**
 * @typedef {{device: number, name: string, words: string, isBytes: boolean, before: number, after: number}} FigureRow
 * @param {Recording} a
 * @param {Recording} b
 * @returns {FigureRow[]}
 */
export function figureRows(a, b) {
  const statsOf = (/** @type {Recording} */ recording, /** @type {number} */ device) => {
    const found = recording.summary.devices.find((/** @type {any} */ each) => each.device === device);
    return found ? found.stats : undefined;
  };
  const devices = new Set([...a.summary.devices, ...b.summary.devices].map(each => /** @type {number} */ (each.device)));
  return [...devices].sort((x, y) => x - y).flatMap(device => FIGURES.map(([name, words, isBytes]) => ({
    device, name, words, isBytes, before: figureOf(statsOf(a, device), name), after: figureOf(statsOf(b, device), name),
  })));
}

/**
 * Rows that differ: by owner, or by size if one recording has no stacks.
 * @typedef {{name: string, before: number, after: number}} SiteRow
 * @param {Recording} a
 * @param {Recording} b
 * @param {'live' | 'peak' | 'total' | 'count' | 'temporary'} measure peak: by owner only
 * @returns {SiteRow[]}
 */
export function siteRows(a, b, measure) {
  const isBySize = !a.hasStacks || !b.hasStacks;
  const byCount = measure === 'count' || measure === 'temporary';
  const of = measure === 'count' ? 'total' : measure;
  /** @type {Map<string, SiteRow>} */
  const rows = new Map();
  [a, b].forEach((recording, place) => {
    const all = {file: 0, from: 0, to: recording.end, at: 0, device: -1, owner: -1, search: '', life: -1,
      axis: /** @type {'event'} */ ('event'), frames: /** @type {'merged'} */ ('merged'), allFrames: false, view: ''};
    const sums = isBySize && of !== 'peak'
      ? sizeRows(recording, () => true).map(row => ({name: formatBytes(row.key), sum: row[of]}))
      : ownerRows(recording, all).map(row => ({name: recording.owners[row.owner].name, sum: row[of]}));
    for (const {name, sum} of sums) {
      const row = rows.get(name) || {name, before: 0, after: 0};
      row[place ? 'after' : 'before'] += byCount ? sum.count : sum.bytes;
      rows.set(name, row);
    }
  });
  return [...rows.values()].filter(row => row.before !== row.after);
}

/**
 * The change as a share of `before`, in the tool's words.
 * @param {number} before
 * @param {number} after
 * @returns {string} "+12.5%", "new", "gone"
 */
export function shareText(before, after) {
  if (!before || !after)
    return before ? 'gone' : after ? 'new' : '';
  const percent = (after / before - 1) * 100;
  const text = `${percent < 0 ? '' : '+'}${percent.toFixed(1)}%`;
  return text.length > 8 ? '>10000%' : text;
}

/**
 * @param {number} before
 * @param {number} after
 * @param {(value: number) => string} format
 * @returns {string} "+1.2 GiB"; "0" if equal
 */
export function changeText(before, after, format) {
  return after === before ? '0' : (after < before ? '-' : '+') + format(Math.abs(after - before));
}
