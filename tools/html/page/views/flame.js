/** Who asked for the memory, as a picture of stacks and as a tree of owners and their callers. */
import {amountsOf, defaultMeasure, measureOf, measuresOf} from '../amounts.js';
import {isDark, onTheme, styleColor} from '../colors.js';
import {element, replace} from '../dom.js';
import {formatBytes, formatCount, formatPercent, formatPlural} from '../format.js';
import {Plot} from '../plot.js';
import {concerns} from '../selection.js';
import {emptyTree, layoutIcicle, makeTree, markedBy} from '../stack_tree.js';
import {copyTableButton, segmented, Table} from '../table.js';

const FLAME_ROW = 20;
const LEAST_BOX = 0.6; /* pixels */
const LEAST_TEXT = 26;
const OPEN_SHARE = 0.01; /* of the whole; smaller callers, which `gpupool sites --tree` omits, are folded at first */

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

/** @type {ViewMaker} */
export const flameView = {
  id: 'flame',
  title: 'Stacks',
  create(context) {
    const {selection} = context;
    /** @type {MeasureId} */
    let measure = 'peak';
    let isCallers = false;
    let tree = emptyTree();
    let owners = tree; /* for the table */
    /** @type {TreeNode[]} */
    let listed = []; /* the rows of the table */
    /** @type {ReturnType<typeof layoutIcicle>} */
    let boxes = [];
    let zoomNode = tree;
    let focus = tree;
    /** @type {TreeNode | null} */
    let hover = null;
    let isMarked = markedBy('');
    let foundText = '';
    let opened = new Set();

    const plot = new Plot('Stacks: each row is called by the one above it, and as wide as what it requested',
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
      zoomNode = focus = tree;
      refresh();
    });
    const table = new Table({
      label: 'Owners and their callers', open: chooseRow, branch: branchOf, expand: expandRow, isSorted: false,
      isSelected: row => listed[row].depth === 1 && selection.state.owner >= 0 && listed[row].owner === selection.state.owner,
      empty: 'Nothing in the selection requested device memory.',
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
      zoomNode = focus = tree;
      refresh();
    }

    /** @param {TreeNode} node @returns {string} "1.2 GiB" */
    function amountText(node) {
      return measureOf(measure).byCount ? formatCount(node.count) : formatBytes(node.bytes);
    }

    /** @param {TreeNode} node @returns {number} of all */
    function shareOf(node) {
      return tree.value ? node.value / tree.value : 0;
    }

    /** @param {Amounts} all without the search @returns {string} "found: 48 MiB, 22.9%" */
    function foundShare(all) {
      const {byCount} = measureOf(measure);
      const {value} = tree;
      const whole = (byCount ? all.counts : all.bytes).reduce((sum, each) => sum + each, 0);
      return `found: ${byCount ? formatPlural(value, 'allocation') : formatBytes(value)}, ${formatPercent(whole ? value / whole : 0)}`;
    }

    function refresh() {
      const recording = context.recording();
      const {state} = selection;
      const {byCount, what} = measureOf(measure);
      const amounts = amountsOf(recording, state, measure, selection.found());
      const zoomed = zoomNode.way().slice(1).map(node => node.name);
      const choice = {byCount, frames: state.frames, allFrames: state.allFrames};
      tree = makeTree(recording, amounts, {...choice, callers: isCallers});
      owners = isCallers && !state.allFrames ? tree : makeTree(recording, amounts, {...choice, callers: true, allFrames: false});
      zoomNode = focus = findNode(zoomed);
      const moment = amounts.moment >= 0 ? ` (${recording.momentText(amounts.moment)})` : '';
      heading.textContent = `${what}${moment}: ${amountText(tree)} in all${amounts.isSelection ? ', of what is selected' : ''}${amounts.isPartial ? recording.leftOutText() : ''}`;
      measures.show(measure);
      direction.show(isCallers ? 'up' : 'down');
      opened = new Set();
      openLargest();
      table.setColumns([
        {id: 'name', label: 'Owner, and its callers', width: 'minmax(var(--name-width), 1fr)', text: row => listed[row].name},
        {
          id: 'amount', label: byCount ? 'Allocations' : 'Bytes', width: '11ch', isNumber: true, text: row => amountText(listed[row]),
          plain: row => listed[row].value,
        },
        {id: 'share', label: 'Share', width: '8ch', isNumber: true, text: row => formatPercent(shareOf(listed[row])), plain: row => shareOf(listed[row])},
        {
          id: 'other', label: byCount ? 'Bytes' : measureOf(measure).column === 'total' ? 'Calls' : 'Blocks', width: '11ch', isNumber: true,
          text: row => byCount ? formatBytes(listed[row].bytes) : formatCount(listed[row].count),
          plain: row => byCount ? listed[row].bytes : listed[row].count,
        },
      ]);
      listRows();
      isMarked = markedBy(state.search);
      foundText = state.search.trim() ? foundShare(amountsOf(recording, state, measure)) : '';
      showStatus();
      layout();
    }

    /** @param {string[]} names of a path in another tree; stops where this tree lacks it */
    function findNode(names) {
      let node = tree;
      for (const name of names) {
        const child = node.children().find(one => one.name === name);
        if (!child)
          break;
        node = child;
      }
      return node;
    }

    function layout() {
      if (!plot.width)
        return;
      boxes = layoutIcicle(zoomNode, plot.width, LEAST_BOX);
      const rows = boxes.reduce((most, box) => Math.max(most, box.row), 0) + 1;
      plot.element.style.height = `${Math.max(rows * FLAME_ROW + 1, FLAME_ROW * 4)}px`;
      replace(crumbs, ...zoomNode.way().map(node => element('button', {type: 'button', title: node.name, onclick: () => zoomTo(node)}, node.name)));
      crumbs.hidden = zoomNode === tree;
      plot.invalidate();
    }

    /** @param {TreeNode} node */
    function zoomTo(node) {
      zoomNode = focus = node;
      layout();
      showStatus();
    }

    function draw() {
      const {context: ink, width} = plot;
      const theme = isDark() ? 1 : 0;
      if (!boxes.length || boxes[0].width !== width)
        boxes = layoutIcicle(zoomNode, width, LEAST_BOX);
      plot.textStyle('--ink', 'middle', 12);
      for (const box of boxes) {
        const [fill, text] = box.node !== tree && isMarked(box.node.name) ? FOUND_COLORS[theme] : KIND_COLORS[box.node.kind][theme];
        const y = box.row * FLAME_ROW;
        const room = Math.max(box.width - 1, Math.min(box.width, 1));
        ink.globalAlpha = box.row < zoomNode.depth ? 0.55 : 1; /* the path to the node on display */
        ink.fillStyle = fill;
        ink.fillRect(box.x, y, room, FLAME_ROW - 1);
        if (room < LEAST_TEXT)
          continue;
        ink.fillStyle = text;
        plot.text(box.node.name, box.x + 5, y + FLAME_ROW / 2, room - 9);
      }
      ink.globalAlpha = 1;
      outline(hover, 1);
      if (document.activeElement === plot.canvas)
        outline(focus, 2);
    }

    /** @param {TreeNode | null} node @param {number} line */
    function outline(node, line) {
      const box = boxes.find(one => one.node === node);
      if (!box)
        return;
      plot.context.strokeStyle = styleColor('--ink');
      plot.context.lineWidth = line;
      plot.context.strokeRect(box.x + line / 2, box.row * FLAME_ROW + line / 2, Math.max(box.width - 1 - line, 1), FLAME_ROW - 1 - line);
    }

    /** @param {MouseEvent} event */
    function nodeAt(event) {
      const {x, y} = plot.place(event);
      const row = Math.floor(y / FLAME_ROW);
      const box = boxes.find(one => one.row === row && one.x <= x && x < one.x + one.width);
      return box?.node ?? null;
    }

    function showStatus() {
      const node = hover || focus;
      const {byCount, column} = measureOf(measure);
      const other = byCount ? formatBytes(node.bytes) : formatPlural(node.count, column === 'total' ? 'call' : 'block');
      const {parent} = node;
      const ofParent = parent && parent !== tree && parent.value ? `, ${formatPercent(node.value / parent.value)} of ${isCallers ? 'what it called' : 'its caller'}` : '';
      replace(status,
        element('strong', {}, node.name), ' ',
        `${amountText(node)}, ${formatPercent(shareOf(node))} of all${ofParent}; ${other}`,
        foundText && element('span', {class: 'found'}, foundText));
    }

    /** @param {KeyboardEvent} event */
    function key(event) {
      const siblings = focus.parent ? focus.parent.children() : [focus];
      const place = siblings.indexOf(focus);
      /** @type {TreeNode | null} */
      let next = focus;
      switch (event.key) {
      case 'ArrowDown': next = focus.children()[0]; break;
      case 'ArrowUp': next = focus.parent; break;
      case 'ArrowRight': next = siblings[place + 1]; break;
      case 'ArrowLeft': next = siblings[place - 1]; break;
      case 'Home': next = tree; break;
      case 'Enter': zoomTo(focus); break;
      case 'Escape':
      case 'Backspace':
        if (!zoomNode.parent)
          return;
        zoomTo(zoomNode.parent);
        break;
      default: return;
      }
      event.preventDefault();
      event.stopPropagation();
      focus = next || focus;
      hover = null;
      flame.scrollTop = Math.min(flame.scrollTop, focus.depth * FLAME_ROW);
      showStatus();
      plot.invalidate();
    }

    plot.canvas.addEventListener('mousemove', event => {
      const node = nodeAt(event);
      if (node === hover)
        return;
      hover = node;
      plot.canvas.style.cursor = node ? 'pointer' : 'default';
      showStatus();
      plot.invalidate();
    });
    plot.canvas.addEventListener('mouseleave', () => {
      hover = null;
      showStatus();
      plot.invalidate();
    });
    plot.canvas.addEventListener('click', event => {
      const node = nodeAt(event);
      if (node)
        zoomTo(node === zoomNode && node.parent || node);
    });
    plot.canvas.addEventListener('keydown', key);
    plot.canvas.addEventListener('focus', () => plot.invalidate());
    plot.canvas.addEventListener('blur', () => plot.invalidate());
    new ResizeObserver(layout).observe(flame);

    function openLargest() {
      for (let node = owners.children()[0]; node && node.depth < 12 && shareOf(node) >= OPEN_SHARE; node = node.children()[0])
        opened.add(node);
    }

    function listRows() {
      /** @param {TreeNode} node @returns {TreeNode[]} it, and what is unfolded below it */
      const unfolded = node => [node, ...(opened.has(node) ? node.children().flatMap(unfolded) : [])];
      listed = owners.children().flatMap(unfolded);
      table.setRows(Uint32Array.from(listed.keys()));
    }

    /** @param {number} row */
    function branchOf(row) {
      return {level: listed[row].depth - 1, expanded: listed[row].hasChildren() ? opened.has(listed[row]) : null};
    }

    /** @param {number} row @param {boolean} isOpen */
    function expandRow(row, isOpen) {
      if (isOpen)
        opened.add(listed[row]);
      else
        opened.delete(listed[row]);
      listRows();
    }

    /**
     * Selects an owner, or deselects it if it is selected; searches for a caller.
     * @param {number} row
     */
    function chooseRow(row) {
      const {depth, name, owner} = listed[row];
      const {state} = selection;
      if (depth > 1)
        selection.set({search: state.search === name ? '' : name});
      else if (owner >= 0)
        selection.set({owner: state.owner === owner ? -1 : owner});
    }

    return {
      element: root,
      update(changed) {
        if (changed.has('file')) {
          const recording = context.recording();
          measure = defaultMeasure(recording);
          measures = segmented('Measure', measuresOf(recording), setMeasure);
          replace(measureRoom, measures.element);
          zoomNode = focus = tree;
        }
        if (concerns(changed, 'file', 'from', 'to', 'device', 'owner', 'search', 'frames', 'allFrames'))
          refresh();
      },
    };
  },
};
