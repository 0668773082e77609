/**
 * Several snapshots: a row for each, and the differences between two of them.
 */
/** @typedef {import('../main.js').Context} Context */
/** @typedef {import('../main.js').Page} Page */
/** @typedef {import('../recording.js').Recording} Recording */
/** @typedef {import('../compare_rows.js').SiteRow} SiteRow */
/** @typedef {import('../compare_rows.js').FigureRow} FigureRow */
import {changeText, figureOf, figureRows, shareText, siteRows} from '../compare_rows.js';
import {element, replace} from '../dom.js';
import {baseName, formatBytes, formatCount, formatPercent} from '../format.js';
import {copyTableButton, ROW_HEIGHT, segmented, Table} from '../table.js';

/** @typedef {'peak' | 'live' | 'total' | 'count' | 'temporary'} Compared */
/** @typedef {'all' | 'more' | 'new' | 'less' | 'gone'} Change */

/** @type {Record<string, string>} */
const RELATIONS = {
  same_process: 'of the same process', same_program: 'of two runs of the same program', different_programs: 'of different programs',
};

/** @type {{id: Change, label: string, has: (before: number, after: number) => boolean}[]} */
const CHANGES = [
  {id: 'all', label: 'All', has: () => true},
  {id: 'more', label: 'Grew', has: (before, after) => before > 0 && after > before},
  {id: 'new', label: 'New', has: before => before === 0},
  {id: 'less', label: 'Shrank', has: (before, after) => after > 0 && after < before},
  {id: 'gone', label: 'Gone', has: (before, after) => after === 0},
];

/**
 * @param {Recording} recording
 * @param {string} name of a statistic
 * @returns {number} of all devices
 */
function sumOf(recording, name) {
  return recording.summary.devices.reduce((/** @type {number} */ sum, /** @type {any} */ device) => sum + figureOf(device.stats, name), 0);
}

export const compareView = {
  id: 'compare',
  title: 'Compare',
  /** @param {Page} page */
  isFor: page => page.recordings.length > 1,
  /** @param {Context} context */
  create(context) {
    const {selection, page} = context;
    const {recordings} = page;
    let before = 0;
    let after = 1;
    /** @type {Compared} */
    let measure = 'peak';
    /** @type {Change} */
    let change = 'all';
    /** @type {FigureRow[]} */
    let figures = [];
    /** @type {SiteRow[]} */
    let sites = [];
    const isPair = recordings.length === 2;

    const files = new Table({
      label: 'Snapshots', open: row => selection.open(recordings[row], row), isSelected: row => selection.state.file === row,
    });
    const figureTable = new Table({label: 'Figures that are different', empty: 'All figures are the same.'});
    const siteTable = new Table({label: 'What asked for more or less', open: chooseSite, empty: 'Nothing of that kind is different.'});
    const measures = segmented('Measure', /** @type {{id: Compared, label: string}[]} */ ([
      {id: 'peak', label: 'Peak'}, {id: 'live', label: 'End'}, {id: 'total', label: 'Total'}, {id: 'count', label: 'Count'},
      {id: 'temporary', label: 'Temporary'},
    ]), id => {
      measure = id;
      show();
    });
    const changes = segmented('Change', CHANGES, id => {
      change = id;
      show();
    });
    const relation = element('span', {class: 'note'});
    const heading = element('h3', {});
    const chosen = [before, after].map((file, place) => {
      const select = /** @type {HTMLSelectElement} */ (element('select', {
        'aria-label': place ? 'After' : 'Before', onchange: () => {
          if (place)
            after = Number(select.value);
          else
            before = Number(select.value);
          show();
        },
      }, ...recordings.map((each, i) => element('option', {value: i}, each.name))));
      select.value = String(file);
      return select;
    });
    const filesRoom = element('div', {class: 'compare-files'}, files.element);
    filesRoom.style.setProperty('--files-height', `${(recordings.length + 1) * ROW_HEIGHT + 3}px`);
    const root = element('section', {class: 'view compare', 'aria-label': 'Compare'},
      filesRoom,
      element('div', {class: 'tools'}, chosen[0], 'before,', chosen[1], 'after', relation),
      element('div', {class: 'compare-parts'},
        element('div', {class: 'compare-part'},
          element('div', {class: 'tools'}, heading, measures.element, changes.element, copyTableButton(siteTable)), siteTable.element),
        element('div', {class: 'compare-part'},
          element('div', {class: 'tools'}, element('h3', {}, 'Figures'), copyTableButton(figureTable)), figureTable.element)));

    files.setColumns([
      {id: 'name', label: 'Snapshot', width: 'minmax(var(--name-width), 1fr)', text: row => recordings[row].name},
      {id: 'program', label: 'Program', width: '18ch', text: row => baseName(recordings[row].summary.process.program || '')},
      {
        id: 'rank', label: 'Rank', width: '7ch', isNumber: true, text: row => String(recordings[row].summary.process.rank ?? ''),
        value: row => recordings[row].summary.process.rank ?? -1,
      },
      {id: 'host', label: 'Host', width: '14ch', text: row => recordings[row].summary.process.host || ''},
      {
        id: 'pid', label: 'Process', width: '9ch', isNumber: true, text: row => String(recordings[row].summary.process.pid ?? ''),
        value: row => recordings[row].summary.process.pid ?? -1,
      },
      {id: 'reason', label: 'Written', width: '12ch', text: row => recordings[row].summary.reason || ''},
      fileColumn('Reserved, peak', 'reserved_bytes.peak'), fileColumn('Allocated, peak', 'allocated_bytes.peak'),
      fileColumn('Requested, peak', 'requested_bytes.peak'), fileColumn('Requested, now', 'requested_bytes.current'),
      {
        id: 'ooms', label: 'Out of memory', width: '15ch', isNumber: true, text: row => formatCount(sumOf(recordings[row], 'num_ooms')),
        value: row => sumOf(recordings[row], 'num_ooms'),
      },
    ], '');
    files.setRows(Uint32Array.from(recordings.keys()), true);

    /**
     * A column with the sum over all devices of each file.
     * @param {string} label
     * @param {string} name
     * @returns {import('../table.js').TableColumn}
     */
    function fileColumn(label, name) {
      /** @param {number} row */
      const value = row => sumOf(recordings[row], name);
      return {id: name, label, width: '16ch', isNumber: true, text: row => formatBytes(value(row)), value, plain: value};
    }

    /**
     * Columns for before, after, change and share of a row.
     * @param {(row: number) => {before: number, after: number}} pair
     * @param {(row: number) => (value: number) => string} format
     * @returns {import('../table.js').TableColumn[]}
     */
    function pairColumns(pair, format) {
      return [
        {id: 'before', label: 'Before', width: '11ch', isNumber: true, text: row => format(row)(pair(row).before), value: row => pair(row).before, plain: row => pair(row).before},
        {id: 'after', label: 'After', width: '11ch', isNumber: true, text: row => format(row)(pair(row).after), value: row => pair(row).after, plain: row => pair(row).after},
        {
          id: 'change', label: 'Change', width: '12ch', isNumber: true, text: row => changeText(pair(row).before, pair(row).after, format(row)),
          value: row => Math.abs(pair(row).after - pair(row).before), plain: row => pair(row).after - pair(row).before,
        },
        {
          id: 'share', label: 'Share', width: '12ch', isNumber: true, text: row => shareText(pair(row).before, pair(row).after),
          value: row => pair(row).before ? pair(row).after / pair(row).before : Infinity,
        },
      ];
    }

    function show() {
      const [a, b] = [recordings[before], recordings[after]];
      const diff = page.diff && isPair && before === 0 && after === 1 ? page.diff : null;
      const isBySize = !a.hasStacks || !b.hasStacks;
      const byCount = measure === 'count' || measure === 'temporary';
      figures = figureRows(a, b).filter(row => row.before !== row.after);
      /* Only the tool knows which sizes were held at the peaks; it has compared those of two files. */
      sites = diff && measure === 'peak' ? diff.sites : siteRows(a, b, measure);
      measures.show(measure);
      changes.show(change);
      heading.textContent = isBySize ? 'By size' : 'By owner';
      relation.textContent = diff && diff.relation ? RELATIONS[diff.relation] || diff.relation : '';
      const deviceCount = new Set(figures.map(row => row.device)).size;
      figureTable.setColumns([
        {id: 'words', label: 'Figure', width: 'minmax(16ch, 1fr)', text: row => figures[row].words},
        ...(deviceCount > 1 ? [{id: 'device', label: 'Device', width: '8ch', isNumber: true, text: (/** @type {number} */ row) => String(figures[row].device)}] : []),
        ...pairColumns(row => figures[row], row => figures[row].isBytes ? formatBytes : formatCount),
      ], '');
      figureTable.setRows(Uint32Array.from(figures.keys()), true);
      siteTable.setColumns([
        {id: 'name', label: isBySize ? 'Size' : 'Owner', width: 'minmax(16ch, 1fr)', text: row => sites[row].name},
        ...pairColumns(row => sites[row], () => byCount ? formatCount : formatBytes),
      ], 'change');
      const {has} = /** @type {typeof CHANGES[0]} */ (CHANGES.find(each => each.id === change));
      const words = selection.state.search.trim().toLowerCase();
      siteTable.setRows(Uint32Array.from([...sites.keys()].filter(row =>
        has(sites[row].before, sites[row].after) && sites[row].name.toLowerCase().includes(words))), true);
    }

    /**
     * Shows the site in the later recording if that has it, else in the earlier one.
     * @param {number} row
     */
    function chooseSite(row) {
      const file = sites[row].after ? after : before;
      const owner = recordings[file].owners.findIndex(each => each.name === sites[row].name);
      if (selection.state.file !== file)
        selection.open(recordings[file], file);
      selection.set({owner});
    }

    show();
    return {
      element: root,
      /** @param {Set<string>} changed */
      update(changed) {
        if (changed.has('file'))
          files.draw(true);
        if (changed.has('search'))
          show();
      },
    };
  },
};
