/*
 * Shared by the files of the PyTorch export: export_pytorch.c writes the document and its segments,
 * export_pytorch_events.c the events.
 */
#ifndef GP_TOOLS_EXPORT_PYTORCH_PARTS_H
#define GP_TOOLS_EXPORT_PYTORCH_PARTS_H

#include "tools/export/export.h"
#include "tools/export/export_tree.h"

typedef struct gp_pytorch {
  const gp_export_t *export;
  gp_tree_t *tree;
  uint32_t *frame_numbers; /* by frame: the frame's number in the tree's memo */
  uint32_t *stack_numbers;
  uint32_t no_frames_number;
  gp_block_map_t live;   /* forwarded memory live at the end, with its address in the export */
  gp_block_map_t placed; /* forwarded memory live at the event being written, with its address there */
  uint64_t next_place;   /* next address that gp_pytorch_place assigns; 0: none was assigned yet */
  bool *is_part;         /* by event: true for the segment_alloc or segment_free of a part of a segment */
  bool *has_parts;       /* by segment: whether the segment consists of such parts */
  uint64_t misfits;      /* number of blocks that are not inside their segment */
} gp_pytorch_t;

/* Writes a member of a dict. A number above INT64_MAX is written as INT64_MAX. */
void gp_pytorch_integer(gp_pytorch_t *pytorch, const char *name, uint64_t number);
void gp_pytorch_text(gp_pytorch_t *pytorch, const char *name, const char *value);

/* Writes the member "frames", innermost frame first as in the snapshot. Writes an empty list for stack -1. */
void gp_pytorch_frames(gp_pytorch_t *pytorch, int stack);
void gp_pytorch_stream(gp_pytorch_t *pytorch, int stream);

/* Returns the address at which to show forwarded memory. Some kinds of memory have a handle instead of an
 * address, and a handle can have any value. Such memory gets an address above all device addresses and below
 * 2^53. */
uint64_t gp_pytorch_place(gp_pytorch_t *pytorch, const char *kind, uint64_t address, uint64_t size);

/* Sets is_part and has_parts, which the caller frees even after an error. Returns 0 or ENOMEM. */
int gp_pytorch_find_parts(gp_pytorch_t *pytorch);

/* Writes the member "device_traces". Returns 0 or ENOMEM. */
int gp_pytorch_traces(gp_pytorch_t *pytorch);

#endif
