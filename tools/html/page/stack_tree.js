/**
 * Trees of stacks: from where the program begins down to who asked, or from the owner out to its callers. Which frames are in
 * them is as in `gpupool sites`: what only hands memory on, interpreters and unwinders are folded away.
 */
/** @typedef {import('./recording.js').Recording} Recording */
/** @typedef {import('./amounts.js').Amounts} Amounts */
/** @typedef {import('./selection.js').FrameChoice} FrameChoice */
import {baseName} from './format.js';

/* Parts of frames, as in tools/symbols/frame_parts.h */
const PART_OWNER = 0;
const PART_LAST = 1;
const PART_NEVER = 2;

const DEEPEST_CALLERS = 64;
const WITHOUT_STACK = '(no stack recorded)';

/**
 * What a node is of: its colour.
 * @typedef {'python' | 'native' | 'library' | 'folded' | 'none'} NodeKind
 */
/** @type {NodeKind[]} */
export const NODE_KINDS = ['python', 'native', 'library', 'folded', 'none'];

/**
 * @typedef {object} TreeOptions
 * @property {boolean} callers from the owner outwards; else from the outermost frame to the owner
 * @property {FrameChoice} frames
 * @property {boolean} allFrames whole stacks as they were recorded
 */

/** The frames of a recording in the words of a tree. Made once. */
class FrameNames {
  /** @param {Recording} recording */
  constructor(recording) {
    const {columns} = recording;
    this.part = columns.get('frame.part') || new Uint8Array(0);
    this.python = columns.get('frame.python') || new Uint8Array(0);
    const count = this.part.length;
    /** @type {string[]} */
    this.texts = [];
    /** @type {string[]} */
    this.siteNames = []; /* by frame: what `sites` calls it */
    this.text = new Int32Array(count); /* by frame: place in texts */
    /** @type {Map<string, number>} */
    const places = new Map();
    for (let frame = 0; frame < count; frame++) {
      const text = recording.frameText(frame);
      let place = places.get(text);
      if (place === undefined) {
        place = this.texts.length;
        places.set(text, place);
        this.texts.push(text);
      }
      this.text[frame] = place;
      const what = recording.frame(frame);
      this.siteNames.push(what.isPython ? `${what.function} ${baseName(what.file)}` : what.function);
    }
  }

  /** @param {number} frame @returns {number} index into NODE_KINDS */
  kind(frame) {
    if (this.part[frame] >= PART_NEVER)
      return 3;
    if (this.part[frame] === PART_LAST)
      return 2;
    return this.python[frame] ? 0 : 1;
  }
}

/** @type {WeakMap<Recording, FrameNames>} */
const namesOf = new WeakMap();

/** @param {Recording} recording @returns {FrameNames} */
function frameNames(recording) {
  let names = namesOf.get(recording);
  if (!names) {
    names = new FrameNames(recording);
    namesOf.set(recording, names);
  }
  return names;
}

/**
 * Where in a stack its owner is: the innermost frame that is called so, one of the user's before a library's, of which the outermost
 * counts (doc/owners.md). -1: it has no frame, as of a script whose frames were not recorded.
 * @param {Recording} recording @param {number} stack
 */
export function ownerPlace(recording, stack) {
  const {stackFirst, stackFrames, stackOwner} = recording;
  const names = frameNames(recording);
  const owner = recording.owners[stackOwner[stack]];
  let found = -1;
  let foundPart = Infinity;
  for (let k = stackFirst[stack]; owner && k < stackFirst[stack + 1]; k++) {
    const frame = stackFrames[k];
    const part = names.part[frame];
    const isOutermost = part === foundPart && part === PART_LAST && !names.python[frame];
    if ((part < foundPart || isOutermost) && names.siteNames[frame] === owner.name) {
      found = k - stackFirst[stack];
      foundPart = part;
    }
  }
  return found;
}

/** A tree as arrays, by node. Node 0 is all of it; a node comes behind its parent. */
export class StackTree {
  /** @param {boolean} byCount */
  constructor(byCount) {
    this.byCount = byCount;
    /** @type {string[]} */
    this.texts = [];
    /** @type {number[]} */
    this.text = []; /* place in texts */
    /** @type {number[]} */
    this.parent = [];
    /** @type {number[]} */
    this.depth = [];
    /** @type {number[]} */
    this.kind = []; /* place in NODE_KINDS */
    /** @type {number[]} */
    this.owner = []; /* of nodes that are owners: index into the recording's; else -1 */
    /** @type {number[]} */
    this.bytes = [];
    /** @type {number[]} */
    this.counts = [];
    /** @type {number[]} */
    this.firstChild = [];
    /** @type {number[]} */
    this.nextSibling = [];
    /** @type {Map<number, number[]>} */
    this.sorted = new Map();
    /** @type {Map<number, number>} */
    this.places = new Map(); /* of parent and text: node */
    /** @type {Map<string, number>} */
    this.textPlaces = new Map();
    this.add(-1, this.textOf('all'), 4, -1);
  }

  /** @param {string} text @returns {number} */
  textOf(text) {
    let place = this.textPlaces.get(text);
    if (place === undefined) {
      place = this.texts.length;
      this.texts.push(text);
      this.textPlaces.set(text, place);
    }
    return place;
  }

  get count() {
    return this.parent.length;
  }

  /** @param {number} parent @param {number} text @param {number} kind @param {number} owner @returns {number} the node, made if there is none */
  add(parent, text, kind, owner) {
    const key = (parent + 1) * 0x1000000 + text;
    let node = this.places.get(key);
    if (node !== undefined)
      return node;
    node = this.parent.length;
    this.places.set(key, node);
    this.text.push(text);
    this.parent.push(parent);
    this.depth.push(parent < 0 ? 0 : this.depth[parent] + 1);
    this.kind.push(kind);
    this.owner.push(owner);
    this.bytes.push(0);
    this.counts.push(0);
    this.firstChild.push(-1);
    this.nextSibling.push(parent < 0 ? -1 : this.firstChild[parent]);
    if (parent >= 0)
      this.firstChild[parent] = node;
    return node;
  }

  /** @param {number} node @returns {string} */
  name(node) {
    return this.texts[this.text[node]];
  }

  /**
   * What it is measured by.
   * @param {number} node @returns {number}
   */
  value(node) {
    return this.byCount ? this.counts[node] : this.bytes[node];
  }

  /** @param {number} node @returns {number[]} the largest first, as the tool sorts them */
  children(node) {
    let list = this.sorted.get(node);
    if (!list) {
      list = [];
      for (let child = this.firstChild[node]; child >= 0; child = this.nextSibling[child])
        list.push(child);
      list.sort((a, b) => this.value(b) - this.value(a) || (this.name(a) < this.name(b) ? -1 : 1));
      this.sorted.set(node, list);
    }
    return list;
  }

  /** @param {number} node @returns {number[]} from all of it down to the node */
  path(node) {
    const path = [];
    for (let at = node; at >= 0; at = this.parent[at])
      path.unshift(at);
    return path;
  }

  /** @param {number} node @param {number} bytes @param {number} count */
  addAmount(node, bytes, count) {
    for (let at = node; at >= 0; at = this.parent[at]) {
      this.bytes[at] += bytes;
      this.counts[at] += count;
    }
  }
}

/**
 * The frames of a stack that a tree has, in its order: their places in the stack.
 * @param {Recording} recording @param {number} stack @param {TreeOptions} options @param {number} owner place
 */
function chosenFrames(recording, stack, options, owner) {
  const {stackFirst, stackFrames} = recording;
  const names = frameNames(recording);
  const first = stackFirst[stack];
  const count = stackFirst[stack + 1] - first;
  /** @type {number[]} */
  const chosen = [];
  const begin = options.callers && !options.allFrames ? owner : 0;
  for (let place = Math.max(begin, 0); place < count; place++) {
    const frame = stackFrames[first + place];
    const isPython = names.python[frame] === 1;
    if (options.frames !== 'merged' && isPython !== (options.frames === 'python') && (place !== owner || !options.callers))
      continue;
    if (!options.allFrames && place !== owner && (options.callers ? names.part[frame] !== PART_OWNER : names.part[frame] >= PART_NEVER))
      continue;
    if (options.callers && chosen.length >= DEEPEST_CALLERS && !options.allFrames)
      break;
    chosen.push(place);
  }
  return options.callers ? chosen : chosen.reverse();
}

/** @param {Recording} recording @param {Amounts} amounts @param {boolean} byCount @param {TreeOptions} options @returns {StackTree} */
export function makeTree(recording, amounts, byCount, options) {
  const tree = new StackTree(byCount);
  const {stackFirst, stackFrames, stackOwner} = recording;
  const names = frameNames(recording);
  const texts = names.texts.map(text => tree.textOf(text));
  for (let group = 0; group < amounts.counts.length; group++) {
    if (!amounts.counts[group])
      continue;
    let node = 0;
    if (!amounts.byStack || group === recording.stackCount) {
      const name = amounts.byStack ? WITHOUT_STACK : recording.owners[group].text;
      const owner = amounts.byStack ? recording.owners.findIndex(one => one.name === WITHOUT_STACK) : group;
      node = tree.add(node, tree.textOf(name), 4, owner);
    } else {
      const place = ownerPlace(recording, group);
      if (place < 0 && options.callers) /* a script: its owner stands for all frames */
        node = tree.add(node, tree.textOf(recording.owners[stackOwner[group]].text), 0, stackOwner[group]);
      for (const at of place < 0 && options.callers && !options.allFrames ? [] : chosenFrames(recording, group, options, place)) {
        const frame = stackFrames[stackFirst[group] + at];
        node = tree.add(node, texts[names.text[frame]], names.kind(frame), at === place ? stackOwner[group] : -1);
      }
      if (node === 0 || (place < 0 && !options.callers && !options.allFrames))
        node = tree.add(node, tree.textOf((recording.owners[stackOwner[group]] || {text: '(empty stack)'}).text), 0, stackOwner[group]);
    }
    tree.addAmount(node, amounts.bytes[group], amounts.counts[group]);
  }
  return tree;
}

/**
 * An icicle: its boxes, row by row. Those of the way to `zoom` are as wide as all of it; what is narrower than `least` is left out.
 * @typedef {{node: number, x: number, width: number, row: number}} Box
 * @param {StackTree} tree @param {number} zoom @param {number} width pixels @param {number} least pixels @returns {Box[]}
 */
export function layoutIcicle(tree, zoom, width, least) {
  /** @type {Box[]} */
  const boxes = tree.path(zoom).map(node => ({node, x: 0, width, row: tree.depth[node]}));
  for (let i = boxes.length - 1; i < boxes.length; i++) {
    const {node, x, width: room, row} = boxes[i];
    const value = tree.value(node);
    let at = x;
    for (const child of value > 0 ? tree.children(node) : []) {
      const part = room * tree.value(child) / value;
      if (part < least)
        break;
      boxes.push({node: child, x: at, width: part, row: row + 1});
      at += part;
    }
  }
  return boxes;
}

/**
 * What of a tree a search finds: 1 by node; and its sum, each stack once.
 * @param {StackTree} tree @param {string} words
 */
export function searchTree(tree, words) {
  const wanted = words.trim().toLowerCase();
  const found = new Uint8Array(tree.count);
  const inside = new Uint8Array(tree.count);
  const hits = tree.texts.map(text => wanted !== '' && text.toLowerCase().includes(wanted));
  let value = 0;
  for (let node = 1; node < tree.count; node++) {
    found[node] = hits[tree.text[node]] ? 1 : 0;
    inside[node] = found[node] || inside[tree.parent[node]];
    if (found[node] && !inside[tree.parent[node]])
      value += tree.value(node);
  }
  return {found, value};
}
