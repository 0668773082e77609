/*
 * Converts a PyTorch snapshot into a gpupool snapshot. This header is shared by import_pytorch.c (the
 * document), import_json.c, import_members.c, import_events.c, import_frees.c, import_segments.c,
 * import_extents.c, import_stacks.c (frames) and import_replay.c (values derived from the events).
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H

#include "tools/hash_index.h"
#include "tools/read/block_map.h"
#include "tools/read/pytorch/import.h"
#include "tools/read/pytorch/import_value.h"
#include "tools/read/input.h"

/* Columns of events that the reader fills in addition to those of gp_snapshot_column_t. */
typedef enum gp_import_column {
  GP_IMPORT_DEVICE_FREE = GP_COLUMN_COUNT, /* -1: missing */
  GP_IMPORT_POOL,                          /* -1: missing */
  GP_IMPORT_COLUMNS,
} gp_import_column_t;

struct gp_import {
  gp_value_tree_t tree;
  gp_snapshot_t *snapshot;
  int64_t *columns[GP_IMPORT_COLUMNS]; /* of the events while they are read; the snapshot's later */
  const char *source; /* name of the program that wrote the input (static); NULL: PyTorch's snapshot */
  size_t event_room;
  bool has_segments;      /* true after the segments were read */
  int last_device;        /* device of the latest event */
  bool says_device_free;  /* at least one event has a value in GP_IMPORT_DEVICE_FREE */
  bool says_pool;         /* at least one event has a value in GP_IMPORT_POOL */
  gp_hash_index_t frames; /* index of the snapshot's frames */
  gp_hash_index_t stacks;
  size_t frame_room;
  size_t stack_room;
  size_t index_count; /* number of items in stacks.frame_indexes */
  size_t index_room;
  size_t text_bytes;      /* bytes of texts copied so far */
  gp_block_map_t streams; /* index of each stream, by its handle plus 1 */
  gp_block_map_t pools; /* private pools by both numbers of the id; `stream` is the pool's index, from 1 on */
};

/* Functions of import_members.c */

#define GP_IMPORT_NUMBER_MOST ((INT64_C(1) << 53) - 1) /* largest size or time, as in gpupool's format */

/* A dict that is being read, and its place in messages: list[at].inner[inner_at]. `inner` may be NULL. */
typedef struct gp_import_place {
  gp_import_t *import;
  const gp_value_t *dict;
  const char *list;
  const char *inner;
  size_t at;
  size_t inner_at;
  bool is_item; /* true if the dict is an element of `list`; false if `list` is the name of the dict */
} gp_import_place_t;

/* Makes room for one more item in an array. Evaluates to false after an error in the document. */
#define GP_IMPORT_RESERVE(import, items, count, room)                                                        \
  gp_value_tree_reserve(&(import)->tree, 0, &(items), count, &(room), sizeof(*(items)))

/* Each records an error, unless an earlier error is recorded, and returns false. */
bool gp_import_no_memory(gp_import_t *import);
bool gp_import_fail(const gp_import_place_t *place, const char *name, const char *what);

/* Marks a container as read. Returns false if it was read before. Many values may share a container. Reading
 * each container only once bounds the result, and keeps a frame from being read as an event. */
bool gp_import_claim(gp_container_t *container);

/* These and the functions below return false after an error in the document. */

bool gp_import_is_dict(const gp_import_place_t *place);

/* Reads a member as a number from 0 to `most`. If the member is missing, fails with `is_required`; otherwise
 * leaves *ret_number unchanged. */
bool gp_import_number(
    const gp_import_place_t *place, const char *name, uint64_t most, bool is_required, uint64_t *ret_number);

/* Reads a member as a list. Sets *ret_list to NULL if the member is missing. */
bool gp_import_list(
    const gp_import_place_t *place, const char *name, bool is_required, const gp_container_t **ret_list);

/* Reads a stream, and sets *ret_stream to its index in the table of streams. Streams are distinguished by
 * their handles; handle 0 is the default stream. */
bool gp_import_stream(const gp_import_place_t *place, int *ret_stream);

/* Reads the member `name`, a pool id, and sets *ret_pool to the pool's index. The index is 0 for the default
 * pool, above 0 for a private pool, and -1 if the member is missing. */
bool gp_import_pool(const gp_import_place_t *place, const char *name, int *ret_pool);

/* Adds a device, unless the snapshot contains it already. */
bool gp_import_device(gp_import_t *import, int ordinal);

/* Members of the document that stay in memory as trees. */
struct gp_import_top {
  gp_value_t own;         /* "gpupool", which gpupool's export adds; ignored unless it is a dict */
  gp_value_t settings;    /* "allocator_settings" */
  gp_value_t annotations; /* "external_annotations" */
};

/* The `reason` of snapshots made from logs without segments, indexed by gp_log_kind_t. */
#define GP_IMPORT_LOGS 3
extern const char *const gp_import_logs[GP_IMPORT_LOGS];

/* Reads the segments and their blocks (import_segments.c). Call it once. */
bool gp_import_segments(gp_import_t *import, const gp_container_t *list);

/* Functions of import_events.c */

/* An event that is being read, with one member for each column. */
typedef struct gp_import_event {
  int64_t action;  /* index in the snapshot's table of actions */
  int64_t time_us; /* -1: missing */
  uint64_t address;
  uint64_t size;
  uint64_t rounded;    /* 0: missing */
  int64_t device_free; /* -1: missing */
  int device;
  int stream; /* index of the stream; -1: missing, as for the next two members */
  int stack;
  int pool;
} gp_import_event_t;

/* Returns the index in the snapshot's table of actions for a kind of event that PyTorch records. */
int gp_import_action(gp_event_kind_t kind);

/* Add events device by device, and in order of time within each device. gp_import_events_end() sorts the
 * events of all devices by time. *start_us is the time that becomes time 0. If *start_us is 0, it is set to
 * the time of the first event. */
bool gp_import_events_begin(gp_import_t *import);
bool gp_import_event(gp_import_t *import, const gp_value_t *event, int device, size_t index);
bool gp_import_add_event(gp_import_t *import, const gp_import_event_t *event);
bool gp_import_events_end(gp_import_t *import, uint64_t *start_us);

/* Adds the marks in a list of annotations (import_events.c). The value may be of any kind. start_us is time 0
 * of the events; 0 means that events have no times, and then no marks are added. Returns false after an error
 * in the document. */
bool gp_import_annotations(gp_import_t *import, const gp_value_t *list, uint64_t start_us);

/* Adds the events of frees that were not recorded (import_frees.c). The events must be sorted. Only the
 * columns that are filled from PyTorch's events may exist. */
bool gp_import_complete_frees(gp_import_t *import);

/* Functions of import_stacks.c */

/* Adds a stack to the snapshot's table. `frames` is a list of frames, innermost first. *ret_stack is the
 * stack's index, or -1 for an empty list or NULL. */
bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack);

/* Adds a frame to the snapshot's table and sets *ret_index to its index. NULL and line 0 mean unknown. */
bool gp_import_frame(
    gp_import_t *import, const gp_value_t *function, const gp_value_t *file, int line, int *ret_index);

/* Like gp_import_stack, for frames that the table already contains. */
bool gp_import_stack_of(gp_import_t *import, const int *frames, size_t count, int *ret_stack);

/* Completes the table of stacks after the last stack. */
bool gp_import_stacks_end(gp_import_t *import);

/* Returns a copy of a text as UTF-8 without control bytes. Replaces invalid bytes with '?'. Returns NULL
 * after an error. */
char *gp_import_copy(gp_import_t *import, const gp_value_t *text);

/* Replays the mapping of memory for a device with expandable segments (import_extents.c). Adds the extents of
 * the snapshot, and sets has_extents, lacks_reserved and the statistics of segments. The blocks of the events
 * must have their rounded sizes. */
bool gp_import_extents(gp_import_t *import, gp_snapshot_device_t *device);

/* Functions of import_segments.c that compute how large blocks in the ordinary segments of one device are.
 * The caller goes backwards through the events and reports each segment and block that appears or disappears.
 * In the caller's blocks, `size` is the size after PyTorch's rounding. These functions set `rounded`, which
 * also includes a remainder that PyTorch did not split off. */

typedef struct gp_import_range {
  uint64_t address;
  uint64_t size;
} gp_import_range_t;

/* Ranges sorted by address. There are few large blocks, so an array is fast enough (import_extents.c). */
typedef struct gp_import_ranges {
  gp_import_range_t *items;
  size_t count;
  size_t room;
} gp_import_ranges_t;

typedef struct gp_import_unsplit {
  gp_import_t *import;
  gp_import_ranges_t segments;
  gp_import_ranges_t blocks; /* blocks of PyTorch's large pool */
  uint64_t split_most;       /* PyTorch never splits a free piece for a block of this size or more */
} gp_import_unsplit_t;

/* Begins with the segments in the snapshot, which are those at the end. Call gp_import_unsplit_fini in any
 * case. This function and those below return false after an error in the document. */
bool gp_import_unsplit_begin(gp_import_unsplit_t *unsplit, gp_import_t *import, int device);
void gp_import_unsplit_fini(gp_import_unsplit_t *unsplit);

/* Reports that the segment existed (is_there) or did not exist before the event that was just undone. */
bool gp_import_unsplit_segment(gp_import_unsplit_t *unsplit, uint64_t address, uint64_t size, bool is_there);

/* Report the effect of undoing an event on the block at `address`. Before that event, the block existed (add)
 * or did not exist (remove). An existing block is in `blocks`, under the key address + 1. */
bool gp_import_unsplit_add(gp_import_unsplit_t *unsplit, gp_block_map_t *blocks, uint64_t address);
void gp_import_unsplit_remove(gp_import_unsplit_t *unsplit, uint64_t address);

/* Replays the events to compute the values that PyTorch does not record (import_replay.c): block numbers,
 * hits, rounded sizes, lifetimes, and the statistics of each device. All columns must exist. Returns false
 * after an error in the document. */
bool gp_import_replay(gp_import_t *import);

#endif
