/*
 * How a snapshot of PyTorch becomes one of gpupool's: shared by import_pytorch.c (the document),
 * import_json.c, import_members.c, import_events.c, import_stacks.c (frames) and import_replay.c (what
 * follows from the events).
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_PARTS_H

#include "tools/read/block_map.h"
#include "tools/read/pytorch/import_value.h"
#include "tools/read/input.h"

/* An open-addressing table of indexes, for finding what is there already. Zeroed: empty. */
typedef struct gp_import_table {
  uint32_t *indexes; /* one more than the index, 0: free */
  size_t room;
  size_t count;
} gp_import_table_t;

/* What is read of each event besides the columns of the snapshot. */
typedef enum gp_import_column {
  GP_IMPORT_DEVICE_FREE = GP_COLUMN_COUNT, /* -1: not said */
  GP_IMPORT_COLUMNS,
} gp_import_column_t;

typedef struct gp_import {
  gp_value_tree_t tree;
  gp_snapshot_t *snapshot;
  int64_t *columns[GP_IMPORT_COLUMNS]; /* of the events, as they are being found out; in the end those of the
                                        snapshot */
  size_t event_room;
  bool says_device_free; /* an event does */
  gp_import_table_t frames;
  gp_import_table_t stacks;
  size_t frame_room;
  size_t stack_room;
  size_t index_count; /* of stacks.frame_indexes */
  size_t index_room;
  size_t text_bytes;      /* of texts copied so far */
  gp_block_map_t streams; /* handle + 1 to index */
} gp_import_t;

/* import_members.c */

#define GP_IMPORT_NUMBER_MOST ((INT64_C(1) << 53) - 1) /* of sizes and times, as in our own format */
#define GP_IMPORT_PATH_BYTES  64

/* A dict that is being read, and how messages call it. */
typedef struct gp_import_place {
  gp_import_t *import;
  const gp_value_t *dict;
  char path[GP_IMPORT_PATH_BYTES];
} gp_import_place_t;

/* Makes room in an array for one more item; the new ones are zeroed. False is an error of the document. */
bool gp_import_reserve(gp_import_t *import, void **items, size_t count, size_t *room, size_t item_size);

/* Notes an error, if there is none yet. Both return false. */
bool gp_import_no_memory(gp_import_t *import);
bool gp_import_fail(const gp_import_place_t *place, const char *name, const char *what);

/*
 * Each container is read once, whatever shares it: else a small file could be as long as it likes, and one
 * that is a frame would be taken for an event. False: it was read before.
 */
bool gp_import_claim(gp_container_t *container);

/* The rest return false after an error of the document. */

bool gp_import_is_dict(gp_import_t *import, const gp_value_t *value, const char *path);

/* A number from 0 to most; required, or otherwise left as it is. */
bool gp_import_number(
    const gp_import_place_t *place, const char *name, uint64_t most, bool is_required, uint64_t *ret_number);

/* A list, NULL if there is none. */
bool gp_import_list(
    const gp_import_place_t *place, const char *name, bool is_required, const gp_container_t **ret_list);

/* The index of a stream in the table; handles are pointers, and 0 is the default stream. */
bool gp_import_stream(const gp_import_place_t *place, int *ret_stream);

/* Devices appear as they are met. */
bool gp_import_device(gp_import_t *import, int ordinal);

/* What a document has at its top: the parts of it that are trees. */
typedef struct gp_import_top {
  gp_value_t own;      /* "gpupool": what gpupool's export added; of another kind: nothing */
  gp_value_t settings; /* "allocator_settings" */
} gp_import_top_t;

/* import_segments.c: segments and their blocks; once. */
bool gp_import_segments(gp_import_t *import, const gp_container_t *list);

/* import_events.c */

/*
 * The events come device by device, each in their order. gp_import_events_end() puts them in the order of
 * their times over all devices, and tells when time 0 is: *start_us, or if that is 0 the first event.
 */
bool gp_import_events_begin(gp_import_t *import);
bool gp_import_event(gp_import_t *import, const gp_value_t *event, int device, size_t index);
bool gp_import_events_end(gp_import_t *import, uint64_t *start_us);

/* import_json.c */

/* Reads JSON: segments and events become those of the snapshot, the rest is in *ret_top. */
bool gp_import_json_parts(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* import_stacks.c */

/* The stack of a list of frames, the innermost first, in the snapshot's table; -1 for
 * an empty list or NULL. */
bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack);

/* Ends the table of stacks. */
bool gp_import_stacks_end(gp_import_t *import);

/* A copy of a text that is UTF-8 without control bytes of the end; what is not
 * becomes '?'. NULL: an error. */
char *gp_import_copy(gp_import_t *import, const gp_value_t *text);

/* import_replay.c: fills in what PyTorch leaves to the reader: incarnations, hits, rounded sizes, lifetimes;
 * and the statistics of each device, by replaying the events. All columns are there. False is an error of the
 * document. */
bool gp_import_replay(gp_import_t *import);

#endif
