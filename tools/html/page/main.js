/**
 * The page's shell: reads the data, makes the views, and tells them about changes. The payload comes after
 * this script, so that the script can report a truncated file.
 */
import {OwnerColors, onTheme} from './colors.js';
import {createDetails} from './details.js';
import {element, replace, shorten} from './dom.js';
import {baseName, formatCount, formatPlural} from './format.js';
import {PageError, readPayload} from './payload.js';
import {drawTimes} from './plot.js';
import {createLink} from './link.js';
import {Recording} from './recording.js';
import {Selection} from './selection.js';
import {makeSeries} from './series.js';
import {addressesView} from './views/addresses.js';
import {bandsView} from './views/bands.js';
import {curveView} from './views/curve.js';
import {findingsView} from './views/findings.js';
import {flameView} from './views/flame.js';
import {stateView} from './views/state.js';
import {tablesView} from './views/tables.js';

/**
 * @typedef {{element: HTMLElement, update: (changed: Set<string>) => void}} View
 * @typedef {{id: string, title: string, create: (context: Context) => View}} ViewMaker
 * @typedef {{generator: string, recordings: Recording[]}} Page
 * @typedef {object} Context what all views have
 * @property {Page} page
 * @property {Selection} selection
 * @property {() => Recording} recording the one on display
 * @property {OwnerColors} colors of its owners
 * @property {(device: number) => Record<SeriesName, Series>} series of it
 */

/** @type {ViewMaker[]} */
const VIEWS = [findingsView, bandsView, addressesView, stateView, flameView, tablesView];

const SERIES_KEPT = 3;

/** @returns {string} the payload's text in the page */
function payloadText() {
  const holder = document.getElementById('payload');
  return holder && holder.textContent ? holder.textContent.trim() : '';
}

/** @param {Page} page @returns {Context} */
function makeContext(page) {
  const selection = new Selection();
  /** @type {Map<string, Record<SeriesName, Series>>} */
  const kept = new Map();
  const context = {
    page,
    selection,
    recording: () => page.recordings[selection.state.file],
    colors: new OwnerColors(page.recordings[0]),
    /** @param {number} device */
    series(device) {
      const key = `${selection.state.file} ${device}`;
      let series = kept.get(key);
      if (!series) {
        series = makeSeries(context.recording(), device);
        if (kept.size >= SERIES_KEPT)
          kept.delete(/** @type {string} */ (kept.keys().next().value));
        kept.set(key, series);
      }
      return series;
    },
  };
  return context;
}

/**
 * "app, pid 4711, written when memory ran out".
 * @param {Recording} recording @returns {string}
 */
function titleOf(recording) {
  const {process, reason} = recording.summary;
  const parts = [baseName(process.program || recording.name)];
  if (process.pid)
    parts.push(`pid ${process.pid}`);
  if (process.rank !== null && process.rank !== undefined)
    parts.push(`rank ${process.rank}`);
  parts.push(reason === 'oom' ? 'written when memory ran out' : reason === 'PyTorch snapshot' ? 'written by PyTorch' : reason ? `written at ${reason}` : '');
  return parts.filter(Boolean).join(', ');
}

/** @param {string} label @param {{value: string, text: string}[]} options @param {(value: string) => void} choose */
function chooser(label, options, choose) {
  const select = /** @type {HTMLSelectElement} */ (element('select', {'aria-label': label, title: label, onchange: () => choose(select.value)}));
  /** @param {{value: string, text: string}[]} list */
  const fill = list => replace(select, ...list.map(each => element('option', {value: each.value}, each.text)));
  fill(options);
  return {select, fill};
}

/**
 * The line at the top.
 * @param {Context} context @param {HTMLElement} linkButton
 */
function createHeader(context, linkButton) {
  const {selection, page} = context;
  const title = element('h1', {});
  const files = chooser('Snapshot', page.recordings.map((each, i) => ({value: String(i), text: shorten(each.name, 60)})), value => {
    selection.open(page.recordings[Number(value)], Number(value));
  });
  const devices = chooser('Device', [], value => selection.set({device: Number(value)}));
  const axis = chooser('Horizontal axis', [{value: 'time', text: 'by time'}, {value: 'event', text: 'by event'}],
    value => selection.set({axis: value === 'time' ? 'time' : 'event'}));
  const frames = chooser('Call stacks', [{value: 'merged', text: 'all languages'}, {value: 'python', text: 'Python only'}, {value: 'native', text: 'C and C++ only'}],
    value => selection.set({frames: /** @type {any} */ (value)}));
  const all = /** @type {HTMLInputElement} */ (element('input', {type: 'checkbox', onchange: () => selection.set({allFrames: all.checked})}));
  const search = /** @type {HTMLInputElement} */ (element('input', {
    type: 'search', placeholder: 'function, file, thread, 0xaddress   /', 'aria-label': 'Search', oninput: () => later(() => selection.set({search: search.value})),
  }));
  const chips = element('span', {});
  const matches = element('span', {class: 'chip plain', role: 'status'});
  let timer = 0;
  /** @param {() => void} action */
  function later(action) {
    clearTimeout(timer);
    timer = window.setTimeout(action, 120);
  }
  return {
    element: element('header', {class: 'top'}, title, chips, matches,
      page.recordings.length > 1 && files.select, devices.select, axis.select, frames.select,
      element('label', {class: 'check', title: 'Also the frames of allocators, interpreters and runtimes'}, all, 'all frames'), search, linkButton),
    search,
    /** @param {Set<string>} changed */
    update(changed) {
      const recording = context.recording();
      const {state} = selection;
      if (changed.has('file')) {
        const text = titleOf(recording);
        replace(title, element('span', {class: 'brand'}, 'gpupool'), shorten(text, 90));
        const file = recording.summary.process.program ? `${shorten(baseName(recording.name), 60)}: ` : '';
        document.title = `${file}${text} - gpupool`;
        devices.fill([{value: '-1', text: 'all devices'}, ...recording.devices.map(each => ({value: String(each), text: `device ${each}`}))]);
        devices.select.hidden = recording.devices.length < 2;
        axis.select.hidden = !recording.hasTimes;
        frames.select.hidden = !recording.hasStacks;
        /** @type {HTMLElement} */ (all.parentElement).hidden = !recording.hasStacks;
        files.select.value = String(state.file);
      }
      devices.select.value = String(state.device);
      axis.select.value = state.axis;
      frames.select.value = state.frames;
      all.checked = state.allFrames;
      if (search !== document.activeElement)
        search.value = state.search;
      replace(chips,
        state.owner >= 0 && element('button', {class: 'chip', title: 'Show all owners', onclick: () => selection.set({owner: -1})},
          `${shorten(recording.owners[state.owner].text, 100)} ×`));
      matches.textContent = state.search || state.owner >= 0
        ? `${formatCount(selection.matches().reduce((sum, each) => sum + each, 0))} of ${formatPlural(recording.lives.count, 'allocation')}` : '';
    },
  };
}

/** @param {Context} context @param {HTMLElement} root */
function build(context, root) {
  const {selection} = context;
  const link = createLink(context, VIEWS.map(maker => maker.id));
  const header = createHeader(context, link.button);
  const curve = curveView.create(context);
  const details = createDetails(context);
  /** @type {Record<string, View>} */
  const views = {};
  const tabs = VIEWS.map((maker, i) => element('button', {
    role: 'tab', id: `tab-${maker.id}`, 'aria-controls': `view-${maker.id}`, title: `${maker.title} (${i + 1})`,
    onclick: () => selection.set({view: maker.id}),
  }, maker.title));
  const panels = VIEWS.map(maker => element('div', {role: 'tabpanel', id: `view-${maker.id}`, 'aria-labelledby': `tab-${maker.id}`, class: 'panel', hidden: true}));
  const tabList = element('nav', {role: 'tablist', class: 'tabs', 'aria-label': 'Views', onkeydown: moveTab}, ...tabs);
  replace(root, header.element, link.notice, curve.element, tabList, element('div', {class: 'body'}, ...panels, details.element));

  /** @param {KeyboardEvent} event */
  function moveTab(event) {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!by)
      return;
    const at = VIEWS.findIndex(maker => maker.id === selection.state.view);
    const next = (at + by + VIEWS.length) % VIEWS.length;
    selection.set({view: VIEWS[next].id});
    tabs[next].focus();
  }

  /**
   * The changes that each hidden view has missed.
   * @type {Map<string, Set<string>>}
   */
  const missed = new Map(VIEWS.map(maker => [maker.id, new Set(['file', 'view'])]));

  /** @param {Set<string>} changed */
  function update(changed) {
    if (changed.has('file') || changed.has('theme'))
      context.colors = changed.has('file') ? new OwnerColors(context.recording()) : (context.colors.make(), context.colors);
    header.update(changed);
    curve.update(changed);
    details.update(changed);
    VIEWS.forEach((maker, i) => {
      const isOpen = maker.id === selection.state.view;
      const waiting = /** @type {Set<string>} */ (missed.get(maker.id));
      tabs[i].setAttribute('aria-selected', String(isOpen));
      tabs[i].tabIndex = isOpen ? 0 : -1;
      panels[i].hidden = !isOpen;
      for (const key of changed)
        waiting.add(key);
      if (!isOpen)
        return;
      if (!views[maker.id]) {
        views[maker.id] = maker.create(context);
        panels[i].append(views[maker.id].element);
      }
      missed.set(maker.id, new Set());
      views[maker.id].update(waiting);
    });
  }
  selection.subscribe(update);
  onTheme(() => update(new Set(['theme'])));
  addKeys(context, header.search, views);
  return {views, open: link.open};
}

/**
 * Adds the keys that work anywhere.
 * @param {Context} context @param {HTMLInputElement} search @param {Record<string, any>} views
 */
function addKeys(context, search, views) {
  const {selection} = context;
  document.addEventListener('keydown', event => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === 'Escape') {
      selection.set({life: -1, owner: -1, search: ''});
      search.value = '';
      target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))
      return;
    const number = Number(event.key) - 1;
    if (VIEWS[number])
      selection.set({view: VIEWS[number].id});
    else if (event.key === '/')
      search.focus();
    else if (event.key === 'f' || event.key === 'F')
      selection.set({from: 0, to: context.recording().end});
    else if (event.key === '[' || event.key === ']')
      selection.set({at: selection.state.at + (event.key === '[' ? -1 : 1)});
    else if ((event.key === 'p' || event.key === 'P') && selection.state.view === 'state')
      views.state.toggle();
    else
      return;
    event.preventDefault();
  });
}

/** @param {unknown} error @returns {string} */
function errorText(error) {
  return error instanceof PageError ? error.message : `This page could not be shown: ${error instanceof Error ? error.message : error}`;
}

async function start() {
  const root = /** @type {HTMLElement} */ (document.getElementById('page'));
  /**
   * For tests, and for people with the browser's developer tools.
   * @type {any}
   */
  const shown = {ready: false, error: ''};
  /** @type {any} */ (window).gpupoolPage = shown;
  try {
    const payload = await readPayload(payloadText());
    const holder = document.getElementById('payload');
    if (holder)
      holder.textContent = ''; /* frees a text as large as the file */
    const page = {generator: payload.generator, recordings: payload.files.map(file => new Recording(file))};
    const context = makeContext(page);
    const {views, open} = build(context, root);
    context.selection.state.file = -1;
    open();
    Object.assign(shown, {views, page, context, selection: context.selection, state: () => ({...context.selection.state}), drawTimes});
  } catch (error) {
    shown.error = errorText(error);
    replace(root, element('p', {class: 'broken', role: 'alert'}, shown.error));
    if (!(error instanceof PageError))
      console.error(error);
  }
  shown.readyAfter = performance.now();
  shown.ready = true;
}

document.addEventListener('DOMContentLoaded', start);
