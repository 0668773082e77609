/*
 * Finds the owner of a stack's allocations. The owner is the user's code that needed the memory, not the
 * allocators and wrappers that it called (doc/owners.md).
 */
#ifndef GP_TOOLS_SYMBOLS_STACK_OWNERS_H
#define GP_TOOLS_SYMBOLS_STACK_OWNERS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/pattern.h"
#include "tools/read/snapshot.h"

typedef struct gp_owner_options {
  bool all_frames;           /* the innermost frame is always the owner */
  const gp_patterns_t *skip; /* more functions, files and modules that are never owners; NULL: none */
} gp_owner_options_t;

/*
 * Finds the owners of all stacks. Call it once, after gp_symbols_resolve. The functions below then only
 * return the results. Weighs each stack by the columns ACTION, SIZE and STACK; without these columns, all
 * stacks have the same weight. `options` may be NULL. Returns 0, or ENOMEM without a change.
 */
int gp_stack_owners_find(gp_snapshot_t *snapshot, const gp_owner_options_t *options);

/* Returns the frame that owns the stack's memory, as an index into snapshot->frames. Returns -1 if `stack` is
 * -1 or empty. If gp_stack_owners_find was not called, decides by this stack alone. Thread-safe. */
int gp_stack_owner(const gp_snapshot_t *snapshot, int stack);

/* Like gp_stack_owner, but returns an index into snapshot->stacks.frame_indexes, or SIZE_MAX. */
size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack);

/* Returns the nearest caller of the frame at `place` that is the user's code, or SIZE_MAX. Both are indexes
 * into snapshot->stacks.frame_indexes, within that stack. Thread-safe. */
size_t gp_stack_next_user(const gp_snapshot_t *snapshot, int stack, size_t place);

#define GP_OWNER_NAME_BYTES 1024

/* The description of an owner. Unknown texts are "". Texts may contain any character. */
typedef struct gp_owner_text {
  char function[GP_OWNER_NAME_BYTES];  /* name; or "module+0xoffset"; or "python3 train.py" for a script */
  char through[GP_OWNER_NAME_BYTES];   /* function of the user or a library that the owner called */
  char operation[GP_OWNER_NAME_BYTES]; /* operator of the framework, such as "aten::conv2d" */
  const char *file;                    /* path; borrowed from the snapshot */
  const char *language;                /* of a script whose frames are not recorded; else NULL. Static */
  int line;                            /* 0: unknown */
  size_t more_lines;                   /* other lines of the function with memory in use; set by the caller */
} gp_owner_text_t;

/* Describes the owner of a stack. Returns false if `stack` is -1 or empty. Thread-safe. */
bool gp_stack_owner_text(const gp_snapshot_t *snapshot, int stack, gp_owner_text_t *text);

/* Like gp_frame_function, but omits the parameters of PyTorch's functions, which users know by name. */
char *gp_frame_short_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/*
 * Writes an owner in one line: "Model::load(int) model.cu:12", "step train.py:41 (aten::conv2d)", "load()
 * through get()", "python3 train.py (Python frames are not recorded)". Truncates to `capacity`. Replaces
 * control characters, which could steer a terminal. Returns `buffer`.
 */
char *gp_owner_describe(const gp_owner_text_t *text, char *buffer, size_t capacity);

#endif
