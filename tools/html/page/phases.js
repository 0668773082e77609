/** A band of phases below the curve: a row for each depth, the outermost ranges on top. */
import {phaseColor} from './colors.js';
import {formatDuration} from './format.js';

export const PHASE_HEIGHT = 14; /* of a row, in pixels */
const MOST_ROWS = 4;
const LEAST_LABEL = 24;

/** @param {Recording} recording @returns {number} 0: it has no phases */
export function phaseRows(recording) {
  return Math.min(MOST_ROWS, recording.phases.reduce((most, phase) => Math.max(most, phase.depth + 1), 0));
}

/** @param {Plot} plot @param {Axis} axis @param {Recording} recording @param {number} top */
export function drawPhases(plot, axis, recording, top) {
  const {context: ink} = plot;
  const rows = phaseRows(recording);
  const drawn = new Float64Array(rows).fill(-1); /* up to where, by row: of many in one pixel the first is drawn */
  for (const phase of recording.phases) {
    const from = axis.x(phase.begin);
    const width = Math.max(1, axis.x(phase.end) - from);
    if (phase.depth >= rows || from + width <= drawn[phase.depth])
      continue;
    drawn[phase.depth] = Math.max(drawn[phase.depth], Math.floor(from) + 1);
    const y = top + phase.depth * PHASE_HEIGHT;
    ink.fillStyle = phaseColor(phase.color);
    ink.fillRect(from, y + 1, width > 3 ? width - 1 : width, PHASE_HEIGHT - 2);
    if (width < LEAST_LABEL)
      continue;
    plot.textStyle('--ink', 'middle');
    plot.text(phase.name, from + 3, y + PHASE_HEIGHT / 2, width - 6);
  }
}

/**
 * The phase at a place of the band; where its row has none, the innermost one around it.
 * @param {Axis} axis @param {Recording} recording @param {number} x @param {number} y below the band's top
 */
export function phaseAtPlace(axis, recording, x, y) {
  const row = Math.floor(y / PHASE_HEIGHT);
  /** @type {Phase | null} */
  let found = null;
  for (const phase of recording.phases)
    if (phase.depth <= row && axis.x(phase.begin) <= x && x < Math.max(axis.x(phase.begin) + 1, axis.x(phase.end)) && (!found || phase.depth > found.depth))
      found = phase;
  return found;
}

/** @param {Recording} recording @param {number} moment @returns {Phase[]} those of the event before it, the outermost first */
export function phasesAt(recording, moment) {
  return recording.phases.filter(phase => phase.begin < moment && moment <= phase.end).sort((a, b) => a.depth - b.depth);
}

/** @param {Recording} recording @param {Phase} phase @returns {string[]} lines of a hint */
export function phaseLines(recording, phase) {
  const lines = [phase.name, `from ${recording.momentText(phase.begin)}`, `to ${recording.momentText(phase.end)}`];
  if (recording.hasTimes)
    lines.push(`${formatDuration(recording.timeOf(phase.end) - recording.timeOf(phase.begin))} between these`);
  return lines;
}
