/** Tables. A click or Enter chooses a row, and the other views show its content. */
import {element} from '../dom.js';
import {momentEvent} from '../events.js';
import {baseName, formatAddress, formatBytes, formatCount, formatDuration, formatPlural} from '../format.js';
import {concerns} from '../selection.js';
import {copyTableButton, segmented, Table} from '../table.js';
import {eventRows, keyRows, leakRows, ownerRows} from '../table_rows.js';

/**
 * @typedef {'owners' | 'held' | 'sizes' | 'threads' | 'streams' | 'phases' | 'events' | 'snapshots'} TableId
 * @typedef {object} Contents
 * @property {TableColumn[]} columns
 * @property {string} sort id of a column; '': order of the rows
 * @property {Iterable<number>} rows
 * @property {(row: number) => void} open
 * @property {(row: number) => boolean} isSelected
 * @property {string} about
 * @property {boolean} [isPartial] it lacks what the tool left out of the page
 *
 * @typedef {(row: number) => number} Figure of a row
 */

const NAME_WIDTH = 'minmax(var(--name-width), 1fr)';
/** @type {TableColumn} takes the room that others leave */
const REST = {id: 'rest', label: '', width: '1fr', text: () => ''};

/** @param {(value: number) => string} format */
function figureColumns(format) {
  /** @param {string} id @param {string} label @param {Figure} value @param {string} [title] @returns {TableColumn} */
  return (id, label, value, title) =>
    ({id, label, title, width: '11ch', isNumber: true, text: row => format(value(row)), value, plain: value});
}

const bytesColumn = figureColumns(formatBytes);
const countColumn = figureColumns(formatCount);

/** @param {string} id @param {string} label @param {(row: number) => Sum} sum @param {string} noun "blocks" @param {string} title */
function sumColumns(id, label, sum, noun, title) {
  return [bytesColumn(id, label, row => sum(row).bytes, title), countColumn(`${id}-count`, noun, row => sum(row).count, title)];
}

/**
 * A column of numbers that are no figures, and may be absent.
 * @param {string} id @param {string} label @param {string} width @param {(row: number) => number | null | undefined} value @returns {TableColumn}
 */
function numberColumn(id, label, width, value) {
  return {id, label, width, isNumber: true, text: row => String(value(row) ?? ''), value: row => value(row) ?? -1};
}

/** @param {{live: Sum}[]} all */
const liveColumns = all => sumColumns('live', 'At the end', row => all[row].live, 'Blocks', 'Held at the end');
/** @param {{total: Sum}[]} all */
const totalColumns = all => sumColumns('total', 'Total', row => all[row].total, 'Calls', 'All that was ever requested');
/** @param {{temporary: Sum}[]} all */
const temporaryColumn = all =>
  countColumn('temporary', 'Temporary', row => all[row].temporary.count, 'Freed before anything else was allocated on the device');

/** @type {ViewMaker} */
export const tablesView = {
  id: 'tables',
  title: 'Tables',
  create(context) {
    const {selection} = context;
    /** @type {TableId} */
    let which = 'owners';
    /** @type {Contents | null} */
    let contents = null;
    const tabs = segmented('Table', [
      {id: 'owners', label: 'Owners'}, {id: 'held', label: 'At the end'}, {id: 'sizes', label: 'Sizes'},
      {id: 'threads', label: 'Threads'}, {id: 'streams', label: 'Streams'}, {id: 'phases', label: 'Phases'}, {id: 'events', label: 'Events'},
      {id: 'snapshots', label: 'Snapshots'},
    ], id => {
      which = /** @type {TableId} */ (id);
      show(true);
    });
    const about = element('span', {class: 'note'});
    const table = new Table({
      label: 'Table', open: row => contents?.open(row), isSelected: row => contents?.isSelected(row) ?? false,
      empty: 'Nothing of the recording is of what is selected.',
    });
    const root = element('section', {class: 'view tables', 'aria-label': 'Tables'},
      element('div', {class: 'tools'}, tabs.element, about, copyTableButton(table)), table.element);

    /** @returns {(life: number) => boolean} it matches device, owner and search, and exists at some time in the selected range */
    function wanted() {
      const recording = context.recording();
      const {lives} = recording;
      const {from, to} = selection.state;
      const matching = selection.matches();
      return life => matching[life] === 1 && lives.begin[life] <= to && (lives.freed[life] > from || from === 0);
    }

    /** @returns {Contents} */
    function ownersTable() {
      const recording = context.recording();
      const {rows: all, isPartial} = ownerRows(recording, selection.state, selection.found());
      const owner = (/** @type {number} */ row) => recording.owners[all[row].owner];
      const isKnown = recording.hasHistory;
      return {
        columns: [
          {
            id: 'owner', label: 'Owner', width: NAME_WIDTH, text: row => owner(row).text, before: row => {
              const swatch = element('i', {class: 'swatch'});
              swatch.style.background = context.colors.css[all[row].owner];
              return swatch;
            },
          },
          ...(isKnown ? sumColumns('peak', 'At the peak', row => all[row].peak, 'Blocks', 'Allocated when the devices together had most') : []),
          ...liveColumns(all),
          ...(isKnown ? [
            ...totalColumns(all), temporaryColumn(all),
            bytesColumn('grown', 'Grown by', row => all[row].grown, 'Allocated at the end of the selected time, less what was allocated at its beginning'),
          ] : []),
        ],
        sort: isKnown ? 'peak' : 'live', rows: all.keys(), about: formatPlural(all.length, recording.hasStacks ? 'owner' : 'size'),
        open: row => selection.set({owner: selection.state.owner === all[row].owner ? -1 : all[row].owner}),
        isSelected: row => selection.state.owner === all[row].owner, isPartial,
      };
    }

    /** @returns {Contents} */
    function heldTable() {
      const recording = context.recording();
      const all = leakRows(recording, wanted());
      const sum = all.reduce((bytes, row) => bytes + row.bytes, 0);
      const isLeak = ['exit', 'recovered'].includes(recording.summary.reason);
      /** @param {number} row */
      const first = row => recording.lives.begin[all[row].life];
      return {
        columns: [
          {id: 'owner', label: 'Owner', width: NAME_WIDTH, text: row => recording.ownerName(all[row].life)},
          bytesColumn('bytes', 'Bytes', row => all[row].bytes),
          countColumn('count', 'Blocks', row => all[row].count),
          numberColumn('device', 'Device', '8ch', row => all[row].device),
          {id: 'kind', label: 'Kind', width: '14ch', text: row => all[row].what < 0 ? 'pooled' : recording.strings[all[row].what]},
          {
            id: 'first', label: 'Oldest', width: '20ch', text: row => recording.hasTimes && first(row) ? formatDuration(recording.timeOf(first(row)))
              : recording.momentText(first(row)), value: first, title: 'When the oldest of them was allocated',
          },
          {
            id: 'stack', label: 'Innermost frame', width: 'minmax(20ch, 1fr)',
            text: row => all[row].stack >= 0 && recording.framesOf(all[row].stack).length ? recording.frameText(recording.framesOf(all[row].stack)[0]) : '',
          },
        ],
        sort: 'bytes', rows: all.keys(),
        about: `${formatBytes(sum)} ${isLeak ? 'never freed' : 'live when the snapshot was written'}, ${formatPlural(all.length, 'stack')}`,
        ...choosesLife(all),
      };
    }

    /** @returns {Contents} */
    function sizesTable() {
      const {lives} = context.recording();
      const all = keyRows(context.recording(), lives.requested, wanted());
      return {
        columns: [
          bytesColumn('size', 'Size', row => all[row].key, 'Bytes of one request'), ...totalColumns(all), ...liveColumns(all),
          bytesColumn('rounded', 'Rounded', row => all[row].rounded, 'What the allocated blocks of the pool take'), temporaryColumn(all), REST,
        ],
        sort: 'total', rows: all.keys(), about: formatPlural(all.length, 'size'), isPartial: true,
        ...choosesLife(all),
      };
    }

    /** @param {'thread' | 'stream'} by @returns {Contents} */
    function placesTable(by) {
      const recording = context.recording();
      const all = keyRows(recording, recording.lives[by], wanted());
      /** @param {number} row */
      const name = row => by === 'thread' ? recording.threadName(all[row].key) : recording.streamName(all[row].key);
      return {
        columns: [
          {id: 'name', label: by === 'thread' ? 'Thread' : 'Stream', width: 'minmax(24ch, 40ch)', text: name},
          ...totalColumns(all), ...liveColumns(all), temporaryColumn(all), REST,
        ],
        sort: 'total', rows: all.keys(), about: formatPlural(all.length, by), isPartial: true,
        open: row => {
          if (by === 'thread' && all[row].key >= 0)
            selection.set({search: selection.state.search === name(row) ? '' : name(row)});
        },
        isSelected: row => selection.state.search === name(row),
      };
    }

    /** @returns {Contents} the figures of `gpupool summary`. A row selects the time from the first to the last of its phases. */
    function phasesTable() {
      const recording = context.recording();
      /** @type {{name: string, times: number, peak: number, left: number, ends: number, first_end: number | null, last_end: number | null, most_end: number | null}[]} */
      const all = recording.summary.phases;
      const {from, to} = selection.state;
      const spans = all.map(({name}) => {
        const own = recording.phases.filter(phase => phase.name === name);
        return own.length ? {from: own[0].begin, to: Math.max(...own.map(phase => phase.end))} : null;
      });
      /** @param {number} row */
      const isSelected = row => spans[row]?.from === from && spans[row]?.to === to;
      /** @param {string} id @param {string} label @param {'first_end' | 'last_end' | 'most_end'} which @param {string} title @returns {TableColumn} */
      const endColumn = (id, label, which, title) => ({
        ...bytesColumn(id, label, row => all[row][which] ?? -1, title),
        text: row => all[row].ends ? formatBytes(/** @type {number} */ (all[row][which])) : '',
        plain: row => all[row][which] ?? '',
      });
      return {
        columns: [
          {id: 'phase', label: 'Phase', width: NAME_WIDTH, text: row => all[row].name},
          countColumn('times', 'Times', row => all[row].times, 'How often it began'),
          bytesColumn('peak', 'Peak within', row => all[row].peak, 'The most that the program had allocated in it, on all devices together'),
          bytesColumn('left', 'Left', row => all[row].left, 'What was allocated in it and not freed at the end, or when memory ran out if the summary is about that'),
          endColumn('first', 'First end', 'first_end', 'What the program had allocated when it ended the first time'),
          endColumn('last', 'Last end', 'last_end', 'What the program had allocated when it ended the last time'),
          endColumn('most', 'Most', 'most_end', 'The most that the program had allocated at any of its ends'),
        ],
        sort: 'peak', rows: all.keys(), about: formatPlural(all.length, 'phase'),
        open: row => {
          const span = spans[row];
          if (span)
            selection.set(isSelected(row) ? {from: 0, to: recording.end} : span);
        },
        isSelected,
      };
    }

    /** @returns {Contents} */
    function eventsTable() {
      const recording = context.recording();
      const {lives} = recording;
      const lifeAt = recording.eventsByMoment();
      const rows = eventRows(recording, selection.state, selection.partial());
      /**
       * A column about the allocation of an event, empty where it has none.
       * @param {string} id @param {string} label @param {string} width @param {ArrayLike<number>} values by life
       * @param {(value: number) => string} format @param {Partial<TableColumn>} [more] @returns {TableColumn}
       */
      const lifeColumn = (id, label, width, values, format, more) => ({
        id, label, width, isNumber: true, text: moment => lifeAt[moment] < 0 ? '' : format(values[lifeAt[moment]]),
        value: moment => lifeAt[moment] < 0 ? -2 : values[lifeAt[moment]], ...more,
      });
      /** @param {number} moment @returns {number} sorts allocations first, and events without a life last */
      const kindOf = moment => {
        const life = lifeAt[moment];
        return life < 0 ? 3 : lives.begin[life] === moment ? 0 : lives.freed[life] === moment ? 1 : 2;
      };
      return {
        columns: [
          {
            id: 'event', label: 'Event', width: '11ch', isNumber: true, text: moment => formatCount(recording.eventOf(moment)),
            value: moment => moment, plain: moment => recording.eventOf(moment),
          },
          {
            id: 'time', label: 'Time', width: '14ch', isNumber: true, value: moment => moment,
            text: moment => recording.hasTimes ? `${(recording.timeOf(moment) / 1e6).toFixed(3)} ms` : '',
            plain: moment => recording.hasTimes ? recording.timeOf(moment) : '',
          },
          {id: 'what', label: 'What', width: 'minmax(30ch, 1fr)', text: moment => momentEvent(recording, moment), value: kindOf},
          lifeColumn('size', 'Size', '11ch', lives.requested, formatBytes, {plain: moment => lifeAt[moment] < 0 ? '' : lives.requested[lifeAt[moment]]}),
          lifeColumn('address', 'Address', '18ch', lives.address, formatAddress, {isNumber: false}),
          lifeColumn('device', 'Device', '8ch', lives.device, String),
          lifeColumn('stream', 'Stream', '16ch', lives.stream, stream => recording.streamName(stream), {isNumber: false}),
          lifeColumn('thread', 'Thread', '18ch', lives.thread, thread => recording.threadName(thread), {isNumber: false}),
        ],
        sort: 'event', rows, about: formatPlural(rows.length, 'event'), isPartial: true,
        open: moment => selection.set({at: moment, life: lifeAt[moment]}), isSelected: moment => selection.state.at === moment,
      };
    }

    /** @returns {Contents} a row for each snapshot, with the sums of its devices. A row opens its snapshot. */
    function snapshotsTable() {
      const all = context.page.recordings;
      /** @param {number} row @param {(stats: any) => number | null} figure */
      const sum = (row, figure) => all[row].summary.devices.reduce((bytes, device) => bytes + (figure(device.stats) ?? 0), 0);
      /** @param {number} row */
      const process = row => all[row].summary.process;
      return {
        columns: [
          {id: 'name', label: 'Snapshot', width: NAME_WIDTH, text: row => all[row].name},
          {id: 'program', label: 'Program', width: '18ch', text: row => baseName(process(row).program || '')},
          numberColumn('rank', 'Rank', '7ch', row => process(row).rank),
          {id: 'host', label: 'Host', width: '14ch', text: row => process(row).host || ''},
          numberColumn('pid', 'Process', '9ch', row => process(row).pid),
          {id: 'reason', label: 'Written', width: '12ch', text: row => all[row].summary.reason || ''},
          ...['Reserved', 'Allocated', 'Requested'].map(label => {
            const id = label.toLowerCase();
            return bytesColumn(id, label, row => sum(row, stats => stats[`${id}_bytes`].peak), 'The peaks of all devices');
          }),
          bytesColumn('live', 'At the end', row => sum(row, stats => stats.requested_bytes.current), 'Requested and not freed at the end'),
          {...countColumn('ooms', 'Out of memory', row => sum(row, stats => stats.num_ooms)), width: '15ch'},
        ],
        sort: '', rows: all.keys(), about: formatPlural(all.length, 'snapshot'),
        open: row => selection.open(row), isSelected: row => selection.state.file === row,
      };
    }

    /** @param {{life: number}[]} all rows that select an allocation, and the moment when it was allocated */
    function choosesLife(all) {
      return {
        open: (/** @type {number} */ row) => selection.set({life: all[row].life, at: context.recording().lives.begin[all[row].life]}),
        isSelected: (/** @type {number} */ row) => selection.state.life === all[row].life,
      };
    }

    /** @type {Record<TableId, () => Contents>} */
    const makers = {
      owners: ownersTable, held: heldTable, sizes: sizesTable, threads: () => placesTable('thread'), streams: () => placesTable('stream'),
      phases: phasesTable, events: eventsTable, snapshots: snapshotsTable,
    };

    /** @param {boolean} isNew */
    function show(isNew) {
      const hasPhases = context.recording().summary.phases.length > 0;
      tabs.offer('phases', hasPhases);
      tabs.offer('snapshots', context.page.recordings.length > 1);
      if (which === 'phases' && !hasPhases)
        which = 'owners';
      tabs.show(which);
      const isSame = contents !== null && !isNew;
      contents = makers[which]();
      table.setColumns(contents.columns, isSame ? table.sort : {column: contents.sort, isDescending: which !== 'events'});
      about.textContent = contents.about + (contents.isPartial ? context.recording().leftOutText() : '');
      table.element.setAttribute('aria-label', `Table of ${which === 'held' ? 'what is allocated at the end' : which}`);
      table.setRows(Uint32Array.from(contents.rows), isNew);
      if (which === 'events')
        table.goTo(selection.state.at);
    }

    return {
      element: root,
      update(changed) {
        if (concerns(changed, 'file', 'from', 'to', 'device', 'search') || (changed.has('owner') && which !== 'owners')) {
          show(changed.has('file'));
          return;
        }
        if (concerns(changed, 'owner', 'life', 'at', 'theme'))
          table.draw(true);
        if (changed.has('at') && which === 'events')
          table.goTo(selection.state.at);
      },
    };
  },
};
