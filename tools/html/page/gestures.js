/**
 * The mouse on a plot: hover, click and drag.
 */
/** @typedef {import('./plot.js').Plot} Plot */

const CLICK_PIXELS = 4;

/**
 * @typedef {{x: number, y: number}} Place in a plot
 *
 * @typedef {object} Gestures
 * @property {(x: number, y: number) => void} hover
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} click
 * @property {() => void} [grab] a drag may follow
 * @property {(begin: Place, now: Place, event: PointerEvent) => void} drag
 */

/** @param {Plot} plot @param {Gestures} gestures */
export function onGestures(plot, gestures) {
  const {canvas} = plot;
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
      gestures.hover(now.x, now.y);
      return;
    }
    isMoved = isMoved || Math.max(Math.abs(now.x - begin.x), Math.abs(now.y - begin.y)) >= CLICK_PIXELS;
    if (!isMoved)
      return;
    gestures.leave();
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
  canvas.addEventListener('pointerleave', () => gestures.leave());
}
