/**
 * The page's shell: reads the data, makes the views, and updates them. The payload comes after this script, so that the script
 * can report a truncated file.
 */
import {OwnerColors, onTheme} from './colors.js';
import {createDetails} from './details.js';
import {button, element, replace, shorten} from './dom.js';
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

/** @type {ViewMaker[]} */
const VIEWS = [findingsView, bandsView, addressesView, stateView, flameView, tablesView];

const SERIES_KEPT = 3;

/** @param {Page} page @returns {Context} */
function makeContext(page) {
  const selection = new Selection(page.recordings);
  /** @type {Map<string, Record<SeriesName, Series>>} */
  const kept = new Map();
  const context = {
    page,
    selection,
    recording: () => selection.recording,
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

/** @param {Recording} recording @returns {string} "app, pid 4711, written when memory ran out" */
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

/** @param {string} label @param {string[][]} options value and text @param {(value: string) => void} choose */
function chooser(label, options, choose) {
  const select = /** @type {HTMLSelectElement} */ (element('select', {'aria-label': label, title: label, onchange: () => choose(select.value)}));
  fillChooser(select, options);
  return select;
}

/** @param {HTMLSelectElement} select @param {string[][]} options */
function fillChooser(select, options) {
  replace(select, ...options.map(([value, text]) => element('option', {value}, text)));
}

/** @param {Context} context @param {HTMLElement} linkButton */
function createHeader(context, linkButton) {
  const {selection, page} = context;
  const title = element('h1', {});
  const files = chooser('Snapshot', page.recordings.map((each, i) => [String(i), shorten(each.name, 60)]), value => selection.open(Number(value)));
  const devices = chooser('Device', [], value => selection.set({device: Number(value)}));
  const axis = chooser('Horizontal axis', [['time', 'by time'], ['event', 'by event']],
    value => selection.set({axis: value === 'time' ? 'time' : 'event'}));
  const frames = chooser('Call stacks', [['merged', 'all languages'], ['python', 'Python only'], ['native', 'C and C++ only']],
    value => selection.set({frames: /** @type {FrameChoice} */ (value)}));
  const all = /** @type {HTMLInputElement} */ (element('input', {type: 'checkbox', onchange: () => selection.set({allFrames: all.checked})}));
  const search = /** @type {HTMLInputElement} */ (element('input', {
    type: 'search', placeholder: 'function, file, thread, 0xaddress   /', 'aria-label': 'Search', oninput: () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => selection.set({search: search.value}), 120);
    },
  }));
  const chips = element('span', {});
  const matches = element('span', {class: 'chip plain', role: 'status'});
  let timer = 0;
  return {
    element: element('header', {class: 'top'}, title, chips, matches,
      page.recordings.length > 1 && files, devices, axis, frames,
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
        fillChooser(devices, [['-1', 'all devices'], ...recording.devices.map(each => [String(each), `device ${each}`])]);
        devices.hidden = recording.devices.length < 2;
        axis.hidden = !recording.hasTimes;
        frames.hidden = !recording.hasStacks;
        /** @type {HTMLElement} */ (all.parentElement).hidden = !recording.hasStacks;
        files.value = String(state.file);
      }
      devices.value = String(state.device);
      axis.value = state.axis;
      frames.value = state.frames;
      all.checked = state.allFrames;
      if (search !== document.activeElement)
        search.value = state.search;
      replace(chips, state.owner >= 0 &&
        button(`${shorten(recording.owners[state.owner].text, 100)} ×`, () => selection.set({owner: -1}), {class: 'chip', title: 'Show all owners'}));
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

  const missed = VIEWS.map(() => new Set(['file', 'view'])); /* the changes that each hidden view has missed */

  /** @param {Set<string>} changed */
  function update(changed) {
    if (changed.has('file') || changed.has('theme'))
      context.colors = new OwnerColors(context.recording());
    header.update(changed);
    curve.update(changed);
    details.update(changed);
    VIEWS.forEach((maker, i) => {
      const isOpen = maker.id === selection.state.view;
      tabs[i].setAttribute('aria-selected', String(isOpen));
      tabs[i].tabIndex = isOpen ? 0 : -1;
      panels[i].hidden = !isOpen;
      changed.forEach(key => missed[i].add(key));
      if (!isOpen)
        return;
      if (!views[maker.id]) {
        views[maker.id] = maker.create(context);
        panels[i].append(views[maker.id].element);
      }
      const waiting = missed[i];
      missed[i] = new Set();
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
      selection.showAll();
    else if (event.key === '[' || event.key === ']')
      selection.set({at: selection.state.at + (event.key === '[' ? -1 : 1)});
    else if ((event.key === 'p' || event.key === 'P') && selection.state.view === 'state')
      views.state.toggle();
    else
      return;
    event.preventDefault();
  });
}

async function start() {
  const root = /** @type {HTMLElement} */ (document.getElementById('page'));
  /** @type {any} for tests, and for people with the browser's developer tools */
  const shown = {ready: false, error: ''};
  /** @type {any} */ (window).gpupoolPage = shown;
  try {
    const holder = document.getElementById('payload');
    const payload = await readPayload(holder?.textContent?.trim() ?? '');
    if (holder)
      holder.textContent = ''; /* frees a text as large as the file */
    const page = {generator: payload.generator, recordings: payload.files.map(file => new Recording(file))};
    const context = makeContext(page);
    const {views, open} = build(context, root);
    open();
    Object.assign(shown, {views, page, context, selection: context.selection, state: () => ({...context.selection.state}), drawTimes});
  } catch (error) {
    shown.error = error instanceof PageError ? error.message : `This page could not be shown: ${error instanceof Error ? error.message : error}`;
    replace(root, element('p', {class: 'broken', role: 'alert'}, shown.error));
    if (!(error instanceof PageError))
      console.error(error);
  }
  shown.readyAfter = performance.now();
  shown.ready = true;
}

document.addEventListener('DOMContentLoaded', start);
