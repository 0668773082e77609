/**
 * One snapshot, as arrays. A moment is a place between events: moment m is after the first m events of the page, `end` is the
 * last. What never ends has end + 1.
 */
import {baseName, formatBytes, formatCount, formatDuration} from './format.js';

export const POOLED = 0;
export const FORWARDED = 1;
export const HOST = 2;
const TEMPORARY = 1;
const HELD = 2;

export const NO_STACK = '(no stack recorded)';
export const PART_NEVER = 2; /* frames from this part (tools/symbols/frame_parts.h) on own no memory */

const OWNERS_BY_SIZE = 4000; /* sizes that are owners of their own; the others share one */

export class Recording {
  /** @param {FileData} data */
  constructor({header, columns}) {
    this.columns = columns;
    this.name = header.name;
    this.summary = header.summary;
    this.end = header.end;
    this.eventCount = header.event_count;
    this.hasHistory = header.has_history;
    this.hasTimes = header.has_times;
    this.range = header.range;
    this.leftOut = header.left_out;
    this.strings = header.strings;
    this.times = this.column('moment.time');
    this.events = columns.get('moment.event');
    /** @type {Lives} */
    this.lives = this.arrays('life', ['begin', 'device', 'kind', 'flags', 'freed', 'done', 'stack', 'stream', 'thread', 'address', 'requested',
      'rounded', 'block', 'what']);
    this.lives.owner = new Int32Array(this.lives.count);
    /** @type {Segments} */
    this.segments = this.arrays('segment', ['begin', 'end', 'device', 'address', 'size', 'expandable']);
    /** @type {Stacks} */
    this.stacks = this.arrays('stack', ['owner', 'first', 'frames', 'place', 'text']);
    /** @type {Frames} */
    this.frames = this.arrays('frame', ['function', 'file', 'line', 'module', 'python', 'part']);
    /** @type {Rest} */
    this.rest = this.arrays('rest', ['moment', 'device', 'requested', 'allocated', 'pending']);
    this.marks = this.readMarks();
    this.ooms = this.marks.filter(mark => mark.kind === 'oom');
    this.phases = this.readPhases();
    this.owners = header.owners.slice();
    this.hasStacks = this.lives.stack.some(stack => stack >= 0);
    if (this.hasStacks)
      this.findOwnersByStack();
    else
      this.findOwnersBySize();
    /** @type {number[]} */
    this.devices = [...new Set([...this.summary.devices.map(each => each.device), ...new Set(this.lives.device)])].sort((a, b) => a - b);
    /** @type {Int32Array | null} */
    this.lifeAtEvent = null;
  }

  /** @param {string} name @returns {Numbers} empty if the page does not have it */
  column(name) {
    return this.columns.get(name) || new Float64Array(0);
  }

  /** @param {string} table @param {string[]} names of its columns @returns {any} an array for each, and the first one's length as `count` */
  arrays(table, names) {
    const columns = names.map(name => this.column(`${table}.${name}`));
    return {count: columns[0].length, ...Object.fromEntries(names.map((name, i) => [name, columns[i]]))};
  }

  /** @returns {string} text after a figure that only covers allocations in the page; "" if it has all */
  leftOutText() {
    return this.leftOut.count ? `, without ${formatCount(this.leftOut.count)} small ones that are not in this page` : '';
  }

  /** @param {number} device -1: all @param {number} moment @returns {boolean} it is known what the driver had supplied then */
  knowsReserved(device, moment) {
    return moment === this.end || !this.summary.devices.some(each =>
      (device < 0 || each.device === device) && each.stats.reserved_bytes.peak === null);
  }

  readMarks() {
    const {moment, kind, device, size, detail} = this.arrays('mark', ['moment', 'kind', 'device', 'size', 'detail']);
    /** @type {Mark[]} */
    const marks = Array.from(moment, (at, i) =>
      ({moment: at, kind: this.strings[kind[i]], device: device[i], size: size[i], detail: this.strings[detail[i]]}));
    return marks.sort((a, b) => a.moment - b.moment);
  }

  /** @returns {Phase[]} by begin, the outer ones first */
  readPhases() {
    const {begin, end, depth, name} = this.arrays('phase', ['begin', 'end', 'depth', 'name']);
    /** @type {Map<string, number>} */
    const colors = new Map();
    /** @type {Phase[]} */
    const phases = Array.from(begin, (from, i) => ({begin: from, end: end[i], depth: depth[i], name: this.strings[name[i]], color: 0}));
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
      const owner = lives.stack[i] >= 0 ? this.stacks.owner[lives.stack[i]] : none;
      lives.owner[i] = owner >= 0 ? owner : none;
    }
  }

  /** Without stacks the owners are sizes. */
  findOwnersBySize() {
    const {lives} = this;
    /** @type {Map<number, number>} */
    const sizes = new Map();
    this.owners = [];
    for (let i = 0; i < lives.count; i++) {
      let owner = sizes.get(lives.requested[i]);
      if (owner === undefined) {
        owner = Math.min(sizes.size, OWNERS_BY_SIZE);
        const name = formatBytes(lives.requested[i]);
        this.owners[owner] = owner < OWNERS_BY_SIZE ? {name, text: `allocations of ${name}`} : {name: 'other sizes', text: 'other sizes'};
        sizes.set(lives.requested[i], owner);
      }
      lives.owner[i] = owner;
    }
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

  /** @param {number} stack */
  stackText(stack) {
    return this.strings[this.stacks.text[stack]];
  }

  /** @param {number} frame */
  frame(frame) {
    const {strings, frames} = this;
    const module = frames.module[frame];
    return {
      function: strings[frames.function[frame]],
      file: strings[frames.file[frame]],
      line: frames.line[frame],
      module: module >= 0 ? strings[module] : '',
      isPython: frames.python[frame] === 1,
      isFolded: frames.part[frame] >= PART_NEVER,
    };
  }

  /** @param {number} frame @returns {string} "function file:line" */
  frameText(frame) {
    const {function: name, file, line} = this.frame(frame);
    return file ? `${name} ${baseName(file)}${line ? ':' + line : ''}` : name;
  }

  /** @param {number} stack @returns {Uint32Array} innermost first */
  framesOf(stack) {
    const {first, frames} = this.stacks;
    return frames.subarray(first[stack], first[stack + 1]);
  }

  /** @param {number} index */
  streamName(index) {
    return index < 0 ? 'not known' : String(this.summary.streams[index]?.handle ?? index);
  }

  /** @param {number} index */
  threadName(index) {
    const thread = this.summary.threads[index];
    return thread ? `${thread.name || 'thread'} (${thread.tid})` : 'not known';
  }

  /** By moment, the life that the event before it began, freed or completed; -1: no life. */
  eventsByMoment() {
    if (!this.lifeAtEvent) {
      const {lives} = this;
      this.lifeAtEvent = new Int32Array(this.end + 2).fill(-1);
      for (const moments of [lives.done, lives.freed, lives.begin]) /* the last one wins */
        for (let i = lives.count - 1; i >= 0; i--)
          this.lifeAtEvent[moments[i]] = i;
      this.lifeAtEvent[0] = -1;
      this.lifeAtEvent[this.end + 1] = -1;
    }
    return this.lifeAtEvent;
  }
}
