/*
 * How a PyTorch snapshot becomes one of gpupool's. Shared by import_pytorch.c (the document),
 * import_json.c, import_members.c, import_events.c, import_events.c, import_stacks.c (frames) and
 * import_replay.c (what follows from the events).
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H

#include "tools/hash_index.h"
#include "tools/read/block_map.h"
#include "tools/read/pytorch/import.h"
#include "tools/read/pytorch/import_value.h"
#include "tools/read/input.h"

/* What the reader takes from events besides the snapshot's columns. */
typedef enum gp_import_column {
  GP_IMPORT_DEVICE_FREE = GP_COLUMN_COUNT, /* -1: missing */
  GP_IMPORT_POOL,                          /* -1: missing */
  GP_IMPORT_COLUMNS,
} gp_import_column_t;

struct gp_import {
  gp_value_tree_t tree;
  gp_snapshot_t *snapshot;
  int64_t *columns[GP_IMPORT_COLUMNS]; /* of the events, while they are read; in the end the snapshot's */
  const char *source;                  /* what wrote the input, static; NULL: PyTorch's snapshots */
  size_t event_room;
  bool has_segments;      /* they are read */
  int last_device;        /* of the events so far */
  bool says_device_free;  /* at least one event tells */
  bool says_pool;         /* likewise */
  gp_hash_index_t frames; /* of the snapshot */
  gp_hash_index_t stacks;
  size_t frame_room;
  size_t stack_room;
  size_t index_count; /* items in stacks.frame_indexes */
  size_t index_room;
  size_t text_bytes;      /* bytes of texts copied so far */
  gp_block_map_t streams; /* handle + 1 to index */
  gp_block_map_t pools;   /* private pools: by both numbers of the id; an index from 1 on is in stream */
};

/* import_members.c */

#define GP_IMPORT_NUMBER_MOST ((INT64_C(1) << 53) - 1) /* largest size or time, as in our own format */

/* A dict that is being read, and its name in messages: list[at].inner[inner_at], as far as they are set. */
typedef struct gp_import_place {
  gp_import_t *import;
  const gp_value_t *dict;
  const char *list;
  const char *inner;
  size_t at;
  size_t inner_at;
  bool is_item; /* of the list; else the dict has the list's name */
} gp_import_place_t;

/* Makes room in an array for one more item. False is an error of the document. */
#define GP_IMPORT_RESERVE(import, items, count, room)                                                        \
  gp_value_tree_reserve(&(import)->tree, 0, &(items), count, &(room), sizeof(*(items)))

/* Notes an error, unless one is noted already. Both return false. */
bool gp_import_no_memory(gp_import_t *import);
bool gp_import_fail(const gp_import_place_t *place, const char *name, const char *what);

/* Marks a container as read. False: it was read before. Reading each only once bounds the result, however
 * many values share a container, and keeps a frame from being read as an event. */
bool gp_import_claim(gp_container_t *container);

/* The rest return false after an error of the document. */

bool gp_import_is_dict(const gp_import_place_t *place);

/* Reads a number from 0 to most. If it is missing: an error if required, else *ret_number is unchanged. */
bool gp_import_number(
    const gp_import_place_t *place, const char *name, uint64_t most, bool is_required, uint64_t *ret_number);

/* Reads a list; NULL if missing. */
bool gp_import_list(
    const gp_import_place_t *place, const char *name, bool is_required, const gp_container_t **ret_list);

/* The index of a stream in the table. Handles are pointers; 0 is the default stream. */
bool gp_import_stream(const gp_import_place_t *place, int *ret_stream);

/* The index of the pool whose id is a member: 0 is the default pool, others are private; -1: missing. */
bool gp_import_pool(const gp_import_place_t *place, const char *name, int *ret_pool);

/* Adds a device when it first appears. */
bool gp_import_device(gp_import_t *import, int ordinal);

/* The top members of a document that are trees. */
struct gp_import_top {
  gp_value_t own;         /* "gpupool", which gpupool's export adds; ignored if of another kind */
  gp_value_t settings;    /* "allocator_settings" */
  gp_value_t annotations; /* "external_annotations" */
};

/* The reasons of snapshots that are made from logs without segments. */
#define GP_IMPORT_LOGS 3
extern const char *const gp_import_logs[GP_IMPORT_LOGS];

/* import_segments.c: reads segments and their blocks; call it once. */
bool gp_import_segments(gp_import_t *import, const gp_container_t *list);

/* import_events.c */

/* An event as the columns have it. */
typedef struct gp_import_event {
  int64_t action;  /* index in the snapshot's table of actions */
  int64_t time_us; /* -1: missing */
  uint64_t address;
  uint64_t size;
  uint64_t rounded;    /* 0: missing */
  int64_t device_free; /* -1: missing */
  int device;
  int stream; /* index, like the next two; -1: missing */
  int stack;
  int pool;
} gp_import_event_t;

/* The action of a kind that PyTorch's events have. */
int gp_import_action(gp_event_kind_t kind);

/* Add events device by device, each device's in order. gp_import_events_end() sorts them by time over all
 * devices. *start_us is time 0; if it is 0, it becomes the time of the first event. */
bool gp_import_events_begin(gp_import_t *import);
bool gp_import_event(gp_import_t *import, const gp_value_t *event, int device, size_t index);
bool gp_import_add_event(gp_import_t *import, const gp_import_event_t *event);
bool gp_import_events_end(gp_import_t *import, uint64_t *start_us);

/* import_events.c: adds the marks of a list of annotations, any value. start_us: time 0 of the events;
 * 0: they have no times, and nothing is added. False is an error of the document. */
bool gp_import_annotations(gp_import_t *import, const gp_value_t *list, uint64_t start_us);

/* import_frees.c: adds the events of frees that were not recorded. The events are in order, and have no
 * columns but those that PyTorch's fill. */
bool gp_import_complete_frees(gp_import_t *import);

/* import_stacks.c */

/* The index in the snapshot's table of the stack of a list of frames, innermost
 * first; -1 for an empty list or NULL. */
bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack);

/* The index in the snapshot's table of a frame. NULL: no such text. line 0: unknown. */
bool gp_import_frame(
    gp_import_t *import, const gp_value_t *function, const gp_value_t *file, int line, int *ret_index);

/* Like gp_import_stack, of frames in the table. */
bool gp_import_stack_of(gp_import_t *import, const int *frames, size_t count, int *ret_stack);

/* Completes the table of stacks. */
bool gp_import_stacks_end(gp_import_t *import);

/* Copies a text that should be UTF-8 without control bytes; other bytes become '?'. NULL: an error. */
char *gp_import_copy(gp_import_t *import, const gp_value_t *text);

/* import_extents.c: replays what the driver supplied of a device with expandable segments. Adds to the
 * snapshot's extents, and computes has_extents, lacks_reserved and the statistics of segments. The blocks of
 * events have their rounded sizes. */
bool gp_import_extents(gp_import_t *import, gp_snapshot_device_t *device);

/* import_segments.c: how large blocks are in one device's ordinary segments. The caller goes back through the
 * events, and tells what is there. Its blocks have their sizes by PyTorch's rounding in `size`; `rounded`
 * grows by a rest that was not split off. */

typedef struct gp_import_range {
  uint64_t address;
  uint64_t size;
} gp_import_range_t;

/* By address. An array serves: there are few large blocks, as in import_extents.c. */
typedef struct gp_import_ranges {
  gp_import_range_t *items;
  size_t count;
  size_t room;
} gp_import_ranges_t;

typedef struct gp_import_unsplit {
  gp_import_t *import;
  gp_import_ranges_t segments;
  gp_import_ranges_t blocks; /* of the large pool */
  uint64_t split_most;       /* PyTorch splits no free piece for a block of at least that size */
} gp_import_unsplit_t;

/* Begins with the segments of the end. Call fini in any case. False, here and below, is an error of the
 * document. */
bool gp_import_unsplit_begin(gp_import_unsplit_t *unsplit, gp_import_t *import, int device);
void gp_import_unsplit_fini(gp_import_unsplit_t *unsplit);

/* Before this, the segment was there, or was not. */
bool gp_import_unsplit_segment(gp_import_unsplit_t *unsplit, uint64_t address, uint64_t size, bool is_there);

/* Before this, the block was there, which is in the map by its address + 1; or was not. */
bool gp_import_unsplit_add(gp_import_unsplit_t *unsplit, gp_block_map_t *blocks, uint64_t address);
void gp_import_unsplit_remove(gp_import_unsplit_t *unsplit, uint64_t address);

/* import_replay.c: computes what PyTorch leaves out by replaying the events: block numbers, hits, rounded
 * sizes, lifetimes, and each device's statistics. All columns exist. False is an error of the document. */
bool gp_import_replay(gp_import_t *import);

#endif
