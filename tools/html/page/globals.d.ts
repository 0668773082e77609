// For tsc only: the types that several modules use, and what browsers have, but the TypeScript of Debian 12 lacks.
type Axis = import('./axis.js').Axis;
type Plot = import('./plot.js').Plot;
type Recording = import('./recording.js').Recording;
type Series = import('./series.js').Series;
type TreeNode = import('./stack_tree.js').TreeNode;

/** What element() appends; false: nothing. */
type Child = Node | string | false | null | undefined;

interface Place {
  x: number;
  y: number;
}

interface Gestures {
  /** Returns the lines of a hint. */
  hover(x: number, y: number): string[] | null;
  click(x: number, y: number): void;
  /** A drag may follow. */
  grab?(): void;
  /** Returns true if it handled the event. */
  drag?(begin: Place, now: Place, event: PointerEvent): boolean | void;
}

/* The file (payload.js) */

type Numbers = Float64Array | Uint32Array | Int32Array | Uint8Array;

interface FileData {
  header: {
    name: string;
    summary: Summary;
    end: number;
    event_count: number;
    has_history: boolean;
    has_times: boolean;
    range: {from: number, to: number} | null;
    left_out: {count: number, largest: number};
    strings: string[];
    owners: Owner[];
  };
  columns: Map<string, Numbers>;
}

/** As of `gpupool summary --json`. */
type Summary = Record<string, any> & {devices: any[], threads: any[]};

/* A recording. Moments: see recording.js */

/** One entry for each allocation, sorted by begin. Streams, threads and stacks are indexes; -1: none. */
interface Lives {
  count: number;
  device: Uint8Array;
  /** POOLED, FORWARDED or HOST */
  kind: Uint8Array;
  flags: Uint8Array;
  begin: Uint32Array;
  /** by the program */
  freed: Uint32Array;
  /** when the device was done with it */
  done: Uint32Array;
  stack: Int32Array;
  stream: Int32Array;
  thread: Int32Array;
  address: Float64Array;
  requested: Float64Array;
  /** bytes that it takes */
  rounded: Float64Array;
  /** the snapshot's number of it */
  block: Float64Array;
  /** a string, for memory outside the pool */
  what: Int32Array;
  /** index into owners */
  owner: Int32Array;
}

interface Segments {
  count: number;
  device: Uint8Array;
  address: Float64Array;
  size: Float64Array;
  begin: Uint32Array;
  end: Uint32Array;
  expandable: Uint8Array;
}

interface Stacks {
  count: number;
  /** of its frames, innermost first */
  first: Uint32Array;
  frames: Uint32Array;
  owner: Int32Array;
  /** of the owner's frame; -1: an empty stack */
  place: Int32Array;
  text: Uint32Array;
}

interface Frames {
  count: number;
  function: Uint32Array;
  file: Uint32Array;
  line: Uint32Array;
  module: Int32Array;
  python: Uint8Array;
  part: Uint8Array;
}

/** What the tool left out of the page. */
interface Rest {
  count: number;
  moment: Uint32Array;
  device: Uint8Array;
  requested: Float64Array;
  allocated: Float64Array;
  pending: Float64Array;
}

interface Owner {
  name: string;
  text: string;
}

interface Mark {
  moment: number;
  kind: string;
  device: number;
  size: number;
  detail: string;
}

interface Phase {
  begin: number;
  end: number;
  depth: number;
  name: string;
  /** equal for equal names */
  color: number;
}

type SeriesName = 'requested' | 'allocated' | 'pending' | 'reserved' | 'forwarded';

/* The selection */

type FrameChoice = 'merged' | 'python' | 'native';

interface SelectionState {
  file: number;
  /** the first moment on display */
  from: number;
  /** the last */
  to: number;
  /** the moment whose state is on display */
  at: number;
  /** -1: all */
  device: number;
  /** -1: all */
  owner: number;
  search: string;
  /** the allocation on display; -1: none */
  life: number;
  axis: 'time' | 'event';
  frames: FrameChoice;
  allFrames: boolean;
  /** id of the view that is open */
  view: string;
}

/* Views (main.js) */

interface Page {
  generator: string;
  recordings: Recording[];
}

/** What all views have. */
interface Context {
  page: Page;
  selection: import('./selection.js').Selection;
  /** the one on display, like the next two */
  recording(): Recording;
  colors: import('./colors.js').OwnerColors;
  series(device: number): Record<SeriesName, Series>;
}

interface View {
  element: HTMLElement;
  update(changed: Set<string>): void;
}

interface ViewMaker {
  id: string;
  title: string;
  create(context: Context): View;
}

/* Sums (amounts.js, table_rows.js) */

type MeasureId = 'live' | 'peak' | 'oom' | 'total' | 'count' | 'temporary';

interface Measure {
  id: MeasureId;
  label: string;
  /** as in the heading of `gpupool sites` */
  what: string;
  column: string;
  byCount: boolean;
}

/** By stack, the last for memory without one; or by owner. */
interface Amounts {
  byStack: boolean;
  bytes: Float64Array;
  counts: Float64Array;
  /** when it was held; -1: over all of the time */
  moment: number;
  /** it covers only a part of the allocations */
  isSelection: boolean;
  /** it lacks what the tool left out of the page */
  isPartial: boolean;
}

/** Bytes as requested, and the number of allocations. */
interface Sum {
  bytes: number;
  count: number;
}

/* Trees of stacks (stack_tree.js) */

interface TreeOptions {
  /** the tree measures allocations, else bytes */
  byCount: boolean;
  /** from the owner outwards; else from the outermost frame to the owner */
  callers: boolean;
  frames: FrameChoice;
  /** whole stacks as recorded */
  allFrames: boolean;
}

/* The memory at a moment (memory_state.js) */

/** Idle if life is -1. */
interface Piece {
  life: number;
  offset: number;
  size: number;
  isPending: boolean;
}

interface SegmentState {
  segment: number;
  address: number;
  size: number;
  pieces: Piece[];
}

interface MemoryState {
  /** by address */
  segments: SegmentState[];
  reserved: number;
  allocated: number;
  requested: number;
  pending: number;
  idle: number;
  largestIdle: number;
  /** the smaller block next to the largest idle piece, in its segment; -1: none */
  blocker: number;
  forwarded: number;
  heldCount: number;
}

/* Tables (table.js) */

interface TableColumn {
  id: string;
  label: string;
  /** as in a grid: "12ch", "minmax(20ch, 1fr)" */
  width: string;
  /** right-aligned, and sorted largest first */
  isNumber?: boolean;
  /** what it shows, and what it copies without `plain` */
  text(row: number): string;
  /** the sort key; default: the text */
  value?(row: number): string | number;
  /** what it copies: figures without units */
  plain?(row: number): string | number;
  /** an element in front of the text */
  before?(row: number): Node;
  /** explains the column, at its head */
  title?: string;
}

interface TableOptions {
  label: string;
  /** the user chose a row */
  open?(row: number): void;
  isSelected?(row: number): boolean;
  /** makes the table a tree, with the next */
  branch?(row: number): {level: number, expanded: boolean | null};
  expand?(row: number, isOpen: boolean): void;
  /** shown instead of rows */
  empty?: string;
  /** false: keeps the order of the rows */
  isSorted?: boolean;
}

declare class DecompressionStream {
  constructor(format: 'deflate' | 'deflate-raw' | 'gzip');
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<BufferSource>;
}
