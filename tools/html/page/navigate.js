/**
 * Moves and zooms the time on display by mouse, wheel and keys, in any plot along that axis.
 */
import {Axis} from './axis.js';
import {styleColor} from './colors.js';
import {onGestures} from './gestures.js';

export const NAVIGATE_KEYS = 'Arrow keys move the time; plus and minus zoom';
/** Height of the labels below a plot, in pixels. */
export const AXIS_HEIGHT = 20;

/**
 * The axis of a plot for the present selection.
 * @param {Plot} plot @param {Context} context @param {number} [width] @returns {Axis}
 */
export function axisOf(plot, context, width = plot.width) {
  const {from, to, axis} = context.selection.state;
  return new Axis(context.recording(), axis, from, to, width);
}

/**
 * Zooms around a place; stops at the ends of the recording.
 * @param {Context} context @param {Axis} axis @param {number} x @param {number} factor below 1 zooms in
 */
function zoom(context, axis, x, factor) {
  const recording = context.recording();
  const whole = new Axis(recording, axis.kind, 0, recording.end, axis.width);
  const span = (axis.high - axis.low) * factor;
  const value = axis.low + x / axis.width * (axis.high - axis.low);
  const low = value - x / axis.width * span;
  let from = momentOf(whole, low);
  let to = momentOf(whole, low + span);
  if (to - from < 4) {
    from = Math.max(0, Math.min(from, recording.end - 4));
    to = Math.min(recording.end, from + 4);
  }
  if (factor > 1 && from === axis.from && to === axis.to) { /* equal times block it: zooms out by events */
    from -= 1;
    to += 1;
  }
  context.selection.set({from: Math.max(0, from), to: Math.min(recording.end, to)});
}

/** @param {Axis} whole @param {number} value @returns {number} */
function momentOf(whole, value) {
  return whole.moment((value - whole.low) / (whole.high - whole.low) * whole.width);
}

/** @param {Context} context @param {Axis} axis @param {number} pixels to the right */
function pan(context, axis, pixels) {
  const recording = context.recording();
  const whole = new Axis(recording, axis.kind, 0, recording.end, axis.width);
  const span = axis.high - axis.low;
  let low = axis.low + pixels / axis.width * span;
  low = Math.max(whole.low, Math.min(low, whole.high - span));
  const from = momentOf(whole, low);
  const to = Math.max(from + Math.min(4, recording.end - from), momentOf(whole, low + span));
  context.selection.set({from, to});
}

/**
 * @param {Plot} plot @param {Context} context
 * @param {{hover: (x: number, y: number) => string[] | null, click: (x: number, y: number) => void, grab?: () => void,
 *   drag?: (dx: number, dy: number, event: PointerEvent) => boolean, wheel?: (event: WheelEvent) => boolean}} handlers drag and wheel return true if they have handled the event
 */
export function navigate(plot, context, handlers) {
  const {canvas} = plot;
  let grabbed = axisOf(plot, context);

  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    plot.moving();
    if (handlers.wheel && handlers.wheel(event))
      return;
    const axis = axisOf(plot, context);
    const {x} = plot.place(event);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
      pan(context, axis, event.deltaX);
    else
      zoom(context, axis, x, Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.004));
  }, {passive: false});
  onGestures(plot, {
    ...handlers,
    grab() {
      grabbed = axisOf(plot, context);
      if (handlers.grab)
        handlers.grab();
    },
    drag(begin, now, event) {
      plot.moving();
      if (!handlers.drag || !handlers.drag(now.x - begin.x, now.y - begin.y, event))
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

/**
 * Draws the labels below a plot, and their lines.
 * @param {Plot} plot @param {Axis} axis @param {number} bottom
 */
export function drawTicks(plot, axis, bottom) {
  const {context} = plot;
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'top';
  context.textAlign = 'left';
  for (const tick of axis.ticks()) {
    context.fillStyle = styleColor('--grid');
    context.fillRect(Math.round(tick.x), 0, 1, bottom);
    context.fillStyle = styleColor('--muted');
    if (tick.x + context.measureText(tick.text).width + 4 < axis.width)
      context.fillText(tick.text, tick.x + 3, bottom + 3);
  }
}

/**
 * Draws the moment that is selected as a line, if it is on display.
 * @param {Plot} plot @param {Context} context
 */
export function drawMoment(plot, context) {
  const at = axisOf(plot, context).x(context.selection.state.at);
  plot.context.fillStyle = styleColor('--ink');
  if (at >= 0 && at <= plot.width)
    plot.context.fillRect(Math.min(plot.width - 1, Math.round(at)), 0, 1, plot.height - AXIS_HEIGHT);
}
