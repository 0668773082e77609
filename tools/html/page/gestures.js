/** The mouse on a plot: a hint beside the pointer, clicks and drags. */
import {element, replace} from './dom.js';

const CLICK_PIXELS = 4;

/** @param {Plot} plot @param {Gestures} gestures */
export function onGestures(plot, gestures) {
  const {canvas} = plot;
  const hint = element('div', {class: 'hint', hidden: true});
  /** @type {Place | null} */
  let begin = null; /* where the button was pressed */
  let isMoved = false;
  plot.element.append(hint);

  /** @param {string[] | null} lines null: hides the hint @param {Place} place of the pointer */
  function showHint(lines, {x, y}) {
    hint.hidden = !lines;
    if (!lines)
      return;
    replace(hint, ...lines.map(line => element('div', {}, line)));
    const {offsetWidth: width, offsetHeight: height} = hint;
    hint.style.left = `${Math.max(0, x + 14 + width > plot.element.clientWidth ? x - width - 10 : x + 14)}px`;
    hint.style.top = `${Math.max(0, y + 14 + height > plot.element.clientHeight ? y - height - 6 : y + 14)}px`;
  }

  canvas.addEventListener('pointerdown', event => {
    if (event.button !== 0)
      return;
    canvas.setPointerCapture(event.pointerId);
    begin = plot.place(event);
    isMoved = false;
    gestures.grab?.();
  });
  canvas.addEventListener('pointermove', event => {
    const now = plot.place(event);
    if (!begin) {
      showHint(gestures.hover(now.x, now.y), now);
      return;
    }
    isMoved ||= Math.max(Math.abs(now.x - begin.x), Math.abs(now.y - begin.y)) >= CLICK_PIXELS;
    if (!isMoved)
      return;
    showHint(null, now);
    gestures.drag?.(begin, now, event);
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
  canvas.addEventListener('pointerleave', event => showHint(null, plot.place(event)));
}
