// For tsc only: the types that several modules use, and what browsers have, but the TypeScript of Debian 12 lacks.
type Amounts = import('./amounts.js').Amounts;
type Axis = import('./axis.js').Axis;
type Box = import('./stack_tree.js').Box;
type Context = import('./main.js').Context;
type FileData = import('./payload.js').FileData;
type FrameChoice = import('./selection.js').FrameChoice;
type Mark = import('./recording.js').Mark;
type MeasureId = import('./amounts.js').MeasureId;
type MemoryState = import('./memory_state.js').MemoryState;
type Owner = import('./recording.js').Owner;
type Phase = import('./recording.js').Phase;
type Piece = import('./memory_state.js').Piece;
type Plot = import('./plot.js').Plot;
type Recording = import('./recording.js').Recording;
type SegmentState = import('./memory_state.js').SegmentState;
type SelectionState = import('./selection.js').SelectionState;
type Series = import('./series.js').Series;
type SeriesName = import('./series.js').SeriesName;
type Sum = import('./table_rows.js').Sum;
type TableColumn = import('./table.js').TableColumn;
type TreeNode = import('./stack_tree.js').TreeNode;
type View = import('./main.js').View;
type ViewMaker = import('./main.js').ViewMaker;

declare class DecompressionStream {
  constructor(format: 'deflate' | 'deflate-raw' | 'gzip');
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<BufferSource>;
}
