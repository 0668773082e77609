/** Details of the selected allocation, and its call stack. */
import {button, element, nameList, replace} from './dom.js';
import {baseName, formatAddress, formatBytes, formatDuration} from './format.js';
import {FORWARDED, HOST} from './recording.js';
import {concerns} from './selection.js';

/** @param {Context} context */
export function createDetails(context) {
  const {selection} = context;
  const body = element('div', {class: 'details-body'});
  const root = element('aside', {class: 'details', 'aria-label': 'The selected allocation', hidden: true},
    element('header', {}, element('h2', {}, 'Allocation'),
      button('×', () => selection.set({life: -1}), {title: 'Close (Escape)', 'aria-label': 'Close'})), body);

  /** @param {number} frame @param {string} operator that the frame called; "" */
  function frameRow(frame, operator) {
    const what = context.recording().frame(frame);
    const place = what.file ? `${baseName(what.file)}${what.line ? ':' + what.line : ''}` : baseName(what.module);
    return element('li', {class: what.isFolded ? 'folded' : '', title: `${what.function}\n${what.file || what.module}${what.line ? ':' + what.line : ''}`},
      element('span', {class: 'function'}, what.function), element('span', {class: 'place'}, operator ? `${place} ${operator}` : place));
  }

  /**
   * Folds each run of frames that own no memory into one line, and so what a recursion repeats.
   * @param {number} stack
   */
  function stackList(stack) {
    const recording = context.recording();
    const {frames, allFrames} = selection.state;
    const rows = [];
    let folded = 0, last = -1, repeated = 0;
    const unroll = () => {
      if (repeated === 1)
        rows.push(frameRow(last, ''));
      else if (repeated)
        rows.push(element('li', {class: 'fold'}, `the same ${repeated} times more`));
      repeated = 0;
    };
    const fold = () => {
      unroll();
      if (folded)
        rows.push(element('li', {class: 'fold'}, element('button', {class: 'link', onclick: () => selection.set({allFrames: true})},
          `${folded} frame${folded > 1 ? 's' : ''} of the allocator, interpreter or runtime`)));
      folded = 0;
    };
    const operator = / (\(.*\))$/.exec(recording.stackText(stack));
    for (const [at, frame] of recording.framesOf(stack).entries()) {
      const what = recording.frame(frame);
      if ((frames === 'python' && !what.isPython) || (frames === 'native' && what.isPython))
        continue;
      if (what.isFolded && !allFrames) {
        folded++;
        continue;
      }
      if (frame === last && !folded) {
        repeated++;
        continue;
      }
      fold();
      last = frame;
      rows.push(frameRow(frame, operator && what.isPython && at === recording.stacks.place[stack] ? operator[1] : ''));
    }
    fold();
    return element('ol', {class: 'stack'}, ...rows);
  }

  /** @param {number} life */
  function fill(life) {
    const recording = context.recording();
    const {lives} = recording;
    const kind = lives.kind[life] === HOST ? 'page-locked memory of the host' : lives.kind[life] === FORWARDED ? 'forwarded' : '';
    const rounded = lives.rounded[life] !== lives.requested[life] ? `, ${formatBytes(lives.rounded[life])} rounded up` : '';
    const isFreed = lives.freed[life] <= recording.end;
    const lifetime = recording.hasTimes && isFreed ? formatDuration(recording.timeOf(lives.freed[life]) - recording.timeOf(lives.begin[life])) : '';
    const owner = lives.owner[life];
    const isOnly = selection.state.owner === owner;
    replace(body, nameList('', [
      ['size', formatBytes(lives.requested[life]) + rounded],
      ['owner', recording.ownerName(life)],
      ['kind', [kind, lives.what[life] >= 0 ? recording.strings[lives.what[life]] : ''].filter(Boolean).join(', ')],
      ['address', `${formatAddress(lives.address[life])} on device ${lives.device[life]}`],
      ['allocated', lives.begin[life] === 0 ? 'before the first event' : recording.momentText(lives.begin[life])],
      ['freed', isFreed ? recording.momentText(lives.freed[life]) : 'not freed'],
      ['in use until', isFreed && lives.done[life] !== lives.freed[life] ? recording.momentText(lives.done[life]) : ''],
      ['lived', lifetime],
      ['stream', lives.stream[life] >= 0 ? recording.streamName(lives.stream[life]) : 'default or not known'],
      ['thread', lives.thread[life] >= 0 ? recording.threadName(lives.thread[life]) : ''],
    ]),
      element('div', {class: 'links'},
        button(isOnly ? 'show all owners' : 'only this owner', () => selection.set({owner: isOnly ? -1 : owner})),
        button('go to its begin', () => selection.set({at: lives.begin[life]})),
        isFreed && button('go to its free', () => selection.set({at: lives.freed[life]}))),
      element('h3', {}, 'Call stack'),
      lives.stack[life] >= 0 ? stackList(lives.stack[life]) : element('p', {class: 'note'}, 'No stack was recorded (GPUPOOL_STACKS).'));
  }

  return {
    element: root,
    /** @param {Set<string>} changed */
    update(changed) {
      if (!concerns(changed, 'life', 'file', 'frames', 'allFrames', 'owner'))
        return;
      const {life} = selection.state;
      root.hidden = life < 0;
      if (life >= 0)
        fill(life);
    },
  };
}
