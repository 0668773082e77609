/** The allocator's state at the selected moment: all memory from the driver, to scale, and its content. */
import {styleColor} from '../colors.js';
import {button, element, replace} from '../dom.js';
import {momentEvent} from '../events.js';
import {formatAddress, formatBytes, formatPlural} from '../format.js';
import {onGestures} from '../gestures.js';
import {shownDevice} from '../memory_map.js';
import {stateAt} from '../memory_state.js';
import {Plot} from '../plot.js';

const ROW = 20;
const BAR = 16;
const GAP = 2; /* between segments */
const PLAY_MS = 120;

/** @typedef {{x: number, y: number, width: number, isFirst: boolean, isLast: boolean, piece: Piece, segment: SegmentState}} Box */

/** @type {ViewMaker} */
export const stateView = {
  id: 'state',
  title: 'Allocator state',
  create(context) {
    const {selection} = context;
    const plot = new Plot('The memory of the device at the moment: segments and what is in them, to scale', 'Arrow keys go from event to event', draw);
    const figures = element('div', {class: 'figures'});
    const what = element('span', {class: 'event', 'aria-live': 'polite'});
    const slider = /** @type {HTMLInputElement} */ (element('input', {
      type: 'range', min: '0', step: '1', 'aria-label': 'Moment', oninput: () => selection.set({at: Number(slider.value)}),
    }));
    const play = button('play', toggle, {title: 'Play, or stop (P)'});
    const ooms = button('out of memory ›', nextOom, {title: 'The next time that memory ran out'});
    const root = element('section', {class: 'view'},
      element('div', {class: 'bar'},
        button('‹ event', () => step(-1), {title: 'The event before ([)'}),
        button('event ›', () => step(1), {title: 'The next event (])'}),
        play,
        button('peak', () => selection.set({at: context.series(shownDevice(context)).allocated.peak()}), {title: 'When most was allocated'}),
        ooms, slider, what),
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

    function nextOom() {
      const {ooms} = context.recording();
      const next = ooms.find(mark => mark.moment > selection.state.at) || ooms[0];
      if (next)
        selection.set({at: next.moment, device: next.device >= 0 ? next.device : selection.state.device});
    }

    /** @param {MemoryState} now */
    function fillFigures(now) {
      const oom = context.recording().ooms.find(mark => mark.moment === selection.state.at && mark.device === shownDevice(context));
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
        now.blocker >= 0 && button('what is beside it', () => selection.set({life: now.blocker}), {
          class: 'small blocker', title: 'The smaller of the two blocks beside the largest idle piece: freed, it would make it larger',
        }),
        now.forwarded > 0 && figure('forwarded', now.forwarded),
        oom && figure('requested and refused', oom.size, 'bad'));
      figures.dataset.state = shown;
    }

    function draw() {
      const {width, height} = plot;
      const recording = context.recording();
      const now = stateAt(recording, shownDevice(context), selection.state.at);
      state = now;
      fillFigures(now);
      lay(now, width, height);
      const matching = selection.partial();
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
      ink.fillStyle = life < 0 ? styleColor('--idle')
        : life === selection.state.life ? styleColor('--ink')
        : matching && !matching[life] ? styleColor('--faint')
        : context.colors.css[recording.lives.owner[life]];
      ink.globalAlpha = isPending ? 0.35 : 1;
      ink.fillRect(box.x, box.y, Math.max(0.5, box.width - (box.width > 3 && box.isLast ? 1 : 0)), BAR);
      ink.globalAlpha = 1;
      if (box.width > 60 && life >= 0 && box.isFirst) {
        plot.textStyle(life === selection.state.life ? '--page' : '--on-color', 'middle');
        const size = formatBytes(recording.lives.requested[life]);
        const name = recording.hasStacks ? `${size}  ${recording.owners[recording.lives.owner[life]].name}` : size;
        plot.text(name, box.x + 4, box.y + BAR / 2, box.width - 8);
      }
    }

    /** @param {number} x @param {number} y */
    function boxAt(x, y) {
      return boxes.find(box => y >= box.y && y < box.y + ROW && x >= box.x && x < box.x + Math.max(1, box.width));
    }

    onGestures(plot, {
      hover(x, y) {
        const box = boxAt(x, y);
        if (!box)
          return null;
        const recording = context.recording();
        const {life, isPending, size, offset} = box.piece;
        const {segment} = box;
        const name = life < 0 ? 'idle' : isPending ? 'freed, still in use' : recording.ownerName(life);
        const asked = life >= 0 && recording.lives.requested[life] !== size ? `, ${formatBytes(recording.lives.requested[life])} requested` : '';
        return [`${formatBytes(size)}${asked}  ${name}`, `at ${formatAddress(segment.address + offset)}`,
          `in a segment of ${formatBytes(segment.size)} at ${formatAddress(segment.address)}`];
      },
      click: (x, y) => selection.set({life: boxAt(x, y)?.piece.life ?? -1}),
    });
    plot.canvas.addEventListener('keydown', event => {
      if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
        event.preventDefault();
        step(event.key === 'ArrowLeft' ? -1 : 1);
      }
    });

    return {
      element: root,
      update() {
        const recording = context.recording();
        slider.max = String(recording.end);
        slider.value = String(selection.state.at);
        slider.setAttribute('aria-valuetext', recording.momentText(selection.state.at));
        const device = recording.devices.length > 1 ? `device ${shownDevice(context)}, ` : '';
        what.textContent = `${device}${recording.momentText(selection.state.at)}: ${momentEvent(recording, selection.state.at)}`;
        ooms.hidden = !recording.ooms.length;
        plot.invalidate();
      },
      toggle,
      step,
      state: () => state,
    };
  },
};
