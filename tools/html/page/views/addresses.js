/** Addresses over time: each allocation is a box of its addresses and its time, drawn over the memory from the driver. */
import {styleColor, stylePixel} from '../colors.js';
import {button, element} from '../dom.js';
import {formatAddress, formatBytes, formatCount} from '../format.js';
import {MemoryMap, shownDevice} from '../memory_map.js';
import {NAVIGATE_KEYS, axisOf, drawMoment, drawTicks, navigate} from '../navigate.js';
import {Plot, Raster} from '../plot.js';

const FEW = 16; /* pixels of a row */

/** @type {ViewMaker} */
export const addressesView = {
  id: 'addresses',
  title: 'Addresses',
  create(context) {
    const {selection} = context;
    const plot = new Plot('Addresses over time: each allocation as a box of its addresses and its time', NAVIGATE_KEYS, draw);
    const raster = new Raster();
    const note = element('p', {class: 'note'});
    const whole = button('all addresses', () => show(0, 1));
    const root = element('section', {class: 'view'}, element('div', {class: 'bar'}, note, whole), plot.element);
    /** @type {MemoryMap | null} */
    let map = null;
    let low = 0; /* the part of the places on display; 0 is the lowest address, 1 the highest */
    let high = 1;
    let grabbed = [0, 1]; /* low and high when a drag began */

    /** @param {number} from @param {number} to */
    function show(from, to) {
      const span = Math.max(1e-7, Math.min(1, to - from));
      low = Math.max(0, Math.min(from, 1 - span));
      high = low + span;
      plot.invalidate();
    }

    /**
     * Zooms the addresses around a place.
     * @param {number[]} range low and high before it @param {number} y @param {number} factor below 1 zooms in
     * @param {number} [toY] where what was at y is then
     */
    function zoomPlaces([from, to], y, factor, toY = y) {
      /** @param {number} at */
      const share = at => 1 - at / plot.bottom;
      const span = Math.min(1, (to - from) * factor);
      const begin = from + share(y) * (to - from) - share(toY) * span;
      show(begin, begin + span);
    }

    function mapOf() {
      const device = shownDevice(context);
      if (!map || map.device !== device) {
        map = new MemoryMap(context.recording(), device);
        low = 0;
        high = 1;
      }
      return map;
    }

    function draw() {
      const {width} = plot;
      const recording = context.recording();
      const scale = plot.isMoving ? 1 : Math.min(2, plot.ratio);
      const columns = Math.round(width * scale);
      const rows = Math.max(1, Math.round(plot.bottom * scale));
      const shown = mapOf();
      const count = paint(recording, axisOf(plot, context, columns), shown, columns, rows);
      drawTicks(plot, axisOf(plot, context));
      raster.put(plot.context, width, plot.bottom);
      drawMoment(plot, axisOf(plot, context), selection.state.at);
      whole.hidden = low === 0 && high === 1;
      note.textContent = `Device ${shown.device}: ${formatBytes(Math.round(shown.size * (high - low)))} of addresses from below to above, gaps left out; ` +
        `${formatCount(count)} allocations. Grey is reserved and idle, pale is freed and still in use. ` +
        'The wheel zooms the time, with Shift the addresses.';
    }

    /**
     * @param {Recording} recording @param {Axis} axis @param {MemoryMap} shown
     * @param {number} columns @param {number} rows @returns {number} number of allocations in the picture
     */
    function paint(recording, axis, shown, columns, rows) {
      const {lives, segments} = recording;
      const {colors} = context;
      const {from, to} = axis;
      const places = axis.columns();
      const base = low * shown.size;
      const factor = rows / ((high - low) * shown.size);
      const matching = selection.partial();
      const selected = selection.state.life;
      const faint = stylePixel('--faint');
      const ink = stylePixel('--ink');
      let count = 0;
      raster.begin(columns, rows);
      const {pixels} = raster;

      /** @param {number} place @param {number} size @param {number} begin @param {number} end @param {number} color @param {number} edge */
      function box(place, size, begin, end, color, edge) {
        const x0 = begin <= from ? 0 : places[begin - from];
        const x1 = end > to ? columns : Math.max(x0 + 1, places[end - from]);
        const bottom = (place - base) * factor;
        const y1 = Math.min(rows, rows - Math.floor(bottom));
        const y0 = Math.max(0, Math.min(y1 - 1, rows - Math.floor(bottom + size * factor)));
        if (y1 <= 0 || y0 >= rows)
          return false;
        const line = y1 - y0 > 3 ? edge : color;
        if (x1 - x0 < FEW) { /* most boxes of a large recording: a call for each would take longer */
          for (let y = y0; y < y1; y++)
            for (let at = y * columns + x0; at < y * columns + x1; at++)
              pixels[at] = y === y0 ? line : color;
          return true;
        }
        for (let y = y0; y < y1; y++)
          pixels.fill(y === y0 ? line : color, y * columns + x0, y * columns + x1);
        return true;
      }

      const idle = stylePixel('--idle');
      const frame = stylePixel('--idle-edge');
      for (let i = 0; i < segments.count; i++)
        if (shown.segmentPlaces[i] >= 0 && segments.begin[i] <= to && segments.end[i] > from)
          box(shown.segmentPlaces[i], segments.size[i], segments.begin[i], segments.end[i], idle, frame);
      for (let i = 0; i < lives.count && lives.begin[i] <= to; i++) {
        if (shown.places[i] < 0 || lives.done[i] <= from)
          continue;
        const isShown = !matching || matching[i] === 1;
        const owner = lives.owner[i];
        const color = !isShown ? faint : i === selected ? ink : colors.pixel(owner, i);
        let isThere = false;
        if (lives.freed[i] > from)
          isThere = box(shown.places[i], lives.rounded[i], lives.begin[i], lives.freed[i], color, isShown ? colors.edges[owner] : faint);
        if (lives.done[i] > lives.freed[i] && lives.freed[i] <= to && isShown)
          isThere = box(shown.places[i], lives.rounded[i], Math.max(lives.freed[i], from), lives.done[i], colors.pending[owner], colors.pending[owner]) || isThere;
        count += isThere && isShown ? 1 : 0;
      }
      return count;
    }

    /** @param {number} y */
    function placeAt(y) {
      return (low + (1 - y / plot.bottom) * (high - low)) * mapOf().size;
    }

    /** @param {number} x @param {number} y @returns {number} a life, pending or held; -1: none */
    function lifeAt(x, y) {
      const {lives} = context.recording();
      const moment = axisOf(plot, context).moment(x);
      const place = placeAt(y);
      const shown = mapOf();
      const tolerance = (high - low) * shown.size / Math.max(1, plot.bottom);
      let near = -1;
      for (let i = 0; i < lives.count && lives.begin[i] <= moment; i++) {
        if (shown.places[i] < 0 || lives.done[i] <= moment)
          continue;
        if (place >= shown.places[i] && place < shown.places[i] + lives.rounded[i])
          return i;
        if (Math.abs(shown.places[i] - place) <= tolerance)
          near = i;
      }
      return near;
    }

    navigate(plot, context, {
      hover(x, y) {
        const recording = context.recording();
        if (y > plot.bottom)
          return null;
        const life = lifeAt(x, y);
        plot.canvas.style.cursor = life >= 0 ? 'pointer' : '';
        const lines = [formatAddress(Math.floor(mapOf().address(placeAt(y)))), recording.momentText(axisOf(plot, context).moment(x))];
        if (life >= 0)
          lines.unshift(`${formatBytes(recording.lives.rounded[life])}  ${recording.ownerName(life)}`);
        return lines;
      },
      click(x, y) {
        selection.set({life: lifeAt(x, y), at: axisOf(plot, context).moment(x)});
      },
      grab() {
        grabbed = [low, high];
      },
      drag(begin, now, event) {
        if (high - low < 1)
          zoomPlaces(grabbed, begin.y, 1, now.y);
        return event.shiftKey;
      },
      wheel(event) {
        if (!event.shiftKey)
          return false;
        zoomPlaces([low, high], plot.place(event).y, Math.exp((event.deltaY || event.deltaX) * 0.004));
        return true;
      },
    });

    return {
      element: root,
      update(changed) {
        if (changed.has('file'))
          map = null;
        plot.invalidate();
      },
    };
  },
};
