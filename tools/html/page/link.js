/**
 * The link to what is on display. The fragment of the page's address has each part of the selection that differs from how the
 * page opens: "#view=bands&owner=load_weights&at=3394".
 */
import {lastWhere} from './axis.js';
import {copyButton} from './copy.js';
import {button, element, replace, shorten} from './dom.js';

const WRITE_AFTER = 400; /* ms: browsers refuse many changes of the address in a short time */
const IGNORED_SHOWN = 4;

/** @param {string} text @param {number} low @param {number} high @returns {number | undefined} a whole number from low to high */
function numberOf(text, low, high) {
  return /^-?\d{1,15}$/.test(text) && Number(text) >= low && Number(text) <= high ? Number(text) : undefined;
}

/** @param {string[]} words @returns {Part} */
function oneOf(words) {
  return {read: (_, text) => words.includes(text) ? text : undefined};
}

/**
 * How a part of the selection is written, and read: undefined if the recording does not have it.
 * @typedef {{write?: (recording: Recording, value: any) => string, read: (recording: Recording, text: string) => any}} Part
 */

/** @type {Part} as the event before the moment, which is the same in a page of a part of the time */
const MOMENT = {
  write: (recording, moment) => String(recording.eventOf(moment)),
  read: (recording, text) => {
    const event = numberOf(text, recording.eventOf(0), recording.eventOf(recording.end));
    return event === undefined ? undefined : lastWhere(0, recording.end, moment => recording.eventOf(moment) <= event);
  },
};

/** @type {Record<string, Part>} */
const PARTS = {
  device: {read: (recording, text) => recording.devices.find(device => String(device) === text)},
  owner: {
    write: (recording, owner) => recording.owners[owner].name,
    read: (recording, text) => {
      const owner = recording.owners.findIndex(each => each.name === text);
      return owner < 0 ? undefined : owner;
    },
  },
  life: {
    write: (recording, life) => String(recording.lives.block[life]), /* the snapshot's own number of it */
    read: (recording, text) => {
      const life = recording.lives.block.indexOf(numberOf(text, 0, Infinity) ?? -1);
      return life < 0 ? undefined : life;
    },
  },
  from: MOMENT,
  to: MOMENT,
  at: MOMENT,
  search: {read: (_, text) => text},
  axis: {read: (recording, text) => text === 'event' || (text === 'time' && recording.hasTimes) ? text : undefined},
  frames: oneOf(['merged', 'python', 'native']),
  allFrames: {read: (_, text) => text === 'true' || undefined},
};

/**
 * @param {string} fragment of an address, without "#" @param {Recording[]} recordings @param {string[]} views
 * @returns {{file: number, patch: Partial<SelectionState>, ignored: string[]}} ignored: what is not in the file
 */
function readLink(fragment, recordings, views) {
  const words = new URLSearchParams(fragment);
  const file = numberOf(words.get('file') || '0', 0, recordings.length - 1);
  const recording = recordings[file || 0];
  /** @type {Record<string, any>} */
  const patch = {view: views[0], search: '', frames: 'merged', allFrames: false};
  /** @type {string[]} */
  const ignored = [];
  for (const [name, text] of words) {
    const part = name === 'view' ? oneOf(views) : Object.hasOwn(PARTS, name) ? PARTS[name] : null;
    const value = name === 'file' ? file : part ? part.read(recording, text) : undefined;
    if (value === undefined)
      ignored.push(text ? `${name}=${text}` : name);
    else if (part)
      patch[name] = value;
  }
  if ((patch.from ?? 0) > (patch.to ?? recording.end)) {
    ignored.push('from after to');
    delete patch.from;
    delete patch.to;
  }
  return {file: file || 0, patch, ignored};
}

/**
 * Keeps the address up to date, and opens what it says.
 * @param {Context} context @param {string[]} views ids; the page opens with the first
 */
export function createLink(context, views) {
  const {selection, page} = context;
  const notice = element('div', {class: 'notice', role: 'status', onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      replace(notice);
    }
  }});
  let timer = 0;

  function address() {
    const {state} = selection;
    const recording = context.recording();
    /** @type {Record<string, any>} */
    const initial = {file: 0, view: views[0], ...selection.initial};
    const words = new URLSearchParams();
    for (const name of ['file', 'view', ...Object.keys(PARTS)]) {
      const value = /** @type {any} */ (state)[name];
      if (value !== initial[name])
        words.set(name, PARTS[name]?.write?.(recording, value) ?? String(value));
    }
    const fragment = words.toString();
    return location.href.split('#')[0] + (fragment ? '#' + fragment : '');
  }

  function write() {
    try {
      if (address() !== location.href)
        history.replaceState(null, '', address());
    } catch (error) { /* a page inside of another may not; the button still copies it */
    }
  }

  /** @param {...(Node | string)} parts */
  function say(...parts) {
    replace(notice, ...parts, button('×', () => replace(notice), {'aria-label': 'Close'}));
  }

  function open() {
    const {file, patch, ignored} = readLink(location.hash.slice(1), page.recordings, views);
    replace(notice);
    selection.open(file, patch);
    if (ignored.length)
      say(`The link names what is not in this page: ${ignored.slice(0, IGNORED_SHOWN).map(each => shorten(each, 40)).join(', ')}` +
        `${ignored.length > IGNORED_SHOWN ? ` and ${ignored.length - IGNORED_SHOWN} more` : ''}. That is ignored.`);
  }

  selection.subscribe(() => {
    clearTimeout(timer);
    timer = window.setTimeout(write, WRITE_AFTER);
  });
  window.addEventListener('hashchange', open);
  return {
    open,
    notice,
    button: copyButton('Copy link', 'Copies a link to what is shown: view, device, selection, time and search', address, text => {
      const field = /** @type {HTMLInputElement} */ (element('input', {readonly: true, 'aria-label': 'Link', value: text}));
      say('Copy this link:', field);
      field.select();
    }),
  };
}
