/**
 * The rows of the tables: allocations grouped by owner, stack, size, thread and stream, counted like the
 * tool's reports; and the events.
 */
import {amountsOf} from './amounts.js';
import {HOST, POOLED} from './recording.js';

function noSum() {
  return {bytes: 0, count: 0};
}

/** @param {Sum} sum @param {number} bytes */
function count(sum, bytes) {
  sum.bytes += bytes;
  sum.count++;
}

/**
 * By owner, like the flat sums of `gpupool sites`.
 * @typedef {{owner: number, peak: Sum, live: Sum, total: Sum, temporary: Sum, grown: number}} OwnerRow grown: held at the end
 * of the selected time, minus what was held at its begin
 * @param {Recording} recording @param {SelectionState} state ignores its owner
 * @param {Uint8Array | null} [found] what is searched for, 1 by life; null: everything
 * @returns {{rows: OwnerRow[], isPartial: boolean}} isPartial: they lack what the tool left out of the page
 */
export function ownerRows(recording, state, found = null) {
  /** @type {OwnerRow[]} */
  const rows = recording.owners.map((_, owner) => ({owner, peak: noSum(), live: noSum(), total: noSum(), temporary: noSum(), grown: 0}));
  const none = rows.length - 1; /* with stacks, the last owner is for memory without one */
  let isPartial = false;
  for (const measure of /** @type {('peak' | 'live' | 'total' | 'temporary')[]} */ (['peak', 'live', 'total', 'temporary'])) {
    const amounts = amountsOf(recording, {...state, owner: -1}, measure, found);
    isPartial = amounts.isPartial;
    for (let group = 0; group < amounts.counts.length; group++) {
      if (!amounts.counts[group])
        continue;
      const owner = !amounts.byStack ? group : recording.stacks.owner[group] >= 0 ? recording.stacks.owner[group] : none;
      rows[owner][measure].bytes += amounts.bytes[group];
      rows[owner][measure].count += amounts.counts[group];
    }
  }
  addGrowth(recording, state, rows, found);
  return {rows: rows.filter(row => row.total.count > 0), isPartial};
}

/** @param {Recording} recording @param {SelectionState} state @param {OwnerRow[]} rows by owner @param {Uint8Array | null} found */
function addGrowth(recording, state, rows, found) {
  const {lives} = recording;
  const {from, to, device} = state;
  for (let i = 0; i < lives.count && lives.begin[i] <= to; i++) {
    if (lives.kind[i] === HOST || (device >= 0 && lives.device[i] !== device) || (found && !found[i]))
      continue;
    const before = lives.begin[i] <= from && lives.freed[i] > from;
    const after = lives.freed[i] > to;
    if (before !== after)
      rows[lives.owner[i]].grown += after ? lives.requested[i] : -lives.requested[i];
  }
}

/**
 * A number for each stack; equal for equal functions, files and lines.
 * @param {Recording} recording
 */
function stacksByText(recording) {
  const {stacks, frames} = recording;
  /** @param {Map<string, number>} numbers @param {string} text */
  const numberOf = (numbers, text) => {
    numbers.set(text, numbers.get(text) ?? numbers.size);
    return /** @type {number} */ (numbers.get(text));
  };
  /** @type {Map<string, number>} */
  const frameTexts = new Map();
  /** @type {Map<string, number>} */
  const stackTexts = new Map();
  const frameIds = Array.from(frames.line, (line, i) => numberOf(frameTexts, `${frames.function[i]} ${frames.file[i]} ${line}`));
  return new Int32Array(stacks.count).map((_, i) => numberOf(stackTexts, recording.framesOf(i).map(frame => frameIds[frame]).join(' ')));
}

/** @type {WeakMap<Recording, Int32Array>} */
const stackIds = new WeakMap();

/**
 * What the program holds at the end, like `gpupool leaks`: by device, kind and stack, or by size without a stack.
 * @typedef {{device: number, what: number, stack: number, bytes: number, count: number, life: number}} LeakRow life: the first of them
 * @param {Recording} recording @param {(life: number) => boolean} wants @returns {LeakRow[]}
 */
export function leakRows(recording, wants) {
  const {lives} = recording;
  const ids = stackIds.get(recording) || stacksByText(recording);
  stackIds.set(recording, ids);
  /** @type {Map<string, LeakRow>} */
  const rows = new Map();
  for (let i = 0; i < lives.count; i++) {
    if (!recording.isHeld(i) || !wants(i))
      continue;
    const stack = lives.stack[i];
    const key = `${lives.device[i]} ${lives.what[i]} ${stack >= 0 ? ids[stack] : '=' + lives.requested[i]}`;
    let row = rows.get(key);
    if (!row) {
      row = {device: lives.device[i], what: lives.what[i], stack, bytes: 0, count: 0, life: i};
      rows.set(key, row);
    }
    row.bytes += lives.requested[i];
    row.count++;
  }
  return [...rows.values()];
}

/**
 * What allocations of one key, as a size, thread or stream, ask for together, like `gpupool sites --by size`. `rounded`: bytes that the held, pooled ones take; `life`: the first of them.
 * @typedef {{key: number, live: Sum, rounded: number, total: Sum, temporary: Sum, life: number}} KeyRow
 * @param {Recording} recording
 * @param {ArrayLike<number>} keys by life
 * @param {(life: number) => boolean} wants
 * @returns {KeyRow[]}
 */
export function keyRows(recording, keys, wants) {
  const {lives} = recording;
  /** @type {Map<number, KeyRow>} */
  const rows = new Map();
  for (let i = 0; i < lives.count; i++) {
    if (lives.kind[i] === HOST || !wants(i))
      continue;
    let row = rows.get(keys[i]);
    if (!row) {
      row = {key: keys[i], live: noSum(), rounded: 0, total: noSum(), temporary: noSum(), life: i};
      rows.set(keys[i], row);
    }
    count(row.total, lives.requested[i]);
    if (recording.isTemporary(i))
      count(row.temporary, lives.requested[i]);
    if (!recording.isHeld(i))
      continue;
    count(row.live, lives.requested[i]);
    if (lives.kind[i] === POOLED)
      row.rounded += lives.rounded[i];
  }
  return [...rows.values()];
}

/**
 * The moments in the selected time at which something wanted happened; with a search, only to allocations.
 * @param {Recording} recording @param {SelectionState} state @param {Uint8Array | null} matching by life; null: all
 */
export function eventRows(recording, state, matching) {
  const lifeAt = recording.eventsByMoment();
  const rows = new Uint32Array(state.to - state.from);
  let used = 0;
  for (let moment = state.from + 1; moment <= state.to; moment++)
    if (!matching || (lifeAt[moment] >= 0 && matching[lifeAt[moment]]))
      rows[used++] = moment;
  return rows.subarray(0, used);
}
