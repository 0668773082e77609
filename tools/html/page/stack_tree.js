/**
 * Trees of stacks: from the beginning of the program down to the owner, or from the owner out to its
 * callers. They have the same frames as `gpupool sites`: frames that only pass memory on, interpreters and
 * unwinders are folded away.
 */
/** @typedef {import('./recording.js').Recording} Recording */
/** @typedef {import('./amounts.js').Amounts} Amounts */
/** @typedef {import('./selection.js').FrameChoice} FrameChoice */
import {NO_STACK} from './recording.js';

/* Parts of frames, as in tools/symbols/frame_parts.h */
const PART_OWNER = 0;
const PART_LAST = 1;
const PART_NEVER = 2;

const DEEPEST_CALLERS = 64;

/* The kind of a node decides its colour: 0 Python, 1 C and C++, 2 a library's last frame, 3 folded by default, 4 none. */
const FOLDED = 3;
const LIBRARY = 2;
const NATIVE = 1;
const PYTHON = 0;
const NO_KIND = 4;

/**
 * @typedef {object} TreeOptions
 * @property {boolean} callers from the owner outwards; else from the outermost frame to the owner
 * @property {FrameChoice} frames
 * @property {boolean} allFrames whole stacks as recorded
 */

/** Texts, each once. */
class Texts {
  constructor() {
    /** @type {string[]} */
    this.texts = [];
    /** @type {Map<string, number>} */
    this.places = new Map();
  }

  /** @param {string} text @returns {number} its place in texts */
  textOf(text) {
    let place = this.places.get(text);
    if (place === undefined) {
      place = this.texts.push(text) - 1;
      this.places.set(text, place);
    }
    return place;
  }
}

/** The names of a recording's frames in trees. Made once. */
class FrameNames extends Texts {
  /** @param {Recording} recording */
  constructor(recording) {
    super();
    const {columns} = recording;
    this.part = columns.get('frame.part') || new Uint8Array(0);
    this.python = columns.get('frame.python') || new Uint8Array(0);
    this.text = Int32Array.from(this.part, (_, frame) => this.textOf(recording.frameText(frame))); /* by frame */
  }

  /** @param {number} frame @returns {number} */
  kind(frame) {
    if (this.part[frame] >= PART_NEVER)
      return FOLDED;
    if (this.part[frame] === PART_LAST)
      return LIBRARY;
    return this.python[frame] ? PYTHON : NATIVE;
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

/** The path of each group of allocations through a tree: texts, from the first level on. */
class Paths extends Texts {
  constructor() {
    super();
    this.texts.push('all'); /* the root, which no frame of that name is */
    /** @type {number[]} */
    this.first = [0]; /* by path: index of its first step; one more entry */
    /** @type {number[]} */
    this.text = []; /* by step: index into texts */
    /** @type {number[]} */
    this.kind = []; /* by step: its kind */
    /** @type {number[]} */
    this.owner = []; /* by step: index into the recording's owners; -1: not an owner */
    /** @type {number[]} */
    this.bytes = []; /* by path */
    /** @type {number[]} */
    this.counts = [];
  }

  /**
   * @param {number} text
   * @param {number} kind
   * @param {number} owner
   */
  step(text, kind, owner) {
    this.text.push(text);
    this.kind.push(kind);
    this.owner.push(owner);
  }

  /**
   * @param {number} bytes
   * @param {number} count
   */
  end(bytes, count) {
    this.first.push(this.text.length);
    this.bytes.push(bytes);
    this.counts.push(count);
  }
}

/**
 * A tree as arrays, by node. Node 0 is the root. Makes children on request, because it separates paths of
 * hundreds of thousands of stacks only where they are wide enough to be visible.
 */
export class StackTree {
  /**
   * @param {Paths} paths
   * @param {boolean} byCount
   */
  constructor(paths, byCount) {
    this.paths = paths;
    this.byCount = byCount;
    /** @type {number[]} */
    this.text = []; /* index into the texts of paths */
    /** @type {number[]} */
    this.parent = [];
    /** @type {number[]} */
    this.depth = [];
    /** @type {number[]} */
    this.kind = []; /* its kind */
    /** @type {number[]} */
    this.owner = []; /* index into the recording's owners; -1: not an owner */
    /** @type {number[]} */
    this.bytes = [];
    /** @type {number[]} */
    this.counts = [];
    /** @type {number[][]} */
    this.members = []; /* the paths through the node */
    /** @type {(number[] | undefined)[]} */
    this.known = []; /* children, once made */
    this.add(-1, 0, NO_KIND, -1);
    for (let path = 0; path < paths.counts.length; path++)
      this.join(0, path);
  }

  /**
   * @param {number} parent
   * @param {number} text
   * @param {number} kind
   * @param {number} owner
   * @returns {number}
   */
  add(parent, text, kind, owner) {
    this.text.push(text);
    this.parent.push(parent);
    this.depth.push(parent < 0 ? 0 : this.depth[parent] + 1);
    this.kind.push(kind);
    this.owner.push(owner);
    this.bytes.push(0);
    this.counts.push(0);
    this.members.push([]);
    return this.parent.length - 1;
  }

  /**
   * @param {number} node
   * @param {number} path
   */
  join(node, path) {
    this.bytes[node] += this.paths.bytes[path];
    this.counts[node] += this.paths.counts[path];
    this.members[node].push(path);
  }

  /**
   * @param {number} node
   * @returns {string}
   */
  name(node) {
    return this.paths.texts[this.text[node]];
  }

  /**
   * The node's bytes or count, whichever the tree measures.
   * @param {number} node
   * @returns {number}
   */
  value(node) {
    return this.byCount ? this.counts[node] : this.bytes[node];
  }

  /**
   * @param {number} node
   * @returns {number[]} largest first, in the tool's order
   */
  children(node) {
    const known = this.known[node];
    if (known)
      return known;
    const {paths} = this;
    /** @type {Map<number, number>} */
    const byText = new Map();
    for (const path of this.members[node]) {
      const step = paths.first[path] + this.depth[node];
      if (step >= paths.first[path + 1])
        continue;
      let child = byText.get(paths.text[step]);
      if (child === undefined) {
        child = this.add(node, paths.text[step], paths.kind[step], paths.owner[step]);
        byText.set(paths.text[step], child);
      }
      this.join(child, path);
    }
    const made = [...byText.values()].sort((a, b) => this.value(b) - this.value(a) || (this.name(a) < this.name(b) ? -1 : 1));
    this.known[node] = made;
    return made;
  }

  /**
   * @param {number} node
   * @returns {boolean}
   */
  hasChildren(node) {
    const {first} = this.paths;
    return this.members[node].some(path => first[path] + this.depth[node] < first[path + 1]);
  }

  /**
   * @param {number} node
   * @returns {number[]} from the root down to the node
   */
  way(node) {
    const way = [];
    for (let at = node; at >= 0; at = this.parent[at])
      way.unshift(at);
    return way;
  }
}

export const EMPTY_TREE = new StackTree(new Paths(), false);

/**
 * True if a tree shows the frame.
 * @param {FrameNames} names
 * @param {TreeOptions} options
 * @param {number} frame
 * @param {boolean} isOwner
 */
function isShown(names, options, frame, isOwner) {
  if (options.frames !== 'merged' && (names.python[frame] === 1) !== (options.frames === 'python') && !(isOwner && options.callers))
    return false;
  if (options.allFrames || isOwner)
    return true;
  return options.callers ? names.part[frame] === PART_OWNER : names.part[frame] < PART_NEVER;
}

/**
 * @param {Recording} recording
 * @param {Amounts} amounts
 * @param {boolean} byCount
 * @param {TreeOptions} options
 * @returns {StackTree}
 */
export function makeTree(recording, amounts, byCount, options) {
  const paths = new Paths();
  const {stackFirst, stackFrames, stackOwner, stackPlace, owners} = recording;
  const names = frameNames(recording);
  const texts = names.texts.map(text => paths.textOf(text));
  const without = owners.findIndex(owner => owner.name === NO_STACK);
  const isWhole = options.allFrames;

  /** @param {number} stack */
  const addStack = stack => {
    const first = stackFirst[stack];
    const count = stackFirst[stack + 1] - first;
    const place = stackPlace[stack];
    const before = paths.text.length;
    /** @param {number} at */
    const step = at => {
      const frame = stackFrames[first + at];
      const isOwner = at === place;
      if (!isShown(names, options, frame, isOwner))
        return;
      /* The owner's line has the operator. Below a function of C or C++ the picture has what it called. */
      const hasLine = isOwner && (options.callers || names.kind(frame) !== NATIVE);
      paths.step(hasLine ? paths.textOf(recording.stackText(stack)) : texts[names.text[frame]], names.kind(frame), isOwner ? stackOwner[stack] : -1);
    };
    if (options.callers)
      for (let at = isWhole ? 0 : Math.max(0, place); at < count && (isWhole || paths.text.length - before < DEEPEST_CALLERS); at++)
        step(at);
    else
      for (let at = count - 1; at >= 0; at--)
        step(at);
    if (paths.text.length === before) /* no frames, or none of the language */
      paths.step(paths.textOf(recording.stackText(stack)), NO_KIND, stackOwner[stack]);
  };
  for (let group = 0; group < amounts.counts.length; group++) {
    if (!amounts.counts[group])
      continue;
    if (!amounts.byStack)
      paths.step(paths.textOf(owners[group].text), NO_KIND, group);
    else if (group === recording.stackCount)
      paths.step(paths.textOf(NO_STACK), NO_KIND, without);
    else
      addStack(group);
    paths.end(amounts.bytes[group], amounts.counts[group]);
  }
  return new StackTree(paths, byCount);
}

/**
 * An icicle: its boxes, row by row. Boxes on the path to `zoom` have the full width; boxes narrower than
 * `least` are left out.
 * @typedef {{node: number, x: number, width: number, row: number}} Box
 * @param {StackTree} tree @param {number} zoom @param {number} width pixels @param {number} least pixels @returns {Box[]}
 */
export function layoutIcicle(tree, zoom, width, least) {
  /** @type {Box[]} */
  const boxes = tree.way(zoom).map(node => ({node, x: 0, width, row: tree.depth[node]}));
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
 * Which rows of a tree a search marks: 1 by index into its texts.
 * @param {StackTree} tree
 * @param {string} words
 */
export function searchTree(tree, words) {
  const wanted = words.trim().toLowerCase();
  return Uint8Array.from(tree.paths.texts, (text, place) => wanted !== '' && place > 0 && text.toLowerCase().includes(wanted) ? 1 : 0);
}
