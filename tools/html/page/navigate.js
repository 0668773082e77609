/** Moves and zooms the time on display by mouse, wheel and keys, in any plot along that axis. */
import {Axis, lastWhere} from './axis.js';
import {styleColor} from './colors.js';
import {onGestures} from './gestures.js';

export const NAVIGATE_KEYS = 'Arrow keys move the time; plus and minus zoom';
const LEAST_EVENTS = 4; /* on display */

/** @param {Plot} plot @param {Context} context @param {number} [width] */
export function axisOf(plot, context, width = plot.width) {
  const {from, to, axis} = context.selection.state;
  return new Axis(context.recording(), axis, from, to, width);
}

/**
 * Shows `factor` times the time on display, from `low` on; stops at the ends of the recording.
 * @param {Context} context @param {Axis} axis @param {number} low @param {number} factor
 */
function show(context, axis, low, factor) {
  const {end} = context.recording();
  const span = (axis.high - axis.low) * factor;
  const begin = Math.max(axis.valueOf(0), Math.min(low, axis.valueOf(end) - span));
  /** @param {number} value */
  const momentOf = value => lastWhere(0, end, moment => axis.valueOf(moment) <= value);
  let from = momentOf(begin);
  let to = momentOf(begin + span);
  if (to - from < LEAST_EVENTS) {
    from = Math.max(0, Math.min(from, end - LEAST_EVENTS));
    to = from + LEAST_EVENTS;
  }
  if (factor > 1 && from === axis.from && to === axis.to) { /* equal times block it: zooms out by events */
    from -= 1;
    to += 1;
  }
  context.selection.set({from: Math.max(0, from), to: Math.min(end, to)});
}

/**
 * Zooms around a place.
 * @param {Context} context @param {Axis} axis @param {number} x @param {number} factor below 1 zooms in
 */
function zoom(context, axis, x, factor) {
  show(context, axis, axis.low + x / axis.width * (axis.high - axis.low) * (1 - factor), factor);
}

/** @param {Context} context @param {Axis} axis @param {number} pixels to the right */
function pan(context, axis, pixels) {
  show(context, axis, axis.low + pixels / axis.width * (axis.high - axis.low), 1);
}

/**
 * @param {Plot} plot @param {Context} context
 * @param {Gestures & {wheel?: (event: WheelEvent) => boolean}} handlers drag and wheel return true if they have handled the event
 */
export function navigate(plot, context, handlers) {
  const {canvas} = plot;
  let grabbed = axisOf(plot, context);

  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    plot.moving();
    if (handlers.wheel?.(event))
      return;
    const axis = axisOf(plot, context);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
      pan(context, axis, event.deltaX);
    else
      zoom(context, axis, plot.place(event).x, Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.004));
  }, {passive: false});
  onGestures(plot, {
    ...handlers,
    grab() {
      grabbed = axisOf(plot, context);
      handlers.grab?.();
    },
    drag(begin, now, event) {
      plot.moving();
      if (!handlers.drag?.(begin, now, event))
        pan(context, grabbed, begin.x - now.x);
    },
  });
  canvas.addEventListener('keydown', event => {
    const axis = axisOf(plot, context);
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => pan(context, axis, -axis.width / 8),
      ArrowRight: () => pan(context, axis, axis.width / 8),
      '+': () => zoom(context, axis, axis.width / 2, 0.6),
      '=': () => zoom(context, axis, axis.width / 2, 0.6),
      '-': () => zoom(context, axis, axis.width / 2, 1.7),
    };
    if (!Object.hasOwn(keys, event.key) || event.ctrlKey || event.metaKey || event.altKey)
      return;
    event.preventDefault();
    plot.moving();
    keys[event.key]();
  });
}

/** @param {Plot} plot @param {Axis} axis */
export function drawTicks(plot, axis) {
  const {context, bottom} = plot;
  for (const tick of axis.ticks()) {
    context.fillStyle = styleColor('--grid');
    context.fillRect(Math.round(tick.x), 0, 1, bottom);
    plot.textStyle('--muted', 'top');
    if (tick.x + context.measureText(tick.text).width + 4 < axis.width)
      context.fillText(tick.text, tick.x + 3, bottom + 3);
  }
}

/** @param {Plot} plot @param {Axis} axis @param {number} at @param {number} [bottom] of the line */
export function drawMoment(plot, axis, at, bottom = plot.bottom) {
  const x = axis.x(at);
  plot.context.fillStyle = styleColor('--ink');
  if (x >= 0 && x <= plot.width)
    plot.context.fillRect(Math.min(plot.width - 1, Math.round(x)), 0, 1, bottom);
}
