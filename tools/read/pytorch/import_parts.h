/*
 * Converts a PyTorch snapshot into a gpupool snapshot. Shared by import_pytorch.c (the document),
 * import_json.c, import_members.c, import_events.c, import_frees.c, import_segments.c, import_extents.c,
 * import_stacks.c (frames) and import_replay.c (values derived from the events).
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H

#include "tools/hash_index.h"
#include "tools/read/block_map.h"
#include "tools/read/pytorch/import.h"
#include "tools/read/pytorch/import_value.h"
#include "tools/read/input.h"

/* Columns that the reader fills from events in addition to the snapshot's columns. */
typedef enum gp_import_column {
  GP_IMPORT_DEVICE_FREE = GP_COLUMN_COUNT, /* -1: missing */
  GP_IMPORT_POOL,                          /* -1: missing */
  GP_IMPORT_COLUMNS,
} gp_import_column_t;

struct gp_import {
  gp_value_tree_t tree;
  gp_snapshot_t *snapshot;
  int64_t *columns[GP_IMPORT_COLUMNS]; /* of the events, while they are read; becomes the snapshot's columns
                                          at the end */
  const char *source;                  /* name of the program that wrote the input, static; NULL: PyTorch's
                                          snapshots */
  size_t event_room;
  bool has_segments;      /* the segments have been read */
  int last_device;        /* device of the last event that was read */
  bool says_device_free;  /* at least one event has a value in GP_IMPORT_DEVICE_FREE */
  bool says_pool;         /* at least one event has a value in GP_IMPORT_POOL */
  gp_hash_index_t frames; /* of the snapshot's frames */
  gp_hash_index_t stacks;
  size_t frame_room;
  size_t stack_room;
  size_t index_count; /* items in stacks.frame_indexes */
  size_t index_room;
  size_t text_bytes;      /* bytes of texts copied so far */
  gp_block_map_t streams; /* index of a stream by its handle + 1 */
  gp_block_map_t pools;   /* private pools by both numbers of the id; `stream` of an entry is the pool's
                             index, from 1 */
};

/* import_members.c */

#define GP_IMPORT_NUMBER_MOST ((INT64_C(1) << 53) - 1) /* largest size or time, as in gpupool's format */

/* A dict that is being read, and its name in messages: list[at].inner[inner_at]; inner may be NULL. */
typedef struct gp_import_place {
  gp_import_t *import;
  const gp_value_t *dict;
  const char *list;
  const char *inner;
  size_t at;
  size_t inner_at;
  bool is_item; /* the dict is an element of the list; otherwise the dict is named `list` itself */
} gp_import_place_t;

/* Makes room in an array for one more item. Evaluates to false after an error of the document. */
#define GP_IMPORT_RESERVE(import, items, count, room)                                                        \
  gp_value_tree_reserve(&(import)->tree, 0, &(items), count, &(room), sizeof(*(items)))

/* Records an error, unless an error is recorded already. Both functions return false. */
bool gp_import_no_memory(gp_import_t *import);
bool gp_import_fail(const gp_import_place_t *place, const char *name, const char *what);

/* Marks a container as read. Returns false if it was read before. Reading each container only once bounds the
 * result even if many values share a container, and keeps a frame from being read as an event. */
bool gp_import_claim(gp_container_t *container);

/* The functions below return false after an error of the document. */

bool gp_import_is_dict(const gp_import_place_t *place);

/* Reads a number from 0 to most. If the member is missing, fails if it is required, or leaves *ret_number
 * unchanged. */
bool gp_import_number(
    const gp_import_place_t *place, const char *name, uint64_t most, bool is_required, uint64_t *ret_number);

/* Reads a list. *ret_list is NULL if the member is missing. */
bool gp_import_list(
    const gp_import_place_t *place, const char *name, bool is_required, const gp_container_t **ret_list);

/* Reads a stream and sets *ret_stream to its index in the table. Streams are identified by their handles;
 * handle 0 is the default stream. */
bool gp_import_stream(const gp_import_place_t *place, int *ret_stream);

/* Reads the member `name`, a pool id, and sets *ret_pool to the pool's index: 0 for the default pool, above 0
 * for a private pool, -1 if the member is missing. */
bool gp_import_pool(const gp_import_place_t *place, const char *name, int *ret_pool);

/* Adds a device unless it exists already. */
bool gp_import_device(gp_import_t *import, int ordinal);

/* Members of the document that are kept as trees. */
struct gp_import_top {
  gp_value_t own;         /* "gpupool", which gpupool's export adds; ignored if it is not a dict */
  gp_value_t settings;    /* "allocator_settings" */
  gp_value_t annotations; /* "external_annotations" */
};

/* The `reason` of snapshots that are made from logs without segments, by gp_log_kind_t. */
#define GP_IMPORT_LOGS 3
extern const char *const gp_import_logs[GP_IMPORT_LOGS];

/* import_segments.c: reads the segments and their blocks. Call it once. */
bool gp_import_segments(gp_import_t *import, const gp_container_t *list);

/* import_events.c */

/* An event, with one member for each column. */
typedef struct gp_import_event {
  int64_t action;  /* index in the snapshot's table of actions */
  int64_t time_us; /* -1: missing */
  uint64_t address;
  uint64_t size;
  uint64_t rounded;    /* 0: missing */
  int64_t device_free; /* -1: missing */
  int device;
  int stream; /* index of the stream, or -1 if it is missing, as in the next two members */
  int stack;
  int pool;
} gp_import_event_t;

/* Returns the index in the snapshot's table of actions for a kind of event that PyTorch has. */
int gp_import_action(gp_event_kind_t kind);

/* Add events device by device, in time order for each device. gp_import_events_end() sorts the events of all
 * devices by time. *start_us is the time that becomes time 0; if it is 0, it is set to the time of the first
 * event. */
bool gp_import_events_begin(gp_import_t *import);
bool gp_import_event(gp_import_t *import, const gp_value_t *event, int device, size_t index);
bool gp_import_add_event(gp_import_t *import, const gp_import_event_t *event);
bool gp_import_events_end(gp_import_t *import, uint64_t *start_us);

/* import_events.c: adds the marks of a list of annotations. The value may be of any kind. start_us is time 0
 * of the events; if it is 0, the events have no times, and no marks are added. Returns false after an error
 * of the document. */
bool gp_import_annotations(gp_import_t *import, const gp_value_t *list, uint64_t start_us);

/* import_frees.c: adds the events of frees that were not recorded. The events must be sorted, and only the
 * columns that PyTorch's events fill may exist. */
bool gp_import_complete_frees(gp_import_t *import);

/* import_stacks.c */

/* Adds a stack, given as a list of frames, innermost first, to the snapshot's table. *ret_stack is its index,
 * or -1 for an empty list or NULL. */
bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack);

/* Adds a frame to the snapshot's table and sets *ret_index to its index. A NULL text is unknown, and so is
 * line 0. */
bool gp_import_frame(
    gp_import_t *import, const gp_value_t *function, const gp_value_t *file, int line, int *ret_index);

/* Like gp_import_stack, for frames that are in the table already. */
bool gp_import_stack_of(gp_import_t *import, const int *frames, size_t count, int *ret_stack);

/* Completes the table of stacks. */
bool gp_import_stacks_end(gp_import_t *import);

/* Returns a copy of a text in UTF-8 without control bytes; invalid bytes become '?'. Returns NULL after an
 * error. */
char *gp_import_copy(gp_import_t *import, const gp_value_t *text);

/* import_extents.c: replays the mapping of memory for a device with expandable segments. Adds the extents of
 * the snapshot, and sets has_extents, lacks_reserved and the statistics of segments. The blocks of the events
 * must have their rounded sizes. */
bool gp_import_extents(gp_import_t *import, gp_snapshot_device_t *device);

/* import_segments.c: computes how large blocks are in the ordinary segments of one device. The caller goes
 * backwards through the events and reports each segment and block that appears or disappears. In the caller's
 * blocks, `size` is the size after PyTorch's rounding; this code sets `rounded`, which also contains a
 * remainder that was not split off. */

typedef struct gp_import_range {
  uint64_t address;
  uint64_t size;
} gp_import_range_t;

/* Ranges, sorted by address. An array is fast enough, because there are few large blocks (see
 * import_extents.c). */
typedef struct gp_import_ranges {
  gp_import_range_t *items;
  size_t count;
  size_t room;
} gp_import_ranges_t;

typedef struct gp_import_unsplit {
  gp_import_t *import;
  gp_import_ranges_t segments;
  gp_import_ranges_t blocks; /* blocks of PyTorch's large pool */
  uint64_t split_most;       /* PyTorch splits no free piece for a block of at least this size */
} gp_import_unsplit_t;

/* Begins with the segments of the snapshot, which are those at the end. Call fini in any case. This and the
 * functions below return false after an error of the document. */
bool gp_import_unsplit_begin(gp_import_unsplit_t *unsplit, gp_import_t *import, int device);
void gp_import_unsplit_fini(gp_import_unsplit_t *unsplit);

/* Reports that, before the event that was just undone, the segment existed (is_there) or did not exist. */
bool gp_import_unsplit_segment(gp_import_unsplit_t *unsplit, uint64_t address, uint64_t size, bool is_there);

/* Report that, before the event that was just undone, the block at address existed (add; `blocks` has it
 * under the key address + 1) or did not exist (remove). */
bool gp_import_unsplit_add(gp_import_unsplit_t *unsplit, gp_block_map_t *blocks, uint64_t address);
void gp_import_unsplit_remove(gp_import_unsplit_t *unsplit, uint64_t address);

/* import_replay.c: replays the events to compute what PyTorch leaves out: block numbers, hits, rounded sizes,
 * lifetimes, and each device's statistics. All columns must exist. Returns false after an error of the
 * document. */
bool gp_import_replay(gp_import_t *import);

#endif
