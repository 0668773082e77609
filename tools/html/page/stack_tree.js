/**
 * Trees of stacks: from the beginning of the program down to the owner, or from the owner out to its callers. They have the
 * same frames as `gpupool sites`, without those of allocators, interpreters and unwinders.
 */
import {NO_STACK, PART_NEVER} from './recording.js';

const PART_OWNER = 0;
const PART_LAST = 1;

const DEEPEST_CALLERS = 64;

/* The kind of a node decides its colour. */
const PYTHON = 0;
const NATIVE = 1;
const LIBRARY = 2; /* its last frame */
const FOLDED = 3;
const NO_KIND = 4;

/**
 * @typedef {{name: string, kind: number, owner: number}} Step owner: index into the recording's owners; -1: not an owner
 * @typedef {{steps: Step[], bytes: number, count: number, value: number}} Path of some allocations from the first level
 * on; value: its bytes or count, whichever the tree measures
 * @typedef {{node: TreeNode, x: number, width: number, row: number}} Box
 */

/** Makes its children on request, because most of hundreds of thousands of stacks are too narrow to be visible. */
export class TreeNode {
  /** @param {Step} step @param {TreeNode | null} parent null: it is the root */
  constructor({name, kind, owner}, parent) {
    this.name = name;
    this.kind = kind;
    this.owner = owner;
    this.parent = parent;
    /** @type {number} */
    this.depth = parent ? parent.depth + 1 : 0;
    this.bytes = 0;
    this.count = 0;
    this.value = 0;
    /** @type {Path[]} */
    this.paths = []; /* through the node */
    /** @type {TreeNode[] | null} */
    this.made = null; /* children, once made */
  }

  /** @param {Path} path */
  join(path) {
    this.bytes += path.bytes;
    this.count += path.count;
    this.value += path.value;
    this.paths.push(path);
  }

  /** @returns {TreeNode[]} largest first, in the tool's order */
  children() {
    if (this.made)
      return this.made;
    /** @type {Map<string, TreeNode>} */
    const byName = new Map();
    for (const path of this.paths) {
      const step = path.steps[this.depth];
      if (!step)
        continue;
      const child = byName.get(step.name) || new TreeNode(step, this);
      byName.set(step.name, child);
      child.join(path);
    }
    this.made = [...byName.values()].sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
    return this.made;
  }

  hasChildren() {
    return this.paths.some(path => path.steps.length > this.depth);
  }

  /** @returns {TreeNode[]} from the root down to the node */
  way() {
    return this.parent ? [...this.parent.way(), this] : [this];
  }
}

export function emptyTree() {
  return new TreeNode({name: 'all', kind: NO_KIND, owner: -1}, null);
}

/** @param {Recording} recording @param {Amounts} amounts @param {TreeOptions} options @returns {TreeNode} the root */
export function makeTree(recording, amounts, options) {
  const {byCount, callers, frames, allFrames} = options;
  const {stacks, owners, frames: {part, python}} = recording;
  const root = emptyTree();
  /** @type {Map<number, Step>} */
  const steps = new Map(); /* by frame that is no owner */

  /** @param {number} frame */
  const kindOf = frame => {
    if (part[frame] >= PART_NEVER)
      return FOLDED;
    return part[frame] === PART_LAST ? LIBRARY : python[frame] ? PYTHON : NATIVE;
  };

  /** @param {number} frame @param {boolean} isOwner */
  const isShown = (frame, isOwner) => {
    if (frames !== 'merged' && (python[frame] === 1) !== (frames === 'python') && !(isOwner && callers))
      return false;
    return allFrames || isOwner || (callers ? part[frame] === PART_OWNER : part[frame] < PART_NEVER);
  };

  /** @param {number} stack @param {number} frame */
  const ownerStep = (stack, frame) => {
    /* The owner's line has the operator. Below a function of C or C++ the picture has what it called. */
    const kind = kindOf(frame);
    return {name: callers || kind !== NATIVE ? recording.stackText(stack) : recording.frameText(frame), kind, owner: stacks.owner[stack]};
  };

  /** @param {number} frame */
  const frameStep = frame => {
    const step = steps.get(frame) || {name: recording.frameText(frame), kind: kindOf(frame), owner: -1};
    steps.set(frame, step);
    return step;
  };

  /** @param {number} stack */
  const stepsOf = stack => {
    const place = stacks.place[stack];
    const found = [];
    for (const [at, frame] of recording.framesOf(stack).entries())
      if ((!callers || allFrames || (at >= place && found.length < DEEPEST_CALLERS)) && isShown(frame, at === place))
        found.push(at === place ? ownerStep(stack, frame) : frameStep(frame));
    if (!found.length) /* no frames, or none of the language */
      return [{name: recording.stackText(stack), kind: NO_KIND, owner: stacks.owner[stack]}];
    return callers ? found : found.reverse();
  };

  const noStack = [{name: NO_STACK, kind: NO_KIND, owner: owners.findIndex(owner => owner.name === NO_STACK)}];
  amounts.counts.forEach((count, group) => {
    if (!count)
      return;
    const bytes = amounts.bytes[group];
    const ofGroup = !amounts.byStack ? [{name: owners[group].text, kind: NO_KIND, owner: group}]
      : group === stacks.count ? noStack : stepsOf(group);
    root.join({steps: ofGroup, bytes, count, value: byCount ? count : bytes});
  });
  return root;
}

/**
 * An icicle: its boxes, row by row. Boxes on the path to `zoom` have the full width; boxes narrower than `least` are left out.
 * @param {TreeNode} zoom @param {number} width pixels @param {number} least pixels @returns {Box[]}
 */
export function layoutIcicle(zoom, width, least) {
  /** @type {Box[]} */
  const boxes = zoom.way().map(node => ({node, x: 0, width, row: node.depth}));
  for (let i = boxes.length - 1; i < boxes.length; i++) {
    const {node, x, width: room, row} = boxes[i];
    let at = x;
    for (const child of node.value > 0 ? node.children() : []) {
      const part = room * child.value / node.value;
      if (part < least)
        break;
      boxes.push({node: child, x: at, width: part, row: row + 1});
      at += part;
    }
  }
  return boxes;
}

/** @param {string} words @returns {(name: string) => boolean} true: the search marks nodes of that name */
export function markedBy(words) {
  const wanted = words.trim().toLowerCase();
  return name => wanted !== '' && name.toLowerCase().includes(wanted);
}
