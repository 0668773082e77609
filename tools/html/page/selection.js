/** The user's selection, shared by all views. Views change it with set(), which calls the subscribers. */
import {oomOfSummary} from './amounts.js';

const LONGEST_GAPS = 16;

/** @param {Recording} recording @returns {boolean} a few gaps between events make up most of the time */
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

/** @param {Set<string>} changed @param {...string} names @returns {boolean} one of the names changed */
export function concerns(changed, ...names) {
  return names.some(name => changed.has(name));
}

export class Selection {
  /** @param {Recording[]} recordings */
  constructor(recordings) {
    this.recordings = recordings;
    this.recording = recordings[0];
    /** @type {Partial<SelectionState>} */
    this.initial = {}; /* of the recording */
    /** @type {SelectionState} */
    this.state = {...initialOf(recordings[0]), file: -1, view: ''};
    /** @type {((changed: Set<string>) => void)[]} */
    this.listeners = [];
    /** @type {Uint8Array | null} */
    this.matching = null; /* by life; null: to be computed after the selection changed */
    /** @type {Uint8Array | null} */
    this.searched = null; /* likewise, by the search alone */
  }

  /**
   * Opens another recording. View, search and kind of frames stay.
   * @param {number} file @param {Partial<SelectionState>} [patch] what is selected of it
   */
  open(file, patch = {}) {
    const {search, frames, allFrames} = this.state;
    this.recording = this.recordings[file];
    this.matching = this.searched = null;
    this.initial = initialOf(this.recording);
    this.set({...this.initial, search, frames, allFrames, file, ...patch});
  }

  /** Shows all of the time. */
  showAll() {
    this.set({from: 0, to: this.recording.end});
  }

  /** @param {(changed: Set<string>) => void} listener */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  /** @param {Partial<SelectionState>} patch only different values count as changes */
  set(patch) {
    const {state, recording: {end}} = this;
    /** @type {Set<string>} */
    const changed = new Set();
    for (const [key, value] of Object.entries(patch)) {
      if (/** @type {any} */ (state)[key] === value)
        continue;
      /** @type {any} */ (state)[key] = value;
      changed.add(key);
    }
    state.from = Math.max(0, Math.min(Math.round(state.from), end));
    state.to = Math.max(state.from, Math.min(Math.round(state.to), end));
    state.at = Math.max(0, Math.min(Math.round(state.at), end));
    if (concerns(changed, 'search', 'owner', 'device', 'file'))
      this.matching = null;
    if (changed.has('search'))
      this.searched = null;
    if (changed.size)
      for (const listener of this.listeners)
        listener(changed);
  }

  /** Which allocations match device, owner and search: 1 by life. */
  matches() {
    if (!this.matching) {
      const {lives} = this.recording;
      const {device, owner} = this.state;
      const searched = this.found();
      this.matching = new Uint8Array(lives.count).map((_, life) =>
        (device < 0 || lives.device[life] === device) && (owner < 0 || lives.owner[life] === owner) && (!searched || searched[life]) ? 1 : 0);
    }
    return this.matching;
  }

  /** @returns {Uint8Array | null} like matches(); null: device, owner and search exclude no allocation */
  partial() {
    const {device, owner, search} = this.state;
    return device < 0 && owner < 0 && !search ? null : this.matches();
  }

  /**
   * Which allocations the search finds: 1 by life; null: nothing is searched for. It looks, regardless of case, for a part
   * of the owner, a frame of the stack, the thread or the kind of memory; or for an address.
   */
  found() {
    const words = this.state.search.trim().toLowerCase();
    if (words && !this.searched) {
      const isFound = this.searchedBy(words);
      this.searched = new Uint8Array(this.recording.lives.count).map((_, life) => isFound(life) ? 1 : 0);
    }
    return words ? this.searched : null;
  }

  /** @param {string} words in lower case @returns {(life: number) => boolean} */
  searchedBy(words) {
    const {recording} = this;
    const {lives, stacks} = recording;
    /** @param {string} text */
    const has = text => text.toLowerCase().includes(words);
    if (words.startsWith('0x')) {
      const address = parseInt(words, 16);
      return life => lives.address[life] <= address && address < lives.address[life] + lives.rounded[life];
    }
    const owners = recording.owners.map(owner => has(owner.text));
    const threads = recording.summary.threads.map((_, i) => has(recording.threadName(i)));
    const frames = new Uint8Array(recording.frames.count).map((_, i) => {
      const {file, module} = recording.frame(i);
      return has(`${recording.frameText(i)} ${file} ${module}`) ? 1 : 0;
    });
    const stacksFound = new Uint8Array(stacks.count).map((_, i) =>
      has(recording.stackText(i)) || recording.framesOf(i).some(frame => frames[frame]) ? 1 : 0);
    return life => (lives.stack[life] >= 0 ? stacksFound[lives.stack[life]] === 1 : owners[lives.owner[life]]) ||
      threads[lives.thread[life]] === true ||
      (lives.what[life] >= 0 && has(recording.strings[lives.what[life]]));
  }
}
