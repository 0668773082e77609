/**
 * Who asked for the memory, as a picture of stacks and as a tree of owners and their callers: by memory
 * held at a moment, by all requests, by number of allocations.
 */
/** @typedef {import('../main.js').Context} Context */
/** @typedef {import('../amounts.js').MeasureId} MeasureId */
/** @typedef {import('../stack_tree.js').Box} Box */
/** @typedef {import('../stack_tree.js').StackTree} StackTree */
import {amountsOf, defaultMeasure, measureOf, measuresOf} from '../amounts.js';
import {isDark, onTheme, styleColor} from '../colors.js';
import {element, replace} from '../dom.js';
import {formatBytes, formatCount, formatPercent, formatPlural} from '../format.js';
import {Plot} from '../plot.js';
import {EMPTY_TREE, layoutIcicle, makeTree, searchTree} from '../stack_tree.js';
import {copyTableButton, segmented, Table} from '../table.js';

const FLAME_ROW = 20;
const LEAST_BOX = 0.6; /* pixels */
const LEAST_TEXT = 26;
const OPEN_SHARE = 0.01; /* of the whole; initially folds smaller callers, which `gpupool sites --tree`
                            omits */

/** Colours of a box and its text: light, then dark. By kind of node (stack_tree.js). */
const KIND_COLORS = [
  [['#b9d3f0', '#10263f'], ['#2f5478', '#dfeaf6']],
  [['#f0d3a8', '#3a2607'], ['#6e5026', '#f6ead8']],
  [['#d6dcc0', '#2b2f17'], ['#4d5335', '#eceedd']],
  [['#dedede', '#3d3d3d'], ['#3f4245', '#c9ccce']],
  [['#e6e8ea', '#24282c'], ['#34383c', '#e3e6e8']],
];
const KIND_WORDS = ['Python', 'C and C++', 'library', 'folded by default']; /* the last kind has no words */
const FOUND_COLORS = [['#d6249f', '#ffffff'], ['#f06ac4', '#22001a']];

export const flameView = {
  id: 'flame',
  title: 'Stacks',
  /** @param {Context} context */
  create(context) {
    const {selection} = context;
    /** @type {MeasureId} */
    let measure = 'peak';
    let isCallers = false;
    let tree = EMPTY_TREE;
    let owners = EMPTY_TREE; /* for the table */
    /** @type {Box[]} */
    let boxes = [];
    let zoomNode = 0;
    let focus = 0; /* a node of the tree */
    let hover = -1;
    let found = new Uint8Array(0);
    let foundText = '';
    let opened = new Set();

    const plot = new Plot('Stacks: each row is called by the one above it, and as wide as what it asked for',
      'Arrow keys go to callers, callees and neighbours; Enter makes the stack as wide as all; Escape goes back', draw);
    const status = element('output', {class: 'flame-status', 'aria-live': 'polite'});
    const heading = element('h2', {});
    const crumbs = element('nav', {class: 'crumbs', 'aria-label': 'The part that is shown'});
    const legend = element('div', {class: 'flame-legend'});
    let measures = segmented('Measure', /** @type {{id: MeasureId, label: string}[]} */ ([]), setMeasure);
    const measureRoom = element('span', {});
    const direction = segmented('Direction', [
      {id: 'down', label: 'From the program', title: 'From where the program begins down to who asked'},
      {id: 'up', label: 'From the owner', title: 'From who asked out to its callers'},
    ], id => {
      isCallers = id === 'up';
      zoomNode = focus = 0;
      refresh();
    });
    const table = new Table({
      label: 'Owners and their callers', open: chooseRow, branch: branchOf, expand: expandRow, isSorted: false,
      isSelected: row => owners.depth[row] === 1 && selection.state.owner >= 0 && owners.owner[row] === selection.state.owner,
      empty: 'Nothing of what is selected asked for device memory.',
    });
    const flame = element('div', {class: 'flame-scroll'}, plot.element);
    const root = element('section', {class: 'view flame', 'aria-label': 'Stacks'},
      element('div', {class: 'tools'}, measureRoom, direction.element, legend),
      element('div', {class: 'tools'}, heading, crumbs),
      element('div', {class: 'flame-parts'},
        element('div', {class: 'flame-picture'}, flame, status),
        element('div', {class: 'flame-table'},
          element('div', {class: 'tools'}, element('h3', {}, 'Owners and who called them'), copyTableButton(table)), table.element)));

    const kinds = KIND_WORDS.map(words => element('span', {class: 'flame-kind'}, words));
    legend.append(...kinds);
    onTheme(showColors);
    showColors();

    /** The colours that are not painted. */
    function showColors() {
      const theme = isDark() ? 1 : 0;
      kinds.forEach((kind, i) => kind.style.setProperty('--kind', KIND_COLORS[i][theme][0]));
      status.style.setProperty('--found', FOUND_COLORS[theme][0]);
      plot.invalidate();
    }

    /** @param {MeasureId} id */
    function setMeasure(id) {
      measure = id;
      zoomNode = focus = 0;
      refresh();
    }

    /** @param {StackTree} of @param {number} node @returns {string} "1.2 GiB" */
    function amountText(of, node) {
      return of.byCount ? formatCount(of.counts[node]) : formatBytes(of.bytes[node]);
    }

    /** @param {StackTree} of @param {number} node @returns {number} */
    function shareOf(of, node) {
      return of.value(0) ? of.value(node) / of.value(0) : 0;
    }

    /** @param {import('../amounts.js').Amounts} all without the search @returns {string} "found: 48 MiB, 22.9%" */
    function foundShare(all) {
      const value = tree.value(0);
      const whole = (tree.byCount ? all.counts : all.bytes).reduce((sum, each) => sum + each, 0);
      return `found: ${tree.byCount ? formatPlural(value, 'allocation') : formatBytes(value)}, ${formatPercent(whole ? value / whole : 0)}`;
    }

    function refresh() {
      const recording = context.recording();
      const {state} = selection;
      const {byCount, what} = measureOf(measure);
      const amounts = amountsOf(recording, state, measure, selection.found());
      const zoomed = tree.way(zoomNode).slice(1).map(node => tree.name(node));
      const choice = {frames: state.frames, allFrames: state.allFrames};
      tree = makeTree(recording, amounts, byCount, {...choice, callers: isCallers});
      owners = isCallers && !state.allFrames ? tree : makeTree(recording, amounts, byCount, {...choice, callers: true, allFrames: false});
      zoomNode = focus = findNode(zoomed);
      const moment = amounts.moment >= 0 ? ` (${recording.momentText(amounts.moment)})` : '';
      heading.textContent = `${what}${moment}: ${amountText(tree, 0)} in all${amounts.isSelection ? ', of what is selected' : ''}${amounts.isPartial ? recording.leftOutText() : ''}`;
      measures.show(measure);
      direction.show(isCallers ? 'up' : 'down');
      opened = new Set();
      openLargest();
      table.setColumns([
        {id: 'name', label: 'Owner, and its callers', width: 'minmax(var(--name-width), 1fr)', text: row => owners.name(row)},
        {
          id: 'amount', label: byCount ? 'Allocations' : 'Bytes', width: '11ch', isNumber: true, text: row => amountText(owners, row),
          plain: row => owners.value(row),
        },
        {id: 'share', label: 'Share', width: '8ch', isNumber: true, text: row => formatPercent(shareOf(owners, row)), plain: row => shareOf(owners, row)},
        {
          id: 'other', label: byCount ? 'Bytes' : measureOf(measure).column === 'total' ? 'Calls' : 'Blocks', width: '11ch', isNumber: true,
          text: row => byCount ? formatBytes(owners.bytes[row]) : formatCount(owners.counts[row]),
          plain: row => byCount ? owners.bytes[row] : owners.counts[row],
        },
      ], '');
      listRows();
      found = searchTree(tree, state.search);
      foundText = state.search.trim() ? foundShare(amountsOf(recording, state, measure)) : '';
      showStatus();
      layout();
    }

    /**
     * Finds the same path in another tree.
     * @param {string[]} names @returns {number}
     */
    function findNode(names) {
      let node = 0;
      for (const name of names) {
        const child = tree.children(node).find(one => tree.name(one) === name);
        if (child === undefined)
          break;
        node = child;
      }
      return node;
    }

    function layout() {
      if (!plot.width)
        return;
      boxes = layoutIcicle(tree, zoomNode, plot.width, LEAST_BOX);
      const rows = boxes.reduce((most, box) => Math.max(most, box.row), 0) + 1;
      plot.element.style.height = `${Math.max(rows * FLAME_ROW + 1, FLAME_ROW * 4)}px`;
      replace(crumbs, ...tree.way(zoomNode).map(node => element('button', {type: 'button', title: tree.name(node), onclick: () => zoomTo(node)},
        node === 0 ? 'all' : tree.name(node))));
      crumbs.hidden = zoomNode === 0;
      plot.invalidate();
    }

    /** @param {number} node */
    function zoomTo(node) {
      zoomNode = focus = node;
      layout();
      showStatus();
    }

    function draw() {
      const {context: ink, width} = plot;
      const theme = isDark() ? 1 : 0;
      if (!boxes.length || boxes[0].width !== width)
        boxes = layoutIcicle(tree, zoomNode, width, LEAST_BOX);
      ink.font = '12px system-ui, sans-serif';
      ink.textBaseline = 'middle';
      ink.textAlign = 'left';
      const depth = tree.depth[zoomNode];
      for (const box of boxes) {
        const [fill, text] = found[tree.text[box.node]] ? FOUND_COLORS[theme] : KIND_COLORS[tree.kind[box.node]][theme];
        const y = box.row * FLAME_ROW;
        const room = Math.max(box.width - 1, Math.min(box.width, 1));
        ink.globalAlpha = box.row < depth ? 0.55 : 1; /* the path to the node on display */
        ink.fillStyle = fill;
        ink.fillRect(box.x, y, room, FLAME_ROW - 1);
        if (room < LEAST_TEXT)
          continue;
        ink.fillStyle = text;
        plot.text(tree.name(box.node), box.x + 5, y + FLAME_ROW / 2, room - 9);
      }
      ink.globalAlpha = 1;
      outline(hover, 1);
      if (document.activeElement === plot.canvas)
        outline(focus, 2);
    }

    /** @param {number} node @param {number} line */
    function outline(node, line) {
      const box = boxes.find(one => one.node === node);
      if (!box)
        return;
      plot.context.strokeStyle = styleColor('--ink');
      plot.context.lineWidth = line;
      plot.context.strokeRect(box.x + line / 2, box.row * FLAME_ROW + line / 2, Math.max(box.width - 1 - line, 1), FLAME_ROW - 1 - line);
    }

    /** @param {MouseEvent} event @returns {number} -1: none */
    function nodeAt(event) {
      const {x, y} = plot.place(event);
      const row = Math.floor(y / FLAME_ROW);
      const box = boxes.find(one => one.row === row && one.x <= x && x < one.x + one.width);
      return box ? box.node : -1;
    }

    function showStatus() {
      const node = hover >= 0 ? hover : focus;
      const other = tree.byCount ? formatBytes(tree.bytes[node]) : formatPlural(tree.counts[node], measureOf(measure).column === 'total' ? 'call' : 'block');
      const parent = tree.parent[node];
      const ofParent = parent > 0 && tree.value(parent) ? `, ${formatPercent(tree.value(node) / tree.value(parent))} of ${isCallers ? 'what it called' : 'its caller'}` : '';
      replace(status,
        element('strong', {}, node === 0 ? 'all' : tree.name(node)), ' ',
        `${amountText(tree, node)}, ${formatPercent(shareOf(tree, node))} of all${ofParent}; ${other}`,
        foundText && element('span', {class: 'found'}, foundText));
    }

    /** @param {KeyboardEvent} event */
    function key(event) {
      const siblings = focus === 0 ? [0] : tree.children(tree.parent[focus]);
      const place = siblings.indexOf(focus);
      let next = focus;
      switch (event.key) {
      case 'ArrowDown': next = tree.children(focus)[0]; break;
      case 'ArrowUp': next = tree.parent[focus]; break;
      case 'ArrowRight': next = siblings[place + 1]; break;
      case 'ArrowLeft': next = siblings[place - 1]; break;
      case 'Home': next = 0; break;
      case 'Enter': zoomTo(focus); break;
      case 'Escape':
      case 'Backspace':
        if (zoomNode === 0)
          return;
        zoomTo(tree.parent[zoomNode]);
        break;
      default: return;
      }
      event.preventDefault();
      event.stopPropagation();
      if (next !== undefined && next >= 0)
        focus = next;
      hover = -1;
      flame.scrollTop = Math.min(flame.scrollTop, tree.depth[focus] * FLAME_ROW);
      showStatus();
      plot.invalidate();
    }

    plot.canvas.addEventListener('mousemove', event => {
      const node = nodeAt(event);
      if (node === hover)
        return;
      hover = node;
      plot.canvas.style.cursor = node >= 0 ? 'pointer' : 'default';
      showStatus();
      plot.invalidate();
    });
    plot.canvas.addEventListener('mouseleave', () => {
      hover = -1;
      showStatus();
      plot.invalidate();
    });
    plot.canvas.addEventListener('click', event => {
      const node = nodeAt(event);
      if (node >= 0)
        zoomTo(node === zoomNode && node !== 0 ? tree.parent[node] : node);
    });
    plot.canvas.addEventListener('keydown', key);
    plot.canvas.addEventListener('focus', () => plot.invalidate());
    plot.canvas.addEventListener('blur', () => plot.invalidate());
    new ResizeObserver(() => layout()).observe(flame);

    /*
     * The table
     */

    function openLargest() {
      for (let node = owners.children(0)[0]; node !== undefined && owners.depth[node] < 12; node = owners.children(node)[0]) {
        if (shareOf(owners, node) < OPEN_SHARE)
          break;
        opened.add(node);
      }
    }

    function listRows() {
      /** @type {number[]} */
      const rows = [];
      const waiting = [...owners.children(0)].reverse();
      while (waiting.length) {
        const node = /** @type {number} */ (waiting.pop());
        rows.push(node);
        if (opened.has(node))
          for (const child of [...owners.children(node)].reverse())
            waiting.push(child);
      }
      table.setRows(Uint32Array.from(rows));
    }

    /** @param {number} row */
    function branchOf(row) {
      return {level: owners.depth[row] - 1, expanded: owners.hasChildren(row) ? opened.has(row) : null};
    }

    /** @param {number} row @param {boolean} isOpen */
    function expandRow(row, isOpen) {
      if (isOpen)
        opened.add(row);
      else
        opened.delete(row);
      listRows();
    }

    /**
     * Selects an owner, or deselects it if it is selected; searches for a caller.
     * @param {number} row
     */
    function chooseRow(row) {
      if (owners.depth[row] > 1)
        selection.set({search: selection.state.search === owners.name(row) ? '' : owners.name(row)});
      else if (owners.owner[row] >= 0)
        selection.set({owner: selection.state.owner === owners.owner[row] ? -1 : owners.owner[row]});
    }

    return {
      element: root,
      /** @param {Set<string>} changed */
      update(changed) {
        if (changed.has('file')) {
          const recording = context.recording();
          measure = defaultMeasure(recording);
          measures = segmented('Measure', measuresOf(recording), setMeasure);
          replace(measureRoom, measures.element);
          zoomNode = focus = 0;
        }
        if (['file', 'from', 'to', 'device', 'owner', 'search', 'frames', 'allFrames'].some(name => changed.has(name)))
          refresh();
      },
    };
  },
};
