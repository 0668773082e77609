import {formatBytes} from './format.js';
import {EVENT_MARKS} from './labels.js';

/** @type {Record<string, string>} by kind of mark: of an event, or of the program's own marks */
const MARKS = {...EVENT_MARKS, mark: 'mark', begin: 'begin of', end: 'end of'};

/** @param {Mark} mark */
export function markText(mark) {
  const what = Object.hasOwn(MARKS, mark.kind) ? MARKS[mark.kind] : mark.kind;
  const device = mark.device >= 0 ? ` on device ${mark.device}` : '';
  if (mark.kind === 'oom')
    return `${what}${device}: ${formatBytes(mark.size)} requested`;
  return `${what}${mark.detail ? ' ' + mark.detail : ''}${device}`;
}

/** @param {Recording} recording @param {number} moment @returns {string} what the event before it did */
export function momentEvent(recording, moment) {
  const {lives, segments} = recording;
  const life = recording.eventsByMoment()[moment];
  if (moment === 0)
    return 'the begin of what is recorded';
  if (life >= 0) {
    const size = formatBytes(lives.requested[life]);
    const owner = recording.hasStacks ? ` by ${recording.ownerName(life)}` : '';
    if (lives.begin[life] === moment)
      return `allocated: ${size}${owner}`;
    if (lives.freed[life] === moment)
      return `freed: ${size}${owner}`;
    return `no longer in use by the device: ${size}${owner}`;
  }
  const mark = recording.marks.find(each => each.moment === moment);
  if (mark)
    return markText(mark);
  for (let i = 0; i < segments.count; i++) {
    if (segments.begin[i] === moment)
      return `from the driver: ${formatBytes(segments.size[i])}`;
    if (segments.end[i] === moment)
      return `back to the driver: ${formatBytes(segments.size[i])}`;
  }
  return recording.leftOut.count ? 'an event that is left out of this page' : 'another event';
}
