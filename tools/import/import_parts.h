/*
 * How a snapshot of PyTorch becomes one of ours: shared by import_pytorch.c (the document), import_stacks.c (frames) and
 * import_history.c (what follows from the events).
 */
#ifndef GP_TOOLS_IMPORT_PARTS_H
#define GP_TOOLS_IMPORT_PARTS_H

#include "tools/export/block_map.h"
#include "tools/import/import_value.h"

/* Actions by their index in the events of the snapshot; names that are not known come after. */
#define GP_IMPORT_ACTIONS                                                                                    \
  ACTION(ALLOC, "alloc")                                                                                     \
  ACTION(FREE_REQUESTED, "free_requested")                                                                   \
  ACTION(FREE_COMPLETED, "free_completed")                                                                   \
  ACTION(SEGMENT_ALLOC, "segment_alloc")                                                                     \
  ACTION(SEGMENT_FREE, "segment_free")                                                                       \
  ACTION(SEGMENT_MAP, "segment_map")                                                                         \
  ACTION(SEGMENT_UNMAP, "segment_unmap")                                                                     \
  ACTION(OOM, "oom")                                                                                         \
  ACTION(SNAPSHOT, "snapshot")

enum gp_import_action {
#define ACTION(enumerator, name) GP_IMPORT_##enumerator,
  GP_IMPORT_ACTIONS
#undef ACTION
      GP_IMPORT_ACTION_COUNT
};

/* An open-addressing table of indexes, for finding what is there already. Zeroed: empty. */
typedef struct gp_import_table {
  uint32_t *indexes; /* one more than the index, 0: free */
  size_t room;
  size_t count;
} gp_import_table_t;

typedef struct gp_import {
  gp_document_t document;
  gp_snapshot_t *snapshot;
  int64_t *columns[GP_COLUMN_COUNT]; /* of the events, as they are being found out; in the end those of the snapshot */
  gp_import_table_t frames;
  gp_import_table_t stacks;
  size_t frame_room;
  size_t stack_room;
  size_t index_count; /* of stacks.frame_indexes */
  size_t index_room;
  size_t text_bytes;     /* of texts copied so far */
  gp_block_map_t streams; /* handle + 1 to index */
} gp_import_t;

/* import_pytorch.c */

/* Makes room in an array for one more item; the new ones are zeroed. False is an error of the document. */
bool gp_import_reserve(gp_import_t *import, void **items, size_t count, size_t *room, size_t item_size);

/* import_stacks.c */

/* The stack of a list of frames, the innermost first, in the snapshot's table; -1 for an empty list or NULL. */
bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack);

/* Ends the table of stacks. */
bool gp_import_stacks_end(gp_import_t *import);

/* A copy of a text that is UTF-8 without control bytes of the end; what is not becomes '?'. NULL: an error. */
char *gp_import_copy(gp_import_t *import, const gp_value_t *text);

/* import_history.c: fills in what PyTorch leaves to the reader: incarnations, hits, rounded sizes, lifetimes; and the
 * statistics of each device, by replaying the events. All columns are there. False is an error of the document. */
bool gp_import_history(gp_import_t *import);

#endif
