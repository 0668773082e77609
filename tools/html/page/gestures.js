/**
 * Mouse, pen and fingers on a plot: hover, click or tap, drag, and two fingers. One finger that moves up or
 * down still scrolls the page.
 */
/** @typedef {import('./plot.js').Plot} Plot */

const CLICK_PIXELS = 4;

/**
 * @typedef {{x: number, y: number}} Place in a plot
 * @typedef {{begin: Place, now: Place}} Held a pointer that is down
 *
 * @typedef {object} Gestures
 * @property {(x: number, y: number) => void} hover by what can: not by a finger
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} click
 * @property {() => void} grab what follows, drag or pinch, is relative to this moment
 * @property {(held: Held, event: PointerEvent) => void} drag
 * @property {(first: Held, second: Held) => void} pinch
 */

/** @param {Plot} plot @param {Gestures} gestures */
export function onGestures(plot, gestures) {
  const {canvas} = plot;
  /** @type {Map<number, Held>} */
  const down = new Map();
  let isMoved = false;

  function grab() {
    for (const held of down.values())
      held.begin = held.now;
    gestures.grab();
  }

  canvas.style.touchAction = 'pan-y';
  canvas.addEventListener('pointerdown', event => {
    if (event.button !== 0 || down.size === 2)
      return;
    canvas.setPointerCapture(event.pointerId);
    const place = plot.place(event);
    down.set(event.pointerId, {begin: place, now: place});
    isMoved = down.size === 2;
    grab();
  });
  canvas.addEventListener('pointermove', event => {
    const held = down.get(event.pointerId);
    const place = plot.place(event);
    if (!held) {
      if (event.pointerType !== 'touch')
        gestures.hover(place.x, place.y);
      return;
    }
    held.now = place;
    isMoved = isMoved || Math.max(Math.abs(place.x - held.begin.x), Math.abs(place.y - held.begin.y)) >= CLICK_PIXELS;
    if (!isMoved)
      return;
    gestures.leave();
    const [first, second] = down.values();
    if (second)
      gestures.pinch(first, second);
    else
      gestures.drag(first, event);
  });
  /** @param {PointerEvent} event */
  const end = event => {
    if (!down.delete(event.pointerId))
      return;
    if (event.type === 'pointerup' && !isMoved) {
      const {x, y} = plot.place(event);
      gestures.click(x, y);
    }
    grab(); /* the other finger drags on */
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end); /* the browser scrolls */
  canvas.addEventListener('pointerleave', () => {
    if (!down.size)
      gestures.leave();
  });
  canvas.addEventListener('touchmove', event => {
    if (down.size === 2 && event.cancelable)
      event.preventDefault(); /* else a pinch that drifts would scroll */
  }, {passive: false});
}
