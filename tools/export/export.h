/*
 * gpupool export: writes a snapshot in the formats of other tools. The formats share the declarations in this
 * file: events with their names, the blocks that were live before the first event, and the names of frames.
 */
#ifndef GP_TOOLS_EXPORT_H
#define GP_TOOLS_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/read/block_map.h"
#include "tools/read/snapshot.h"

#define GP_EXPORT_ALL (-1) /* all devices */

/* An event, assembled from its columns. Sizes are in bytes. A missing index is -1, a missing text is "". */
typedef struct gp_export_event {
  size_t index; /* the event's index in the snapshot */
  gp_event_kind_t kind;
  uint64_t time_ns;
  uint64_t address;
  uint64_t size;
  uint64_t rounded;
  uint64_t block;
  int device;
  int stream;
  int thread;
  int stack;
  const char *detail;
} gp_export_event_t;

/* The blocks that a metric counts: live in the snapshot, live at the peak, or all that ever existed. */
typedef enum gp_export_metric {
  GP_EXPORT_LIVE,
  GP_EXPORT_PEAK,
  GP_EXPORT_TOTAL,
  GP_EXPORT_METRICS,
} gp_export_metric_t;

typedef struct gp_export {
  const gp_snapshot_t *snapshot; /* borrowed */
  const char *name;              /* name of the input, for messages; borrowed */
  FILE *stream;                  /* the output; no function buffers data beyond this stream */
  int device;                    /* the requested device, or GP_EXPORT_ALL */
  gp_export_metric_t metric;     /* metric to export; used only by the folded format */
  size_t event_count;            /* number of events; 0 if a column that every export needs is missing */
  uint64_t *streams;             /* stream handles, by index in the snapshot */
  size_t stream_count;
  const char **threads; /* thread names, by index in the snapshot, which owns the texts */
  uint64_t *tids;
  size_t thread_count;
  uint64_t pid; /* process id; 0: unknown */
  uint64_t start_time_us;
  bool shows_progress;
} gp_export_t;

/* export_events.c */

/* Prepares an export. Borrows `snapshot` and `name`. Returns 0 or ENOMEM; call gp_export_fini in any case. */
int gp_export_init(gp_export_t *export, const gp_snapshot_t *snapshot, const char *name, int device);
void gp_export_fini(gp_export_t *export);

/* Reads event i, which must be below event_count. Returns false if the event is on a device that was not
 * requested, or on no device. */
bool gp_export_event(const gp_export_t *export, size_t i, gp_export_event_t *ret_event);

bool gp_export_has_device(const gp_export_t *export, int device);

/* Returns true if forwarded memory of this kind is on the device. Page-locked host memory is not. */
bool gp_export_is_device_memory(const char *kind);

/*
 * Finds the blocks that were live before the first event, including forwarded memory. There are such blocks
 * only if older events are missing. Starts with the blocks that are live in the snapshot, and undoes every
 * event. Entries are keyed by the block's number; memory without a number is left out. The caller passes an
 * empty *map, and frees it even after an error. Returns 0 or ENOMEM.
 */
int gp_export_live_at_start(const gp_export_t *export, gp_block_map_t *map);

/* Like gp_export_live_at_start, but finds the blocks that are live in the snapshot, after the last event. */
int gp_export_live_at_end(const gp_export_t *export, gp_block_map_t *map);

/* Shows the progress on a terminal: `part` of `whole` is done. Most calls do nothing. */
void gp_export_progress(const gp_export_t *export, uint64_t part, uint64_t whole);

/* export_frames.c: text for a frame. If the function's name is unknown, the text is the module and the offset
 * in it, or else the address. */

#define GP_EXPORT_FRAME_BYTES 512

/* Returns the function's name, which belongs to the snapshot, or else a text in `buffer`
 * (GP_EXPORT_FRAME_BYTES). */
const char *gp_export_frame_function(const gp_snapshot_t *snapshot, size_t frame, char *buffer);

/* Returns the path of the source file, or of the module, or else "". The text belongs to the snapshot. */
const char *gp_export_frame_file(const gp_snapshot_t *snapshot, size_t frame);

/* export_weights.c: sums of bytes by stack. */
typedef struct gp_export_weights {
  uint64_t *bytes[GP_EXPORT_METRICS]; /* by stack: element i + 1 for stack i, element 0 without a stack */
  uint64_t sums[GP_EXPORT_METRICS];
  size_t count; /* number of stacks + 1 */
} gp_export_weights_t;

/* Sums the rounded bytes of the blocks on all requested devices. Returns 0 or ENOMEM. Call
 * gp_export_weights_fini in any case. */
int gp_export_weigh(const gp_export_t *export, gp_export_weights_t *ret_weights);
void gp_export_weights_fini(gp_export_weights_t *weights);

/*
 * The formats. Each function writes the whole export to export->stream. Returns 0 or an errno: ENOMEM,
 * EOVERFLOW if the export would exceed gp_snapshot_output_most, or the errno of a failed write. The caller
 * must also check ferror, because not every write error is returned.
 */
int gp_export_pytorch(gp_export_t *export);      /* export_pytorch.c */
int gp_export_pytorch_json(gp_export_t *export); /* export_pytorch.c */
int gp_export_perfetto(gp_export_t *export);     /* export_perfetto.c */
int gp_export_speedscope(gp_export_t *export);   /* export_stacks.c */
int gp_export_folded(gp_export_t *export);       /* export_stacks.c */
int gp_export_csv(gp_export_t *export);          /* export_csv.c */

#endif
