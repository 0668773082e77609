/** What happened, the evidence, and what to do: the findings of `gpupool summary`, then the figures of each device. */
import {oomMoment} from '../amounts.js';
import {button, element, nameList, replace} from '../dom.js';
import {formatBytes, formatCount, formatDuration, formatPercent} from '../format.js';
import {COUNTERS, GAUGES} from '../labels.js';

/** @type {Record<string, string>} */
const SIGNS = {error: '!', warning: '!', note: 'i', good: '✓'};

/** @type {ViewMaker} */
export const findingsView = {
  id: 'findings',
  title: 'What happened',
  create(context) {
    const {selection} = context;
    const list = element('ol', {class: 'findings'});
    const facts = element('div', {class: 'facts'});
    const root = element('section', {class: 'view scroll', role: 'region', 'aria-label': 'What happened', tabindex: '0'}, list, facts);

    /** @param {any} finding @returns {HTMLElement[]} links to the evidence for it */
    function links(finding) {
      const recording = context.recording();
      const made = [];
      const at = oomMoment(recording)?.moment;
      const device = finding.device ?? -1;
      if (at !== undefined && (finding.code.startsWith('oom') || finding.code === 'owners')) {
        made.push(button('the memory at that moment', () => selection.set({at, device, view: 'state'})));
        made.push(button('the time before', () => selection.set({at, device, view: 'bands'})));
      }
      const owner = recording.owners.findIndex(each => finding.remedy && finding.remedy.owner && each.name === finding.remedy.owner);
      if (owner >= 0)
        made.push(button('only what it holds', () => selection.set({owner, view: 'bands'})));
      if (/grow|leak/.test(finding.code))
        made.push(button('memory over time', () => selection.set({view: 'bands'})));
      if (/frag|hole|pieces/.test(finding.code))
        made.push(button('addresses', () => selection.set({device, view: 'addresses'})));
      return made;
    }

    /** @param {any} finding */
    function card(finding) {
      return element('li', {class: `finding ${finding.severity}`},
        element('span', {class: 'sign', 'aria-hidden': 'true'}, SIGNS[finding.severity] || 'i'),
        element('div', {},
          element('p', {class: 'message'}, finding.message),
          finding.advice && element('p', {class: 'advice'}, element('b', {}, 'What to do: '), finding.advice),
          element('div', {class: 'links'}, ...links(finding))));
    }

    /** @param {any} device */
    function deviceTable(device) {
      const {stats} = device;
      const count = (/** @type {number | null} */ number) => number === null ? '-' : formatCount(number);
      const size = (/** @type {number | null} */ bytes) => bytes === null ? '-' : formatBytes(bytes);
      const used = GAUGES.filter(([name]) => stats[name].current || stats[name].peak);
      const rows = used.map(([name, unit, label]) => element('tr', {'data-name': name}, element('th', {scope: 'row'}, label),
        ...[stats[name].current, stats[name].peak, stats[name].allocated].map(number =>
          element('td', {class: 'number', 'data-value': number === null ? '' : number}, unit === 'bytes' ? size(number) : count(number)))));
      /** @type {[string, string][]} */
      const counts = [
        ['allocations', count(stats.allocation.allocated)],
        .../** @type {[string, string][]} */ (COUNTERS.map(([name, label]) => [label, count(stats[name])])),
        ['hit rate', stats.cache_hits === null ? '-' : formatPercent(stats.cache_hit_rate || 0)],
        ['live blocks', formatCount(device.live.count)], ['largest idle', formatBytes(device.largest_idle)],
      ];
      return element('section', {class: 'device', 'data-device': device.device},
        element('h2', {}, `Device ${device.device}${device.limit ? `, limit ${formatBytes(device.limit)}` : ''}`),
        element('table', {class: 'plain'},
          element('thead', {}, element('tr', {}, element('th', {}, ''), element('th', {scope: 'col', class: 'number'}, 'at the end'),
            element('th', {scope: 'col', class: 'number'}, 'peak'), element('th', {scope: 'col', class: 'number'}, 'total'))),
          element('tbody', {}, ...rows)),
        nameList('counts', counts));
    }

    function process() {
      const {summary, name} = context.recording();
      const {process: what} = summary;
      const settings = Object.entries(summary.settings || {}).filter(([key]) => summary.settings.sources && key in summary.settings.sources)
        .map(([key, value]) => `${key}=${value}`).join(' ');
      /** @type {[string, string][]} */
      const rows = [
        ['snapshot', name], ['program', what.program], ['command', (what.command_line || []).join(' ')],
        ['process', what.pid ? `pid ${what.pid} on ${what.host}${(what.rank ?? null) !== null ? `, rank ${what.rank}` : ''}` : ''],
        ['began', what.start_time_us ? new Date(what.start_time_us / 1000).toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : ''],
        ['recorded', summary.has_times ? `${formatCount(summary.events.count)} events up to ${formatDuration(summary.until_ns)}` : `${formatCount(summary.events.count)} events, without times`],
        ['settings', settings],
      ];
      return element('section', {class: 'device'}, element('h2', {}, 'Process'), nameList('process', rows));
    }

    function notes() {
      const recording = context.recording();
      const {summary, leftOut, range} = recording;
      const made = [];
      if (range)
        made.push(`This page shows events ${formatCount(range.from)} to ${formatCount(range.to)} of ${formatCount(recording.eventCount)}; what stands here is of all of them.`);
      if (leftOut.count)
        made.push(`${formatCount(leftOut.count)} allocations of at most ${formatBytes(leftOut.largest)} each are left out of the pictures, for a browser could not show them all; their sum is in the curve. gpupool html --range A..B shows a part whole.`);
      if (summary.dropped_events || summary.recorded_since_ns)
        made.push(`Events before ${formatDuration(summary.recorded_since_ns)} are not recorded (${formatCount(summary.dropped_events)} of them); what is live is complete.`);
      for (const text of summary.missing || [])
        made.push(text);
      return made.map(text => element('p', {class: 'note'}, text));
    }

    return {
      element: root,
      update(changed) {
        if (!changed.has('file'))
          return;
        const {summary} = context.recording();
        replace(list, ...summary.findings.map(card));
        if (!summary.findings.length)
          replace(list, element('li', {class: 'finding good'}, element('span', {class: 'sign'}, '✓'), element('p', {}, 'Nothing went wrong that the snapshot shows.')));
        replace(facts, ...notes(), element('div', {class: 'columns'}, ...summary.devices.map(deviceTable), process()));
      },
    };
  },
};
