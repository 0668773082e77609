/*
 * Finds whose allocation a stack is: the user's code that wanted the memory, not code that passed it on
 * (doc/owners.md).
 */
#ifndef GP_TOOLS_SYMBOLS_STACK_OWNERS_H
#define GP_TOOLS_SYMBOLS_STACK_OWNERS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/pattern.h"
#include "tools/read/snapshot.h"

typedef struct gp_owner_options {
  bool all_frames;           /* the innermost frame is the owner, whatever it is */
  const gp_patterns_t *skip; /* more frames that are never owners, by function, file or module; NULL:
                                none */
} gp_owner_options_t;

/*
 * Finds the owners of all stacks. Call it once, after gp_symbols_resolve; the functions below then only
 * look owners up. The columns ACTION, SIZE and STACK give each stack's weight; without them all weigh the
 * same. options: may be NULL. Returns 0, or ENOMEM without a change.
 */
int gp_stack_owners_find(gp_snapshot_t *snapshot, const gp_owner_options_t *options);

/* The frame that owns the stack's memory, an index into snapshot->frames; -1: stack is -1 or empty. Without
 * gp_stack_owners_find it depends on this stack alone. Thread-safe. */
int gp_stack_owner(const gp_snapshot_t *snapshot, int stack);

/* Like gp_stack_owner, as an index into snapshot->stacks.frame_indexes; SIZE_MAX: stack is -1 or empty. */
size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack);

/* The next place outwards from `place`, such an index into that stack, whose frame is the user's; SIZE_MAX:
 * none. Thread-safe. */
size_t gp_stack_next_user(const gp_snapshot_t *snapshot, int stack, size_t place);

#define GP_OWNER_NAME_BYTES 1024

/* The description of an owner. Unknown texts are ""; texts may hold any character. */
typedef struct gp_owner_text {
  char function[GP_OWNER_NAME_BYTES];  /* else "module+0xoffset"; for a script "python3 train.py" */
  char through[GP_OWNER_NAME_BYTES];   /* the user's or library's function that it called */
  char operation[GP_OWNER_NAME_BYTES]; /* "aten::conv2d" */
  const char *file;                    /* with its folders; borrowed from the snapshot */
  const char *language;                /* language of a script without recorded frames; else NULL. Static */
  int line;                            /* 0: unknown */
  size_t more_lines;                   /* other lines of the function that hold memory; set by the caller */
} gp_owner_text_t;

/* Describes the owner of a stack. False: stack is -1 or empty. Thread-safe. */
bool gp_stack_owner_text(const gp_snapshot_t *snapshot, int stack, gp_owner_text_t *text);

/* Like gp_frame_function, but omits the parameters of PyTorch's functions, which are known by name. */
char *gp_frame_short_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/*
 * Writes an owner in a line: "Model::load(int) model.cu:12", "step train.py:41 (aten::conv2d)", "load()
 * through get()", "python3 train.py (Python frames are not recorded)". Cuts to capacity and replaces what
 * could steer a terminal. Returns buffer.
 */
char *gp_owner_describe(const gp_owner_text_t *text, char *buffer, size_t capacity);

#endif
