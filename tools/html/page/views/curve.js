/**
 * Memory over all of the time, always at the top. The user drags to choose the time for the other views, and clicks on a moment.
 */
import {Axis} from '../axis.js';
import {styleColor} from '../colors.js';
import {button, element, shorten} from '../dom.js';
import {markText} from '../events.js';
import {formatBytes, formatCount} from '../format.js';
import {onGestures} from '../gestures.js';
import {drawMoment, drawTicks} from '../navigate.js';
import {PHASE_HEIGHT, drawPhases, phaseAtPlace, phaseLines, phaseRows, phasesAt} from '../phases.js';
import {Plot} from '../plot.js';
import {concerns} from '../selection.js';

const NEAR = 5;
const KEYS = 'Arrow keys move the moment, with Shift by a hundredth';
const PHASE_KEYS = `${KEYS}; Enter selects the time of the phase, then of the one around it`;

/** @type {{name: SeriesName, label: string, color: string, isFilled: boolean}[]} */
const LINES = [
  {name: 'reserved', label: 'reserved', color: '--reserved', isFilled: false},
  {name: 'pending', label: 'freed, still in use', color: '--pending', isFilled: true},
  {name: 'allocated', label: 'allocated', color: '--allocated', isFilled: true},
  {name: 'requested', label: 'requested', color: '--requested', isFilled: false},
  {name: 'forwarded', label: 'forwarded', color: '--forwarded', isFilled: false},
];

/** @type {Record<string, string>} */
const MARK_COLORS = {oom: '--error', mark: '--accent', begin: '--accent', end: '--accent'}; /* others: --muted */

/** @type {ViewMaker} */
export const curveView = {
  id: 'curve',
  title: 'Memory over time',
  create(context) {
    const {selection} = context;
    const plot = new Plot('Memory over time: reserved, allocated, requested, freed but in use, and forwarded', KEYS, draw, 'slider');
    const legend = element('div', {class: 'legend'});
    const root = element('section', {class: 'curve', 'aria-label': 'Memory over time'}, legend, plot.element);
    let top = 1;

    function wholeAxis() {
      const recording = context.recording();
      return new Axis(recording, selection.state.axis, 0, recording.end, plot.width);
    }

    /** Where the band of phases begins, or the labels without one. */
    function bottomOfCurve() {
      return plot.bottom - phaseRows(context.recording()) * PHASE_HEIGHT;
    }

    function draw() {
      const {context: ink, width} = plot;
      const axis = wholeAxis();
      const edges = axis.edges();
      const series = context.series(selection.state.device);
      const bottom = bottomOfCurve();
      const end = context.recording().end;
      top = Math.max(1, series.reserved.most(0, end), series.allocated.most(0, end), series.forwarded.most(0, end)) * 1.06;
      drawTicks(plot, axis);
      drawPhases(plot, axis, context.recording(), bottom);
      for (const line of LINES)
        if (line.name !== 'reserved' || context.recording().knowsReserved(selection.state.device, 0))
          drawLine(series, line, edges, bottom);
      drawMarks(axis, bottom);
      const from = axis.x(selection.state.from);
      const to = axis.x(selection.state.to);
      ink.fillStyle = styleColor('--veil');
      ink.fillRect(0, 0, from, bottom);
      ink.fillRect(to, 0, width - to, bottom);
      ink.fillStyle = styleColor('--accent');
      if (selection.state.from > 0 || selection.state.to < end) {
        ink.fillRect(Math.round(from) - 1, 0, 2, bottom);
        ink.fillRect(Math.round(to) - 1, 0, 2, bottom);
      }
      drawMoment(plot, axis, selection.state.at, bottom);
      plot.textStyle('--muted', 'top');
      ink.fillText(formatBytes(Math.round(top)), 3, 2);
      ink.textBaseline = 'middle';
      ink.fillText(formatBytes(Math.round(top / 2)), 3, bottom / 2);
    }

    /**
     * Draws a line; pending memory is stacked on allocated memory.
     * @param {Record<string, Series>} series @param {typeof LINES[0]} line
     * @param {Uint32Array} edges @param {number} bottom
     */
    function drawLine(series, line, edges, bottom) {
      const {context: ink, width} = plot;
      const color = styleColor(line.color);
      ink.beginPath();
      ink.moveTo(0, bottom);
      for (let x = 0; x < width; x++) {
        const last = Math.max(edges[x], edges[x + 1] - (x + 1 < width ? 1 : 0));
        let most = series[line.name].most(edges[x], last);
        if (line.name === 'pending')
          most += series.allocated.most(edges[x], last);
        const y = bottom - most / top * (bottom - 4);
        ink.lineTo(x, y);
        ink.lineTo(x + 1, y);
      }
      if (line.isFilled) {
        ink.lineTo(width, bottom);
        ink.closePath();
        ink.fillStyle = color;
        ink.fill();
      } else {
        ink.strokeStyle = color;
        ink.lineWidth = 1.4;
        ink.stroke();
      }
    }

    /** @param {Axis} axis @param {number} bottom */
    function drawMarks(axis, bottom) {
      const {context: ink} = plot;
      let last = '';
      for (const mark of context.recording().marks) {
        const x = Math.min(plot.width - 2, Math.round(axis.x(mark.moment)));
        const key = `${x} ${mark.kind}`;
        if (key === last)
          continue;
        last = key;
        const isError = mark.kind === 'oom';
        ink.fillStyle = styleColor(Object.hasOwn(MARK_COLORS, mark.kind) ? MARK_COLORS[mark.kind] : '--muted');
        ink.fillRect(x, isError ? 0 : bottom - 8, isError ? 2 : 1, isError ? bottom : 8);
      }
    }

    /** @param {number} x @param {number} y */
    function phaseUnder(x, y) {
      const top = bottomOfCurve();
      return y >= top && y < plot.bottom ? phaseAtPlace(wholeAxis(), context.recording(), x, y - top) : null;
    }

    /** @param {Phase} phase */
    function isSelected(phase) {
      return selection.state.from === phase.begin && selection.state.to === phase.end;
    }

    /** @param {number} x @param {number} y */
    function hover(x, y) {
      const recording = context.recording();
      const axis = wholeAxis();
      const phase = phaseUnder(x, y);
      if (phase)
        return phaseLines(recording, phase);
      const moment = axis.moment(x);
      const series = context.series(selection.state.device);
      const lines = [recording.momentText(moment)];
      for (const line of LINES)
        if (line.name !== 'forwarded' || series.forwarded.values[moment] > 0)
          lines.push(`${line.label}: ${formatBytes(series[line.name].values[moment])}`);
      let shown = 0;
      for (const mark of recording.marks)
        if (Math.abs(axis.x(mark.moment) - x) <= NEAR && shown++ < 4)
          lines.push(`${markText(mark)} (${recording.momentText(mark.moment)})`);
      return lines;
    }

    /** @param {number} x @returns {number} the moment of a near mark, else that under the pointer */
    function momentAt(x) {
      const axis = wholeAxis();
      let best = NEAR + 1;
      let moment = axis.moment(x);
      for (const mark of context.recording().marks) {
        const distance = Math.abs(axis.x(mark.moment) - x) + (mark.kind === 'oom' ? 0 : 0.5);
        if (distance < best) {
          best = distance;
          moment = mark.moment;
        }
      }
      return moment;
    }

    onGestures(plot, {
      hover,
      click(x, y) {
        const phase = phaseUnder(x, y);
        if (phase)
          choosePhase(isSelected(phase) ? null : phase);
        else
          selection.set({at: momentAt(x)});
      },
      drag(begin, now) {
        const axis = wholeAxis();
        const from = axis.moment(Math.max(0, Math.min(begin.x, now.x)));
        selection.set({from, to: Math.max(from + 1, axis.moment(Math.min(plot.width, Math.max(begin.x, now.x))))});
      },
    });
    plot.canvas.addEventListener('dblclick', () => selection.showAll());
    plot.canvas.addEventListener('keydown', event => {
      const step = event.shiftKey ? Math.max(1, Math.round(context.recording().end / 100)) : 1;
      if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
        event.preventDefault();
        selection.set({at: selection.state.at + (event.key === 'ArrowLeft' ? -step : step)});
      } else if (event.key === 'Enter' && context.recording().phases.length) {
        event.preventDefault();
        selectPhase();
      }
    });

    /** Selects the innermost phase of the moment; if that is selected, the one around it; in the end all of the time. */
    function selectPhase() {
      const phases = phasesAt(context.recording(), selection.state.at);
      const selected = phases.findIndex(isSelected);
      choosePhase(phases[(selected < 0 ? phases.length : selected) - 1]);
    }

    /** @param {Phase | null} phase null: all of the time */
    function choosePhase(phase) {
      if (phase)
        selection.set({from: phase.begin, to: phase.end});
      else
        selection.showAll();
    }

    /** @param {number} most characters of a name @returns {string} "24.3 ms, event 1234, in step, forward" */
    function momentText(most) {
      const recording = context.recording();
      const {at} = selection.state;
      const names = phasesAt(recording, at).map(phase => shorten(phase.name, most));
      return recording.momentText(at) + (names.length ? `, in ${names.join(', ')}` : '');
    }

    function fillLegend() {
      const {state} = selection;
      const recording = context.recording();
      const isWhole = state.from === 0 && state.to === recording.end;
      const series = context.series(state.device);
      legend.replaceChildren(
        ...LINES.map(line => element('span', {class: 'key'},
          element('i', {class: `${line.isFilled ? 'fill' : 'line'} ${line.name}`}),
          `${line.label} ${line.name === 'reserved' && !recording.knowsReserved(state.device, state.at) ? 'not known' : formatBytes(series[line.name].values[state.at])}`)),
        element('span', {class: 'spacer'}),
        element('span', {class: 'moment', title: 'The moment whose figures these are'}, `at ${momentText(24)}`),
        button(isWhole ? 'all of the time' : `${formatCount(state.to - state.from)} events: show all`, () => selection.showAll(),
          {disabled: isWhole, title: 'Show all of the time again (F)'}));
    }

    function describe() {
      const recording = context.recording();
      const {at, device} = selection.state;
      const values = {min: 0, max: recording.end, now: at,
        text: `${momentText(Infinity)}, allocated ${formatBytes(context.series(device).allocated.values[at])}`};
      for (const [name, value] of Object.entries(values))
        plot.canvas.setAttribute('aria-value' + name, String(value));
    }

    return {
      element: root,
      update(changed) {
        if (concerns(changed, 'file', 'device', 'at', 'from', 'to', 'axis', 'theme')) {
          const rows = phaseRows(context.recording());
          plot.element.style.setProperty('--phases', `${rows * PHASE_HEIGHT}px`);
          plot.canvas.setAttribute('aria-description', rows ? PHASE_KEYS : KEYS);
          fillLegend();
          describe();
          plot.invalidate();
        }
      },
    };
  },
};
