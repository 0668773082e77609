/**
 * The allocator's state at the selected moment: all memory from the driver, to scale, and its content.
 * Steps from event to event.
 */
/** @typedef {import('../main.js').Context} Context */
/** @typedef {import('../memory_state.js').MemoryState} MemoryState */
import {styleColor} from '../colors.js';
import {element, replace} from '../dom.js';
import {momentEvent} from '../events.js';
import {formatAddress, formatBytes, formatPlural} from '../format.js';
import {shownDevice} from '../memory_map.js';
import {stateAt} from '../memory_state.js';
import {Hint} from '../navigate.js';
import {Plot} from '../plot.js';

const ROW = 20;
const BAR = 16;
const GAP = 2; /* between segments */
const PLAY_MS = 120;

/** @typedef {{x: number, y: number, width: number, isFirst: boolean, isLast: boolean, piece: import('../memory_state.js').Piece, segment: import('../memory_state.js').SegmentState}} Box */

export const stateView = {
  id: 'state',
  title: 'Allocator state',
  /** @param {Context} context */
  create(context) {
    const {selection} = context;
    const plot = new Plot('The memory of the device at the moment: segments and what is in them, to scale', 'Arrow keys go from event to event', draw);
    const hint = new Hint(plot.element);
    const figures = element('div', {class: 'figures'});
    const what = element('span', {class: 'event', 'aria-live': 'polite'});
    const slider = /** @type {HTMLInputElement} */ (element('input', {
      type: 'range', min: '0', step: '1', 'aria-label': 'Moment', oninput: () => selection.set({at: Number(slider.value)}),
    }));
    const play = element('button', {class: 'small', title: 'Play, or stop (P)', onclick: toggle}, 'play');
    const root = element('section', {class: 'view'},
      element('div', {class: 'bar'},
        element('button', {class: 'small', title: 'The event before ([)', onclick: () => step(-1)}, '‹ event'),
        element('button', {class: 'small', title: 'The next event (])', onclick: () => step(1)}, 'event ›'),
        play,
        element('button', {class: 'small', title: 'When most was reserved or held', onclick: () => selection.set({at: peak()})}, 'peak'),
        element('button', {class: 'small oom', title: 'The next time that memory ran out', onclick: nextOom}, 'out of memory ›'),
        slider, what),
      figures, plot.element);
    /** @type {Box[]} */
    let boxes = [];
    /** @type {MemoryState | null} */
    let state = null;
    let timer = 0;

    /** @param {number} by */
    function step(by) {
      selection.set({at: selection.state.at + by});
    }

    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = 'play';
    }

    function toggle() {
      if (timer) {
        stop();
        return;
      }
      play.textContent = 'stop';
      const by = Math.max(1, Math.round((selection.state.to - selection.state.from) / 400));
      timer = window.setInterval(() => {
        if (selection.state.at >= selection.state.to || selection.state.view !== 'state')
          stop();
        else
          step(by);
      }, PLAY_MS);
    }

    /** @returns {number} */
    function peak() {
      return context.series(shownDevice(context)).allocated.peak();
    }

    function nextOom() {
      const ooms = context.recording().marks.filter(mark => mark.kind === 'oom');
      const next = ooms.find(mark => mark.moment > selection.state.at) || ooms[0];
      if (next)
        selection.set({at: next.moment, device: next.device >= 0 ? next.device : selection.state.device});
    }

    /** The out of memory at the selected moment. */
    function oomHere() {
      const {at} = selection.state;
      return context.recording().marks.find(mark => mark.kind === 'oom' && mark.moment === at && mark.device === shownDevice(context));
    }

    /** @param {MemoryState} now */
    function fillFigures(now) {
      const oom = oomHere();
      const shown = JSON.stringify({
        reserved: now.reserved, allocated: now.allocated, requested: now.requested, pending: now.pending, idle: now.idle,
        largest_idle: now.largestIdle, forwarded: now.forwarded, blocker: now.blocker, blocks: now.heldCount,
        segments: now.segments.length, asked: oom ? oom.size : null,
      });
      if (shown === figures.dataset.state)
        return; /* a button that is replaced while pressed gets no click */
      /** @param {string} name @param {number | string} value @param {string} [kind] */
      const figure = (name, value, kind = '') => element('div', {class: `figure ${kind}`},
        element('b', {}, typeof value === 'number' ? formatBytes(value) : value), element('span', {}, name));
      const isKnown = context.recording().knowsReserved(shownDevice(context), selection.state.at);
      const ofSegments = (/** @type {number} */ bytes) => isKnown ? bytes : 'not known';
      replace(figures,
        figure(isKnown ? 'reserved, in ' + formatPlural(now.segments.length, 'segment') : 'reserved', ofSegments(now.reserved)),
        figure('allocated, in ' + formatPlural(now.heldCount, 'block'), now.allocated),
        figure('freed, still in use', now.pending),
        figure('idle', ofSegments(now.idle)),
        figure('largest idle piece', ofSegments(now.largestIdle)),
        now.blocker >= 0 && element('button', {
          class: 'small blocker', title: 'The smaller of the two blocks beside the largest idle piece: freed, it would make it larger',
          onclick: () => selection.set({life: now.blocker}),
        }, 'what is beside it'),
        now.forwarded > 0 && figure('not pooled', now.forwarded),
        oom && figure('asked for in vain', oom.size, 'bad'));
      figures.dataset.state = shown;
    }

    function draw() {
      const {width, height} = plot;
      const recording = context.recording();
      const now = stateAt(recording, shownDevice(context), selection.state.at);
      state = now;
      fillFigures(now);
      lay(now, width, height);
      const matching = selection.isWhole ? null : selection.matches();
      for (const box of boxes)
        drawBox(box, matching);
    }

    /**
     * Lays segments out in rows, like words in a text.
     * @param {MemoryState} now @param {number} width @param {number} height
     */
    function lay(now, width, height) {
      const rows = Math.max(1, Math.floor(height / ROW));
      const room = Math.max(width, rows * width - now.segments.length * GAP - rows * 4);
      const factor = Math.min(room / Math.max(1, now.reserved), width / Math.max(1, now.reserved / Math.max(1, now.segments.length)) * 2);
      boxes = [];
      let x = 0;
      let y = 0;
      for (const segment of now.segments) {
        for (const piece of segment.pieces) {
          let left = piece.size * factor;
          while (left > 0) {
            if (x >= width) {
              x = 0;
              y += ROW;
            }
            const part = Math.min(left, width - x);
            boxes.push({x, y, width: part, isFirst: left === piece.size * factor, isLast: part === left, piece, segment});
            x += part;
            left -= part;
          }
        }
        x += GAP;
      }
    }

    /** @param {Box} box @param {Uint8Array | null} matching */
    function drawBox(box, matching) {
      const {context: ink} = plot;
      const {life, isPending} = box.piece;
      const recording = context.recording();
      if (life < 0)
        ink.fillStyle = styleColorOnce('--idle');
      else if (life === selection.state.life)
        ink.fillStyle = styleColorOnce('--ink');
      else if (matching && !matching[life])
        ink.fillStyle = styleColorOnce('--faint');
      else
        ink.fillStyle = context.colors.css[recording.lives.owner[life]];
      ink.globalAlpha = isPending ? 0.35 : 1;
      ink.fillRect(box.x, box.y, Math.max(0.5, box.width - (box.width > 3 && box.isLast ? 1 : 0)), BAR);
      ink.globalAlpha = 1;
      if (box.width > 60 && life >= 0 && box.isFirst) {
        ink.font = '11px system-ui, sans-serif';
        ink.textBaseline = 'middle';
        ink.fillStyle = life === selection.state.life ? styleColorOnce('--page') : styleColorOnce('--on-color');
        const size = formatBytes(recording.lives.requested[life]);
        const name = recording.hasStacks ? `${size}  ${recording.owners[recording.lives.owner[life]].name}` : size;
        plot.text(name, box.x + 4, box.y + BAR / 2, box.width - 8);
      }
    }

    /** @type {Map<string, string>} */
    const colorsByName = new Map();
    /** @param {string} name */
    function styleColorOnce(name) {
      let color = colorsByName.get(name);
      if (color === undefined) {
        color = styleColor(name);
        colorsByName.set(name, color);
      }
      return color;
    }

    /** @param {MouseEvent} event @returns {Box | undefined} */
    function boxAt(event) {
      const {x, y} = plot.place(event);
      return boxes.find(box => y >= box.y && y < box.y + ROW && x >= box.x && x < box.x + Math.max(1, box.width));
    }

    plot.canvas.addEventListener('mousemove', event => {
      const box = boxAt(event);
      const recording = context.recording();
      if (!box) {
        hint.hide();
        return;
      }
      const {life, isPending, size} = box.piece;
      const name = life < 0 ? 'idle' : isPending ? 'freed, still in use' : recording.ownerName(life);
      const asked = life >= 0 && recording.lives.requested[life] !== size ? `, ${formatBytes(recording.lives.requested[life])} asked for` : '';
      hint.show([`${formatBytes(size)}${asked}  ${name}`, `at ${formatAddress(box.segment.address + box.piece.offset)}`,
        `in a segment of ${formatBytes(box.segment.size)} at ${formatAddress(box.segment.address)}`], plot.place(event).x, plot.place(event).y);
    });
    plot.canvas.addEventListener('mouseleave', () => hint.hide());
    plot.canvas.addEventListener('click', event => {
      const box = boxAt(event);
      selection.set({life: box ? box.piece.life : -1});
    });
    plot.canvas.addEventListener('keydown', event => {
      if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
        event.preventDefault();
        step(event.key === 'ArrowLeft' ? -1 : 1);
      }
    });

    return {
      element: root,
      /** @param {Set<string>} changed */
      update(changed) {
        const recording = context.recording();
        if (changed.has('theme'))
          colorsByName.clear();
        slider.max = String(recording.end);
        slider.value = String(selection.state.at);
        slider.setAttribute('aria-valuetext', recording.momentText(selection.state.at));
        const device = recording.devices.length > 1 ? `device ${shownDevice(context)}, ` : '';
        what.textContent = `${device}${recording.momentText(selection.state.at)}: ${momentEvent(recording, selection.state.at)}`;
        /** @type {HTMLElement} */ (root.querySelector('.oom')).hidden = !recording.marks.some(mark => mark.kind === 'oom');
        plot.invalidate();
      },
      toggle,
      step,
      state: () => state,
    };
  },
};
