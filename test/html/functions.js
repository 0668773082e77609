// Instead of main.js, in tests: what the views are made of, for a test to call.
import {amountsOf, defaultMeasure, measureOf, measuresOf} from './amounts.js';
import {readPayload} from './payload.js';
import {Recording} from './recording.js';
import {Selection} from './selection.js';
import {layoutIcicle, makeTree, markedBy} from './stack_tree.js';
import {Table, tsvCell} from './table.js';

document.addEventListener('DOMContentLoaded', async () => {
  const payload = await readPayload(/** @type {any} */ (document.getElementById('payload')).textContent);
  const recordings = payload.files.map(file => new Recording(file));
  const selection = new Selection(recordings);
  selection.open(0);
  /** A tree as JSON, as `gpupool sites --tree` has it. @param {any} node @returns {any} */
  const listed = node => node.children().map(({name, bytes, count}, i) => ({name, bytes, count, callers: listed(node.children()[i])}));
  /** @type {any} */ (window).functions = {
    amountsOf, defaultMeasure, measureOf, measuresOf, recordings, selection, layoutIcicle, makeTree, markedBy,
    listed, Table, tsvCell,
  };
  /** @type {any} */ (window).gpupoolPage = {ready: true};
});
