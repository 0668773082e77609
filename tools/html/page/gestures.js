/**
 * The mouse on a plot: a hint beside the pointer, clicks and drags.
 */
import {element, replace} from './dom.js';

const CLICK_PIXELS = 4;

/**
 * @typedef {{x: number, y: number}} Place in a plot
 *
 * @typedef {object} Gestures
 * @property {(x: number, y: number) => string[] | null} hover lines of a hint
 * @property {(x: number, y: number) => void} click
 * @property {() => void} [grab] a drag may follow
 * @property {(begin: Place, now: Place, event: PointerEvent) => void} [drag]
 */

/** @param {Plot} plot @param {Gestures} gestures */
export function onGestures(plot, gestures) {
  const {canvas} = plot;
  const hint = new Hint(plot.element);
  /** @type {Place | null} */
  let begin = null; /* where the button was pressed */
  let isMoved = false;

  canvas.addEventListener('pointerdown', event => {
    if (event.button !== 0)
      return;
    canvas.setPointerCapture(event.pointerId);
    begin = plot.place(event);
    isMoved = false;
    if (gestures.grab)
      gestures.grab();
  });
  canvas.addEventListener('pointermove', event => {
    const now = plot.place(event);
    if (!begin) {
      hint.show(gestures.hover(now.x, now.y), now);
      return;
    }
    isMoved = isMoved || Math.max(Math.abs(now.x - begin.x), Math.abs(now.y - begin.y)) >= CLICK_PIXELS;
    if (!isMoved)
      return;
    hint.show(null, now);
    if (gestures.drag)
      gestures.drag(begin, now, event);
  });
  canvas.addEventListener('pointerup', event => {
    const {x, y} = plot.place(event);
    if (begin && !isMoved)
      gestures.click(x, y);
    begin = null;
  });
  canvas.addEventListener('pointercancel', () => {
    begin = null;
  });
  canvas.addEventListener('pointerleave', event => hint.show(null, plot.place(event)));
}

/** A hint beside the pointer. */
class Hint {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.element = element('div', {class: 'hint', hidden: true});
    parent.append(this.element);
  }

  /** @param {string[] | null} lines null: hides it @param {Place} place in the parent */
  show(lines, {x, y}) {
    this.element.hidden = !lines;
    if (!lines)
      return;
    replace(this.element, ...lines.map(line => element('div', {}, line)));
    const parent = /** @type {HTMLElement} */ (this.element.parentElement);
    const width = this.element.offsetWidth;
    const height = this.element.offsetHeight;
    this.element.style.left = `${Math.max(0, x + 14 + width > parent.clientWidth ? x - width - 10 : x + 14)}px`;
    this.element.style.top = `${Math.max(0, y + 14 + height > parent.clientHeight ? y - height - 6 : y + 14)}px`;
  }
}
