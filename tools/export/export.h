/*
 * gpupool export: writes a snapshot in the formats of other tools. This file has what the formats share:
 * events with names resolved, the blocks that were live when the history begins, and names for frames.
 */
#ifndef GP_TOOLS_EXPORT_H
#define GP_TOOLS_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/read/block_map.h"
#include "tools/read/snapshot.h"

#define GP_EXPORT_ALL (-1) /* every device */

/* An event, assembled from its columns. Sizes in bytes. Missing indexes are -1, missing texts "". */
typedef struct gp_export_event {
  size_t index; /* in the snapshot */
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

/* Which blocks to weigh: those live in the snapshot, those live at the peak, or all that ever existed. */
typedef enum gp_export_metric {
  GP_EXPORT_LIVE,
  GP_EXPORT_PEAK,
  GP_EXPORT_TOTAL,
  GP_EXPORT_METRICS,
} gp_export_metric_t;

typedef struct gp_export {
  const gp_snapshot_t *snapshot; /* borrowed */
  const char *name;              /* the input's, for messages; borrowed */
  FILE *stream;                  /* where the export goes; functions buffer nothing between calls */
  int device;                    /* the requested one, or GP_EXPORT_ALL */
  gp_export_metric_t metric;     /* for folded */
  size_t event_count;            /* 0 if an indispensable column is missing */
  uint64_t *streams;             /* handles, by index in the file */
  size_t stream_count;
  const char **threads; /* names, by index in the file; borrowed from the snapshot */
  uint64_t *tids;
  size_t thread_count;
  uint64_t pid; /* 0: unknown */
  uint64_t start_time_us;
  bool shows_progress;
} gp_export_t;

/* export_events.c */

/* Prepares an export. Borrows snapshot and name. Returns 0 or ENOMEM; call fini in any case. */
int gp_export_init(gp_export_t *export, const gp_snapshot_t *snapshot, const char *name, int device);
void gp_export_fini(gp_export_t *export);

/* Reads event i, below event_count. False: it is on a device that was not requested, or on none. */
bool gp_export_event(const gp_export_t *export, size_t i, gp_export_event_t *ret_event);

bool gp_export_has_device(const gp_export_t *export, int device);

/* True if memory of this kind outside the pool is in device memory; page-locked host memory is not. */
bool gp_export_is_device_memory(const char *kind);

/*
 * The blocks that were live before the first event; there are some if older events are missing. Undoes
 * every event from what is live in the snapshot. Includes forwarded memory. The key is the block's number;
 * leaves out memory without one. The caller passes an empty *map and calls fini in any case. Returns 0 or
 * ENOMEM.
 */
int gp_export_live_at_start(const gp_export_t *export, gp_block_map_t *map);

/* Like gp_export_live_at_start, at the end: what is live in the snapshot. */
int gp_export_live_at_end(const gp_export_t *export, gp_block_map_t *map);

/* Shows progress on a terminal: part of whole. Most calls do nothing. */
void gp_export_progress(const gp_export_t *export, uint64_t part, uint64_t whole);

/* export_frames.c: names a frame. One without a name gets its module and
 * the offset in it, or its address. */

#define GP_EXPORT_FRAME_BYTES 512

/* The function; returns a text of the snapshot, or buffer, which holds GP_EXPORT_FRAME_BYTES. */
const char *gp_export_frame_function(const gp_snapshot_t *snapshot, size_t frame, char *buffer);

/* The source file, else the path of the module, else "". Belongs to the snapshot. */
const char *gp_export_frame_file(const gp_snapshot_t *snapshot, size_t frame);

/* export_weights.c: bytes by stack. */
typedef struct gp_export_weights {
  uint64_t *bytes[GP_EXPORT_METRICS]; /* of stack i at i + 1; without a stack at 0 */
  uint64_t sums[GP_EXPORT_METRICS];
  size_t count; /* stacks + 1 */
} gp_export_weights_t;

/* Weighs the blocks of all requested devices by their rounded bytes. Returns 0 or
 * ENOMEM; call fini in any case. */
int gp_export_weigh(const gp_export_t *export, gp_export_weights_t *ret_weights);
void gp_export_weights_fini(gp_export_weights_t *weights);

/*
 * The formats. Each writes the whole export to export->stream. Returns 0 or an errno: ENOMEM; EOVERFLOW
 * if the export would exceed gp_snapshot_output_most; or that of a write, which may also only show in
 * ferror.
 */
int gp_export_pytorch(gp_export_t *export);      /* export_pytorch.c */
int gp_export_pytorch_json(gp_export_t *export); /* the same */
int gp_export_perfetto(gp_export_t *export);     /* export_perfetto.c */
int gp_export_speedscope(gp_export_t *export);   /* export_stacks.c */
int gp_export_folded(gp_export_t *export);       /* the same */
int gp_export_csv(gp_export_t *export);          /* export_csv.c */

#endif
