/** The pool at one moment: segments and their content. */
import {FORWARDED, HOST} from './recording.js';

/** @param {Recording} recording @param {number} device @param {number} moment @returns {MemoryState} */
export function stateAt(recording, device, moment) {
  const {lives, segments} = recording;
  const state = {
    segments: /** @type {SegmentState[]} */ ([]), reserved: 0, allocated: 0, requested: 0, pending: 0, idle: 0, largestIdle: 0, blocker: -1,
    forwarded: 0, heldCount: 0,
  };
  for (let i = 0; i < segments.count; i++) {
    if (segments.device[i] !== device || segments.begin[i] > moment || segments.end[i] <= moment)
      continue;
    state.segments.push({segment: i, address: segments.address[i], size: segments.size[i], pieces: []});
    state.reserved += segments.size[i];
  }
  state.segments.sort((a, b) => a.address - b.address);
  const there = [];
  for (let i = 0; i < lives.count && lives.begin[i] <= moment; i++) {
    if (lives.device[i] !== device || lives.done[i] <= moment || lives.kind[i] === HOST)
      continue;
    const isHeld = lives.freed[i] > moment;
    state.heldCount += isHeld ? 1 : 0;
    if (lives.kind[i] === FORWARDED) {
      state.forwarded += isHeld ? lives.requested[i] : 0;
      continue;
    }
    state.allocated += isHeld ? lives.rounded[i] : 0;
    state.requested += isHeld ? lives.requested[i] : 0;
    state.pending += isHeld ? 0 : lives.rounded[i];
    there.push(i);
  }
  there.sort((a, b) => lives.address[a] - lives.address[b]);
  joinPieces(recording, state, there);
  fill(recording, state, there, moment);
  state.blocker = findBlocker(recording, state);
  return state;
}

/**
 * Finds the block that, if freed, would extend the largest idle piece.
 * @param {Recording} recording @param {MemoryState} state
 */
function findBlocker(recording, state) {
  const {rounded} = recording.lives;
  let blocker = -1;
  for (const {pieces} of state.segments)
    pieces.forEach((piece, i) => {
      if (piece.life >= 0 || piece.size !== state.largestIdle)
        return;
      for (const beside of [pieces[i - 1], pieces[i + 1]])
        if (beside && beside.life >= 0 && (blocker < 0 || rounded[beside.life] < rounded[blocker]))
          blocker = beside.life;
    });
  return blocker;
}

/**
 * Mapped memory has a segment for each piece: joins neighbours that one block spans, or that are expandable.
 * @param {Recording} recording @param {MemoryState} state @param {number[]} there lives by address
 */
function joinPieces(recording, state, there) {
  const {lives, segments: {expandable}} = recording;
  const joined = /** @type {SegmentState[]} */ ([]);
  let next = 0;
  let reach = 0; /* end of the blocks so far */
  for (const piece of state.segments) {
    for (; next < there.length && lives.address[there[next]] < piece.address; next++)
      reach = lives.address[there[next]] + lives.rounded[there[next]];
    const before = joined[joined.length - 1];
    const isSame = before && before.address + before.size === piece.address &&
      (reach > piece.address || (expandable[before.segment] && expandable[piece.segment]));
    if (isSame)
      before.size += piece.size;
    else
      joined.push(piece);
  }
  state.segments = joined;
}

/** @param {Recording} recording @param {MemoryState} state @param {number[]} there lives by address @param {number} moment */
function fill(recording, state, there, moment) {
  const {lives} = recording;
  let next = 0;
  for (const segment of state.segments) {
    const end = segment.address + segment.size;
    let at = segment.address;
    /** @param {number} to */
    const idle = to => {
      if (to > at) {
        segment.pieces.push({life: -1, offset: at - segment.address, size: to - at, isPending: false});
        state.idle += to - at;
        state.largestIdle = Math.max(state.largestIdle, to - at);
      }
    };
    while (next < there.length && lives.address[there[next]] < segment.address)
      next++;
    for (; next < there.length && lives.address[there[next]] < end; next++) {
      const life = there[next];
      const begin = Math.max(at, lives.address[life]);
      const last = Math.min(end, lives.address[life] + lives.rounded[life]);
      if (last <= begin)
        continue;
      idle(begin);
      segment.pieces.push({life, offset: begin - segment.address, size: last - begin, isPending: lives.freed[life] <= moment});
      at = last;
    }
    idle(end);
  }
}

