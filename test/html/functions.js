// Instead of main.js, in tests: what the views are made of, for a test to call.
import {amountsOf, defaultMeasure, measureOf, measuresOf} from './amounts.js';
import {formatBytes, formatCount, formatDuration, formatPercent} from './format.js';
import {readPayload} from './payload.js';
import {Recording} from './recording.js';
import {Selection} from './selection.js';
import {layoutIcicle, makeTree, searchTree} from './stack_tree.js';
import {Table, tsvCell} from './table.js';
import {eventRows, leakRows, ownerRows, placeRows, sizeRows} from './table_rows.js';

document.addEventListener('DOMContentLoaded', async () => {
  const payload = await readPayload(/** @type {any} */ (document.getElementById('payload')).textContent);
  const recordings = payload.files.map(file => new Recording(file));
  const selection = new Selection();
  selection.open(recordings[0], 0);
  /** A tree as JSON, as `gpupool sites --tree` has it. @param {any} tree @param {number} node @returns {any} */
  const listed = (tree, node) => tree.children(node).map(child => ({
    name: tree.name(child), bytes: tree.bytes[child], count: tree.counts[child], callers: listed(tree, child),
  }));
  /** @type {any} */ (window).functions = {
    amountsOf, defaultMeasure, measureOf, measuresOf, formatBytes, formatCount, formatDuration, formatPercent, recordings, selection,
    layoutIcicle, makeTree, searchTree, listed, Table, tsvCell, eventRows, leakRows, ownerRows, placeRows, sizeRows,
  };
  /** @type {any} */ (window).gpupoolPage = {ready: true};
});
