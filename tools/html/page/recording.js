/**
 * One snapshot: its lives, segments, marks and stacks as arrays, and what all views ask of them.
 *
 * A moment is a place between events: moment m is after the first m events of the page, 0 is before all of
 * them, `end` is the last. What never ends has end + 1.
 */
import {baseName, formatBytes, formatCount, formatDuration} from './format.js';

export const POOLED = 0;
export const FORWARDED = 1;
export const HOST = 2;
const TEMPORARY = 1;
const HELD = 2;

export const NO_STACK = '(no stack recorded)';
const FRAME_NEVER = 2; /* frames from this part on own no memory */

/**
 * @typedef {object} Lives one entry for each allocation, sorted by begin
 * @property {number} count
 * @property {Uint8Array} device
 * @property {Uint8Array} kind POOLED, FORWARDED or HOST
 * @property {Uint8Array} flags
 * @property {Uint32Array} begin
 * @property {Uint32Array} freed by the program
 * @property {Uint32Array} done when the device was done with it
 * @property {Int32Array} stack -1: none; also the next two
 * @property {Int32Array} stream
 * @property {Int32Array} thread
 * @property {Float64Array} address
 * @property {Float64Array} requested bytes
 * @property {Float64Array} rounded bytes
 * @property {Float64Array} block
 * @property {Int32Array} what a string, for memory outside the pool
 * @property {Int32Array} owner index into owners
 */

/**
 * @typedef {Record<string, any> & {devices: any[], threads: any[]}} Summary as of `gpupool summary --json`
 * @typedef {{name: string, text: string}} Owner
 * @typedef {{moment: number, kind: string, device: number, size: number, detail: string}} Mark
 * @typedef {{begin: number, end: number, depth: number, name: string, color: number}} Phase moments; color: equal for equal names
 * @typedef {{function: string, file: string, line: number, module: string, isPython: boolean, isFolded: boolean}} Frame
 * @typedef {{count: number, device: Uint8Array, address: Float64Array, size: Float64Array, begin: Uint32Array, end: Uint32Array, expandable: Uint8Array}} Segments
 * @typedef {{count: number, moment: Uint32Array, device: Uint8Array, requested: Float64Array, allocated: Float64Array, pending: Float64Array}} Rest
 */

/** Without stacks so many sizes are owners of their own; the others share one. */
const OWNERS_BY_SIZE = 4000;

export class Recording {
  /** @param {FileData} data */
  constructor(data) {
    const {header, columns} = data;
    this.columns = columns;
    this.name = /** @type {string} */ (header.name);
    this.summary = /** @type {Summary} */ (header.summary);
    this.end = /** @type {number} */ (header.end);
    this.eventCount = /** @type {number} */ (header.event_count);
    this.hasHistory = /** @type {boolean} */ (header.has_history);
    this.hasTimes = /** @type {boolean} */ (header.has_times);
    this.range = header.range;
    this.leftOut = /** @type {{count: number, largest: number}} */ (header.left_out);
    this.strings = /** @type {string[]} */ (header.strings);
    this.times = /** @type {Float64Array} */ (this.column('moment.time'));
    this.events = /** @type {Float64Array | null} */ (columns.get('moment.event') || null);
    /** @type {Lives} */
    this.lives = this.arrays('life', ['begin', 'device', 'kind', 'flags', 'freed', 'done', 'stack', 'stream', 'thread', 'address', 'requested',
      'rounded', 'block', 'what']);
    this.lives.owner = new Int32Array(this.lives.count);
    /** @type {Segments} */
    this.segments = this.arrays('segment', ['begin', 'end', 'device', 'address', 'size', 'expandable']);
    this.stackFirst = /** @type {Uint32Array} */ (this.column('stack.first'));
    this.stackFrames = /** @type {Uint32Array} */ (this.column('stack.frames'));
    this.stackOwner = /** @type {Int32Array} */ (this.column('stack.owner'));
    this.stackPlace = /** @type {Int32Array} */ (this.column('stack.place')); /* of the owner's frame, -1: an empty stack */
    this.stackTexts = /** @type {Uint32Array} */ (this.column('stack.text'));
    this.stackCount = this.stackOwner.length;
    /** @type {Rest} */
    this.rest = this.arrays('rest', ['moment', 'device', 'requested', 'allocated', 'pending']);
    this.marks = this.readMarks();
    this.phases = this.readPhases();
    /** @type {Owner[]} */
    this.owners = header.owners.slice();
    this.hasStacks = this.lives.stack.some(stack => stack >= 0);
    if (this.hasStacks)
      this.findOwnersByStack();
    else
      this.findOwnersBySize();
    /** @type {number[]} */
    this.devices = this.findDevices();
    /** @type {Int32Array | null} */
    this.lifeAtEvent = null;
  }

  /** @param {string} name @returns {import('./payload.js').Numbers} empty if the page does not have it */
  column(name) {
    return this.columns.get(name) || new Float64Array(0);
  }

  /** @param {string} table @param {string[]} names of its columns @returns {any} an array for each, and their length as `count` */
  arrays(table, names) {
    const columns = names.map(name => this.column(`${table}.${name}`));
    return {count: columns[0].length, ...Object.fromEntries(names.map((name, i) => [name, columns[i]]))};
  }

  /** @returns {string} text after a figure that only covers allocations in the page; "" if it has all */
  leftOutText() {
    return this.leftOut.count ? `, without ${formatCount(this.leftOut.count)} small ones that are not in this page` : '';
  }

  /**
   * False: what the driver had supplied then is not known.
   * @param {number} device -1: all
   * @param {number} moment
   * @returns {boolean}
   */
  knowsReserved(device, moment) {
    return moment === this.end || !this.summary.devices.some(each =>
      (device < 0 || each.device === device) && each.stats.reserved_bytes.peak === null);
  }

  /** @returns {Mark[]} */
  readMarks() {
    const {count, moment, kind, device, size, detail} = this.arrays('mark', ['moment', 'kind', 'device', 'size', 'detail']);
    /** @type {Mark[]} */
    const marks = Array.from({length: count}, (_, i) =>
      ({moment: moment[i], kind: this.strings[kind[i]], device: device[i], size: size[i], detail: this.strings[detail[i]]}));
    return marks.sort((a, b) => a.moment - b.moment);
  }

  /** @returns {Phase[]} by begin, the outer ones first */
  readPhases() {
    const {count, begin, end, depth, name} = this.arrays('phase', ['begin', 'end', 'depth', 'name']);
    /** @type {Map<string, number>} */
    const colors = new Map();
    /** @type {Phase[]} */
    const phases = Array.from({length: count}, (_, i) => ({begin: begin[i], end: end[i], depth: depth[i], name: this.strings[name[i]], color: 0}));
    phases.sort((a, b) => a.begin - b.begin || a.depth - b.depth);
    for (const phase of phases) {
      phase.color = colors.get(phase.name) ?? colors.size;
      colors.set(phase.name, phase.color);
    }
    return phases;
  }

  findOwnersByStack() {
    const {lives, owners} = this;
    const none = owners.length;
    owners.push({name: NO_STACK, text: NO_STACK});
    for (let i = 0; i < lives.count; i++) {
      const owner = lives.stack[i] >= 0 ? this.stackOwner[lives.stack[i]] : none;
      lives.owner[i] = owner >= 0 ? owner : none;
    }
  }

  /** Without stacks nothing tells who asked, so owners are sizes, like sites. */
  findOwnersBySize() {
    const {lives} = this;
    /** @type {Map<number, number>} */
    const sizes = new Map();
    this.owners = [];
    for (let i = 0; i < lives.count; i++) {
      let owner = sizes.get(lives.requested[i]);
      if (owner === undefined) {
        const isOther = sizes.size >= OWNERS_BY_SIZE;
        owner = isOther ? OWNERS_BY_SIZE : sizes.size;
        const name = isOther ? 'other sizes' : formatBytes(lives.requested[i]);
        if (!this.owners[owner])
          this.owners[owner] = {name, text: isOther ? name : `allocations of ${name}`};
        sizes.set(lives.requested[i], owner);
      }
      lives.owner[i] = owner;
    }
  }

  findDevices() {
    const seen = new Set(this.summary.devices.map(device => device.device));
    for (const device of this.lives.device)
      seen.add(device);
    return [...seen].sort((a, b) => a - b);
  }

  /** @param {number} moment @returns {number} nanoseconds; without times: the number of events before it */
  timeOf(moment) {
    const at = Math.max(0, Math.min(moment, this.end));
    return this.hasTimes ? this.times[at] : this.eventOf(at) + 1;
  }

  /** @param {number} moment @returns {number} the event before it, -1: none */
  eventOf(moment) {
    return this.events ? this.events[Math.min(moment, this.end)] : Math.min(moment, this.end) - 1;
  }

  /** @param {number} moment @returns {string} "24.3 ms, event 1234" */
  momentText(moment) {
    const event = this.eventOf(moment);
    if (moment > this.end)
      return 'never';
    if (event < 0)
      return 'before the first event';
    const number = `event ${formatCount(event)}`;
    return this.hasTimes ? `${formatDuration(this.times[moment])}, ${number}` : number;
  }

  /** @param {number} life @returns {boolean} freed before anything else was allocated on the device */
  isTemporary(life) {
    return (this.lives.flags[life] & TEMPORARY) !== 0;
  }

  /** @param {number} life @returns {boolean} held by the program at the end */
  isHeld(life) {
    return (this.lives.flags[life] & HELD) !== 0;
  }

  /** @param {number} life @returns {string} its line of the owner, with the operator: "step train.py:41 (aten::add)" */
  ownerName(life) {
    const stack = this.lives.stack[life];
    return stack >= 0 ? this.stackText(stack) : this.owners[this.lives.owner[life]].text;
  }

  /** @param {number} stack @returns {string} */
  stackText(stack) {
    return this.strings[this.stackTexts[stack]];
  }

  /** @param {number} frame @returns {Frame} */
  frame(frame) {
    const {strings} = this;
    /** @param {string} name */
    const value = name => this.column(name)[frame];
    const module = value('frame.module');
    return {
      function: strings[value('frame.function')],
      file: strings[value('frame.file')],
      line: value('frame.line'),
      module: module >= 0 ? strings[module] : '',
      isPython: value('frame.python') === 1,
      isFolded: value('frame.part') >= FRAME_NEVER,
    };
  }

  /** @param {number} frame @returns {string} "function file:line" */
  frameText(frame) {
    const what = this.frame(frame);
    const place = what.file ? ` ${baseName(what.file)}${what.line ? ':' + what.line : ''}` : '';
    return what.function + place;
  }

  /** @param {number} stack @returns {number[]} frames, innermost first */
  framesOf(stack) {
    if (stack < 0)
      return [];
    return [...this.stackFrames.subarray(this.stackFirst[stack], this.stackFirst[stack + 1])];
  }

  /** @param {number} index @returns {string} */
  streamName(index) {
    const stream = this.summary.streams[index];
    if (!stream)
      return index < 0 ? 'not known' : String(index);
    return stream.handle !== undefined ? String(stream.handle) : String(index);
  }

  /** @param {number} index @returns {string} */
  threadName(index) {
    const thread = this.summary.threads[index];
    return thread ? `${thread.name || 'thread'} (${thread.tid})` : 'not known';
  }

  /**
   * What the event before each moment concerned: the life that began, was freed or was done. -1: no life.
   * @returns {Int32Array}
   */
  eventsByMoment() {
    if (!this.lifeAtEvent) {
      const {lives} = this;
      this.lifeAtEvent = new Int32Array(this.end + 2).fill(-1);
      for (const moments of [lives.done, lives.freed, lives.begin]) /* later ones win */
        for (let i = lives.count - 1; i >= 0; i--)
          this.lifeAtEvent[moments[i]] = i;
      this.lifeAtEvent[0] = -1;
      this.lifeAtEvent[this.end + 1] = -1;
    }
    return this.lifeAtEvent;
  }
}
