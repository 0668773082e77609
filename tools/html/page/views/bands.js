/**
 * The active memory timeline: each allocation is a band from its begin to its free, on top of earlier ones.
 * Allocations that are small on the display share one band at the top.
 */
import {lastWhere} from '../axis.js';
import {stylePixel} from '../colors.js';
import {element} from '../dom.js';
import {formatBytes, formatCount, formatDuration} from '../format.js';
import {NAVIGATE_KEYS, axisOf, drawMoment, drawTicks, navigate} from '../navigate.js';
import {Plot, Raster} from '../plot.js';
import {HOST} from '../recording.js';

const SHOWN = 8000; /* most bands of their own */
const SHOWN_MOVING = 1500;
const LABEL_HEIGHT = 14;
const LABEL_WIDTH = 70;
const BUCKETS = 64 * 8;
const ROOM_ABOVE = 1.04;

/**
 * Chooses the lives that get bands, and the total height. A column shows what is held after its last moment.
 * @param {Recording} recording @param {Axis} axis @param {Uint8Array | null} matching null: all
 * @param {number} most bands
 */
function layOutBands(recording, axis, matching, most) {
  const {lives} = recording;
  const {from, to, width: columns} = axis;
  const places = axis.columns();
  const changes = new Float64Array(columns + 1);
  const counts = new Uint32Array(BUCKETS);
  const areas = new Uint16Array(lives.count); /* bucket of each life + 1; 0: not shown */
  const {begin, freed, rounded, kind} = lives;
  let count = 0;
  const upper = lastWhere(0, lives.count, place => begin[place - 1] <= to); /* sorted by begin: ignores later ones */
  for (let i = 0; i < upper; i++) {
    if (freed[i] <= from || kind[i] === HOST || (matching && !matching[i]))
      continue;
    const first = begin[i] <= from ? 0 : places[begin[i] - from];
    const last = freed[i] > to ? columns : places[freed[i] - from];
    if (last <= first)
      continue; /* gone before the next column begins */
    changes[first] += rounded[i];
    changes[last] -= rounded[i];
    const bucket = Math.min(BUCKETS - 1, Math.max(0, Math.floor(Math.log2(rounded[i] * (last - first) + 1) * 8)));
    counts[bucket]++;
    areas[i] = bucket + 1;
    count++;
  }
  let least = BUCKETS - 1;
  let sum = counts[least];
  while (least > 0 && sum + counts[least - 1] <= most) {
    least--;
    sum += counts[least];
  }
  const room = Math.min(count, Math.max(most, sum));
  const chosen = new Int32Array(room);
  const firsts = new Uint16Array(room);
  const lasts = new Uint16Array(room);
  let chosenCount = 0;
  for (let i = 0; i < upper && chosenCount < room; i++) {
    if (areas[i] <= least)
      continue;
    chosen[chosenCount] = i;
    firsts[chosenCount] = begin[i] <= from ? 0 : places[begin[i] - from];
    lasts[chosenCount] = freed[i] > to ? columns : places[freed[i] - from];
    chosenCount++;
  }
  const total = changes.subarray(0, columns);
  let held = 0;
  let top = 1;
  for (let x = 0; x < columns; x++) {
    held += changes[x];
    total[x] = held;
    top = held > top ? held : top;
  }
  return {
    axis, columns, top, /* bytes */
    chosen, chosenCount, /* lives with bands of their own, sorted by begin */
    firsts, lasts, /* their columns; the last is exclusive */
    total, /* bytes of all that match, by column */
    others: count - chosenCount, /* lives without a band of their own */
  };
}

/** @typedef {ReturnType<typeof layOutBands>} Layout */

/** @type {ViewMaker} */
export const bandsView = {
  id: 'bands',
  title: 'Active memory',
  create(context) {
    const {selection} = context;
    const plot = new Plot('Active memory timeline: each allocation as a band over time', NAVIGATE_KEYS, draw);
    const raster = new Raster();
    const note = element('p', {class: 'note', 'aria-live': 'polite'});
    const root = element('section', {class: 'view'}, note, plot.element);
    /** @type {Layout | null} */
    let layout = null;

    function draw() {
      const {width, bottom} = plot;
      const recording = context.recording();
      const scale = plot.isMoving ? 1 : Math.min(2, plot.ratio);
      const columns = plot.isMoving ? Math.ceil(width / 2) : Math.round(width * scale);
      const rows = Math.max(1, Math.round(bottom * scale));
      layout = layOutBands(recording, axisOf(plot, context, columns), selection.partial(), plot.isMoving ? SHOWN_MOVING : SHOWN);
      raster.begin(columns, rows);
      const labels = paint(recording, layout, rows, scale);
      drawTicks(plot, axisOf(plot, context));
      raster.put(plot.context, width, bottom);
      if (!plot.isMoving)
        drawLabels(recording, labels, width / columns, bottom / rows);
      drawMoment(plot, axisOf(plot, context), selection.state.at);
      plot.textStyle('--muted', 'top');
      plot.context.fillText(formatBytes(Math.round(layout.top)), 3, 2);
      describe(recording, layout);
    }

    /**
     * Paints bands from the bottom up, column by column.
     * @param {Recording} recording @param {Layout} bands @param {number} rows @param {number} scale
     * @returns {{life: number, column: number, width: number, y: number, height: number}[]} places with room for a label
     */
    function paint(recording, bands, rows, scale) {
      const {columns, chosen, firsts, lasts, top, total} = bands;
      const {lives} = recording;
      const {colors} = context;
      const factor = rows / (top * ROOM_ABOVE);
      const below = new Float64Array(columns);
      const {pixels} = raster;
      const selected = selection.state.life;
      const selectedPixel = stylePixel('--ink');
      const labels = [];
      for (let k = 0; k < bands.chosenCount; k++) {
        const life = chosen[k];
        const bytes = lives.rounded[life];
        const height = bytes * factor;
        const color = life === selected ? selectedPixel : colors.pixel(lives.owner[life], life);
        const edge = life === selected ? selectedPixel : colors.edges[lives.owner[life]];
        const hasEdge = height >= 3 * scale;
        const isWide = height >= LABEL_HEIGHT * scale && lasts[k] - firsts[k] >= LABEL_WIDTH;
        let runBegin = firsts[k];
        let bestBegin = 0;
        let bestLength = 0;
        for (let x = firsts[k]; x < lasts[k]; x++) {
          const low = below[x];
          const high = low + bytes;
          const y1 = rows - Math.round(low * factor);
          const y0 = Math.max(0, rows - Math.round(high * factor));
          below[x] = high;
          if (y0 < y1) {
            let at = y0 * columns + x;
            pixels[at] = hasEdge ? edge : color;
            at += columns;
            for (let y = y0 + 1; y < y1; y++, at += columns)
              pixels[at] = color;
          }
          if (isWide && x > runBegin && below[x] !== below[x - 1])
            runBegin = x;
          if (isWide && x - runBegin >= bestLength) {
            bestLength = x - runBegin + 1;
            bestBegin = runBegin;
          }
        }
        if (isWide && bestLength >= LABEL_WIDTH)
          labels.push({life, column: bestBegin, width: bestLength, y: rows - below[bestBegin] * factor, height});
      }
      const small = stylePixel('--small');
      for (let x = 0; x < columns; x++) { /* lives without a band of their own */
        const y1 = rows - Math.round(below[x] * factor);
        const y0 = Math.max(0, rows - Math.round(total[x] * factor));
        for (let y = y0; y < y1; y++)
          pixels[y * columns + x] = small;
      }
      return labels;
    }

    /** @param {Recording} recording @param {ReturnType<typeof paint>} labels @param {number} perColumn @param {number} perRow */
    function drawLabels(recording, labels, perColumn, perRow) {
      plot.textStyle('--on-color', 'middle');
      for (const label of labels) {
        const size = formatBytes(recording.lives.requested[label.life]);
        const name = recording.hasStacks ? `${recording.owners[recording.lives.owner[label.life]].name}  ${size}` : size;
        plot.text(name, label.column * perColumn + 5, (label.y + label.height / 2) * perRow, label.width * perColumn - 10);
      }
    }

    /** @param {Recording} recording @param {Layout} bands */
    function describe(recording, bands) {
      const others = bands.others ? `; ${formatCount(bands.others)} smaller ones are the grey part on top` : '';
      const left = recording.leftOut.count
        ? `; ${formatCount(recording.leftOut.count)} of at most ${formatBytes(recording.leftOut.largest)} are not in this page` : '';
      note.textContent = `${formatCount(bands.chosenCount)} allocations as bands${others}${left}. ` +
        'Turn the wheel to zoom, drag to move, click a band for its call stack.';
    }

    /** @param {number} x @param {number} y @returns {number} a life; -1: none, or a small one */
    function lifeAt(x, y) {
      if (!layout)
        return -1;
      const {rounded} = context.recording().lives;
      const column = Math.floor(x / plot.width * layout.columns);
      let bytes = (1 - y / plot.bottom) * layout.top * ROOM_ABOVE;
      for (let k = 0; k < layout.chosenCount; k++) {
        if (layout.firsts[k] > column || layout.lasts[k] <= column)
          continue;
        bytes -= rounded[layout.chosen[k]];
        if (bytes < 0)
          return layout.chosen[k];
      }
      return -1;
    }

    navigate(plot, context, {
      hover(x, y) {
        const recording = context.recording();
        const life = lifeAt(x, y);
        plot.canvas.style.cursor = life >= 0 ? 'pointer' : '';
        if (life < 0 || y > plot.bottom)
          return null;
        const {lives} = recording;
        const lasts = recording.hasTimes && lives.freed[life] <= recording.end
          ? `, for ${formatDuration(recording.times[lives.freed[life]] - recording.times[lives.begin[life]])}` : '';
        const asked = lives.requested[life] !== lives.rounded[life] ? `, ${formatBytes(lives.requested[life])} requested` : '';
        return [formatBytes(lives.rounded[life]) + asked + lasts, recording.ownerName(life), `from ${recording.momentText(lives.begin[life])}`];
      },
      click(x, y) {
        selection.set({life: lifeAt(x, y), at: axisOf(plot, context).moment(x)});
      },
    });

    return {
      element: root,
      update: () => plot.invalidate(),
      layout: () => layout,
    };
  },
};
