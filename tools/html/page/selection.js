/**
 * The user's selection, shared by all views. Views change it with set(), which calls the subscribers.
 */
import {oomOfSummary} from './amounts.js';

/**
 * @typedef {'merged' | 'python' | 'native'} FrameChoice
 * @typedef {object} SelectionState
 * @property {number} file index
 * @property {number} from the first moment on display
 * @property {number} to the last
 * @property {number} at the moment whose state is on display
 * @property {number} device -1: all
 * @property {number} owner -1: all
 * @property {string} search
 * @property {number} life the allocation on display, -1: none
 * @property {'time' | 'event'} axis
 * @property {FrameChoice} frames
 * @property {boolean} allFrames
 * @property {string} view id of the view that is open
 */

const LONGEST_GAPS = 16;

/**
 * True if a few gaps between events make up most of the time: by time hardly anything would be visible.
 * @param {Recording} recording @returns {boolean}
 */
function isMostlyIdle(recording) {
  const {times, end} = recording;
  const gaps = [];
  for (let i = 1; i <= end; i++) {
    const gap = times[i] - times[i - 1];
    if (gaps.length < LONGEST_GAPS || gap > gaps[gaps.length - 1]) {
      gaps.push(gap);
      gaps.sort((a, b) => b - a);
      gaps.length = Math.min(gaps.length, LONGEST_GAPS);
    }
  }
  return gaps.reduce((sum, gap) => sum + gap, 0) > (times[end] - times[0]) / 2;
}

/**
 * What is selected when a recording opens: all of it.
 * @param {Recording} recording @returns {Omit<SelectionState, 'file' | 'view'>}
 */
function initialOf(recording) {
  return {
    from: 0, to: recording.end, at: oomOfSummary(recording)?.moment ?? recording.end, device: -1, owner: -1, life: -1, search: '', frames: 'merged',
    allFrames: false, axis: recording.hasTimes && !isMostlyIdle(recording) ? 'time' : 'event',
  };
}

export class Selection {
  constructor() {
    /** @type {SelectionState} */
    this.state = {
      file: 0, from: 0, to: 0, at: 0, device: -1, owner: -1, search: '', life: -1, axis: 'time', frames: 'merged',
      allFrames: false, view: 'findings',
    };
    /** @type {Recording | null} */
    this.recording = null;
    /** @type {Partial<SelectionState>} */
    this.initial = {}; /* of the recording */
    /** @type {((changed: Set<string>) => void)[]} */
    this.listeners = [];
    /** @type {Uint8Array | null} */
    this.matching = null; /* by life; null: to be computed after the selection changed */
    /** @type {Uint8Array | null} */
    this.searched = null; /* likewise, by the search alone */
  }

  /**
   * Opens another recording. View, search and kind of frames stay.
   * @param {Recording} recording @param {number} file @param {Partial<SelectionState>} [patch] what is selected of it
   */
  open(recording, file, patch = {}) {
    const {search, frames, allFrames} = this.state;
    this.recording = recording;
    this.matching = this.searched = null;
    this.initial = initialOf(recording);
    this.set({...this.initial, search, frames, allFrames, file, ...patch});
  }

  /** @param {(changed: Set<string>) => void} listener */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  /**
   * Only different values count as changes.
   * @param {Partial<SelectionState>} patch
   */
  set(patch) {
    const {state, recording} = this;
    /** @type {Set<string>} */
    const changed = new Set();
    for (const [key, value] of Object.entries(patch)) {
      if (/** @type {any} */ (state)[key] === value)
        continue;
      /** @type {any} */ (state)[key] = value;
      changed.add(key);
    }
    if (recording && (changed.has('from') || changed.has('to'))) {
      state.from = Math.max(0, Math.min(Math.round(state.from), recording.end));
      state.to = Math.max(state.from, Math.min(Math.round(state.to), recording.end));
    }
    if (recording && changed.has('at'))
      state.at = Math.max(0, Math.min(Math.round(state.at), recording.end));
    if (changed.has('search') || changed.has('owner') || changed.has('device') || changed.has('file'))
      this.matching = null;
    if (changed.has('search'))
      this.searched = null;
    if (changed.size)
      for (const listener of this.listeners)
        listener(changed);
  }

  /**
   * Which allocations match device, owner and search: 1 by life.
   * @returns {Uint8Array}
   */
  matches() {
    if (this.matching)
      return this.matching;
    const recording = /** @type {Recording} */ (this.recording);
    const {lives} = recording;
    const {device, owner} = this.state;
    const found = new Uint8Array(lives.count);
    const searched = this.found();
    for (let i = 0; i < lives.count; i++)
      found[i] = (device < 0 || lives.device[i] === device) && (owner < 0 || lives.owner[i] === owner) && (!searched || searched[i]) ? 1 : 0;
    this.matching = found;
    return found;
  }

  /** @returns {Uint8Array | null} like matches(); null: device, owner and search exclude no allocation */
  partial() {
    const {device, owner, search} = this.state;
    return device < 0 && owner < 0 && !search ? null : this.matches();
  }

  /**
   * Which allocations the search finds: 1 by life; null: nothing is searched for. It looks, regardless of case, for a part
   * of the owner, a frame of the stack, the thread or the kind of memory; or for an address.
   * @returns {Uint8Array | null}
   */
  found() {
    const words = this.state.search.trim().toLowerCase();
    if (words && !this.searched) {
      const isFound = this.searchedBy(words);
      const count = /** @type {Recording} */ (this.recording).lives.count;
      this.searched = Uint8Array.from({length: count}, (_, life) => isFound(life) ? 1 : 0);
    }
    return words ? this.searched : null;
  }

  /** @param {string} words in lower case @returns {(life: number) => boolean} */
  searchedBy(words) {
    const recording = /** @type {Recording} */ (this.recording);
    const {lives} = recording;
    if (!words)
      return () => true;
    if (words.startsWith('0x')) {
      const address = parseInt(words, 16);
      return life => lives.address[life] <= address && address < lives.address[life] + lives.rounded[life];
    }
    const owners = recording.owners.map(owner => owner.text.toLowerCase().includes(words));
    const threads = recording.summary.threads.map((_, i) => recording.threadName(i).toLowerCase().includes(words));
    const frameCount = recording.column('frame.function').length;
    const frames = new Uint8Array(frameCount);
    for (let i = 0; i < frameCount; i++) {
      const frame = recording.frame(i);
      frames[i] = `${recording.frameText(i)} ${frame.file} ${frame.module}`.toLowerCase().includes(words) ? 1 : 0;
    }
    const stacks = Uint8Array.from({length: recording.stackCount}, (_, i) => recording.stackText(i).toLowerCase().includes(words) ? 1 : 0);
    for (let i = 0; i < recording.stackCount; i++)
      for (let k = recording.stackFirst[i]; k < recording.stackFirst[i + 1] && !stacks[i]; k++)
        stacks[i] = frames[recording.stackFrames[k]];
    return life => (lives.stack[life] >= 0 ? stacks[lives.stack[life]] === 1 : owners[lives.owner[life]]) ||
      threads[lives.thread[life]] === true ||
      (lives.what[life] >= 0 && recording.strings[lives.what[life]].toLowerCase().includes(words));
  }
}
