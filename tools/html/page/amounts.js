/**
 * What each stack asked for, counted like `gpupool sites`, without host memory: from the tool's own sums if everything is
 * selected, else from the selected allocations. Without stacks by owner.
 */
import {HOST} from './recording.js';
import {summed} from './series.js';

/** @type {Measure[]} */
export const MEASURES = [
  {id: 'peak', label: 'Peak', what: 'allocated at the peak', column: 'peak', byCount: false},
  {id: 'oom', label: 'Out of memory', what: 'allocated when memory ran out', column: 'oom', byCount: false},
  {id: 'live', label: 'End', what: 'allocated at the end', column: 'live', byCount: false},
  {id: 'total', label: 'Total', what: 'ever requested', column: 'total', byCount: false},
  {id: 'count', label: 'Count', what: 'allocations', column: 'total', byCount: true},
  {id: 'temporary', label: 'Temporary', what: 'temporary allocations', column: 'temporary', byCount: true},
];

/** @param {MeasureId} id */
export function measureOf(id) {
  return /** @type {Measure} */ (MEASURES.find(measure => measure.id === id));
}

/** @param {Recording} recording @returns {Mark | undefined} when memory ran out, if the summary is about that */
export function oomOfSummary(recording) {
  const {at} = recording.summary;
  return at?.what === 'oom' ? recording.ooms.find(mark => recording.eventOf(mark.moment) === at.event) : undefined;
}

/** @param {Recording} recording when memory ran out: at the event that the summary describes, else at the last */
export function oomMoment(recording) {
  return oomOfSummary(recording) ?? recording.ooms.at(-1);
}

/** @param {Recording} recording the measures that it has: without a history only what was held when the file was written */
export function measuresOf(recording) {
  return MEASURES.filter(({id}) => id === 'live' || (id === 'oom' ? recording.ooms.length > 0 : recording.hasHistory));
}

/** @param {Recording} recording @returns {MeasureId} what users want first, like `gpupool sites` */
export function defaultMeasure(recording) {
  if (recording.ooms.length)
    return 'oom';
  return recording.summary.reason === 'recovered' || !recording.hasHistory ? 'live' : 'peak';
}

/**
 * The moment between `from` and `to` at which the wanted lives held most.
 * @param {Recording} recording @param {(life: number) => boolean} wants @param {number} from @param {number} to
 */
export function peakMoment(recording, wants, from, to) {
  const {lives} = recording;
  const changes = new Float64Array(recording.end + 2);
  for (let i = 0; i < lives.count; i++) {
    if (lives.kind[i] === HOST || !wants(i))
      continue;
    changes[lives.begin[i]] += lives.requested[i];
    changes[lives.freed[i]] -= lives.requested[i];
  }
  const held = summed(changes).values;
  let moment = from;
  for (let i = from + 1; i <= to; i++)
    moment = held[i] > held[moment] ? i : moment;
  return {moment, bytes: held[moment]};
}

/**
 * The peak as of `gpupool sites`: of all devices together. Without times their events have no common order; then that of the
 * device that held most.
 * @param {Recording} recording @param {SelectionState} state @param {(life: number) => boolean} wants
 * @returns {{device: number, moment: number}} device -1: all
 */
function peakOf(recording, state, wants) {
  const {lives, devices, hasTimes} = recording;
  const {from, to} = state;
  if (hasTimes || state.device >= 0 || devices.length < 2)
    return {device: -1, moment: peakMoment(recording, wants, from, to).moment};
  let found = {device: devices[0], moment: from, bytes: 0};
  for (const device of devices) {
    const peak = peakMoment(recording, life => lives.device[life] === device && wants(life), from, to);
    if (peak.bytes > found.bytes)
      found = {device, ...peak};
  }
  return found;
}

/**
 * Which lives count for a measure.
 * @param {Recording} recording @param {SelectionState} state @param {Measure} measure @param {(life: number) => boolean} wants
 * @returns {{moment: number, counts: (life: number) => boolean}}
 */
function counting(recording, state, measure, wants) {
  const {lives} = recording;
  const {from, to} = state;
  /** @param {number} moment @returns {(life: number) => boolean} */
  const heldAt = moment => life => lives.begin[life] <= moment && lives.freed[life] > moment;
  switch (measure.id) {
  case 'live':
    return {moment: to, counts: to === recording.end ? life => recording.isHeld(life) : heldAt(to)};
  case 'peak': {
    const {device, moment} = peakOf(recording, state, wants);
    const held = heldAt(moment);
    return {moment, counts: life => held(life) && (device < 0 || lives.device[life] === device)};
  }
  case 'oom': {
    const oom = oomMoment(recording);
    if (!oom || oom.moment < from || oom.moment > to)
      return {moment: -1, counts: () => false};
    const held = heldAt(oom.moment);
    return {moment: oom.moment, counts: life => held(life) && (state.device >= 0 || oom.device < 0 || lives.device[life] === oom.device)};
  }
  default: { /* exists at some time in the selection */
    /** @param {number} life */
    const overlaps = life => lives.begin[life] <= to && (lives.freed[life] > from || from === 0);
    return {moment: -1, counts: measure.id === 'temporary' ? life => overlaps(life) && recording.isTemporary(life) : overlaps};
  }
  }
}

/**
 * @param {Recording} recording @param {SelectionState} state ignores its search @param {MeasureId} id
 * @param {Uint8Array | null} [found] what is searched for: 1 by life; null: everything @returns {Amounts}
 */
export function amountsOf(recording, state, id, found = null) {
  const {lives, stacks} = recording;
  const measure = measureOf(id);
  const byStack = recording.hasStacks;
  const groups = byStack ? stacks.count + 1 : recording.owners.length;
  const isSelection = found !== null || state.device >= 0 || state.owner >= 0 || state.from > 0 || state.to < recording.end;
  /** @param {number} life */
  const wants = life => (state.device < 0 || lives.device[life] === state.device) && (state.owner < 0 || lives.owner[life] === state.owner);
  const {moment, counts} = counting(recording, state, measure, wants);
  const bytesOfTool = recording.columns.get(`stack.${measure.column}_bytes`);
  const countsOfTool = recording.columns.get(`stack.${measure.column}_count`);
  if (byStack && !isSelection && bytesOfTool && countsOfTool)
    return {byStack, bytes: Float64Array.from(bytesOfTool), counts: Float64Array.from(countsOfTool), moment, isSelection, isPartial: false};
  const amounts = {
    byStack, bytes: new Float64Array(groups), counts: new Float64Array(groups), moment, isSelection, isPartial: recording.leftOut.count > 0,
  };
  for (let i = 0; i < lives.count; i++) {
    if (lives.kind[i] === HOST || !wants(i) || (found && !found[i]) || !counts(i))
      continue;
    const group = !byStack ? lives.owner[i] : lives.stack[i] >= 0 ? lives.stack[i] : stacks.count;
    amounts.bytes[group] += lives.requested[i];
    amounts.counts[group]++;
  }
  return amounts;
}
