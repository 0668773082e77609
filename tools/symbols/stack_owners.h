/*
 * Whose allocation a stack is: the user's code that wanted the memory, not what handed it on (doc/owners.md).
 */
#ifndef GP_TOOLS_SYMBOLS_STACK_OWNERS_H
#define GP_TOOLS_SYMBOLS_STACK_OWNERS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/pattern.h"
#include "tools/read/snapshot.h"

typedef struct gp_owner_options {
  bool all_frames;           /* the owner is the innermost frame, whatever it is */
  const gp_patterns_t *skip; /* more frames that are never owners, by function, file or module; NULL: none */
} gp_owner_options_t;

/*
 * Finds the owners of all stacks, once and after gp_symbols_resolve: the functions below then only look them
 * up. The columns ACTION, SIZE and STACK say how much each stack asked for; without them all weigh the same.
 * options: NULL for none. Returns 0 or ENOMEM; then nothing was changed.
 */
int gp_stack_owners_find(gp_snapshot_t *snapshot, const gp_owner_options_t *options);

/*
 * The frame that owns what the stack asked for, an index into snapshot->frames; -1: stack is -1 or empty.
 * Without gp_stack_owners_find it is found from this stack alone. Thread-safe.
 */
int gp_stack_owner(const gp_snapshot_t *snapshot, int stack);

/* The same, as its place in snapshot->stacks.frame_indexes; SIZE_MAX: stack is -1 or empty. */
size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack);

#define GP_OWNER_NAME_BYTES 1024

/* What is said of an owner. Text is "" where it is not known, and may hold any character. */
typedef struct gp_owner_text {
  char function[GP_OWNER_NAME_BYTES];  /* else "module+0xoffset"; of a script: "python3 train.py" */
  char through[GP_OWNER_NAME_BYTES];   /* the function of the user or of a library that it called */
  char operation[GP_OWNER_NAME_BYTES]; /* "aten::conv2d" */
  const char *file;                    /* with its folders; borrowed from the snapshot */
  const char *language;                /* its frames are not recorded; NULL: they are. Static */
  int line;                            /* 0: not known */
  size_t more_lines;                   /* others of the function that hold something; set by the caller */
} gp_owner_text_t;

/* Says whose the stack is. False: stack is -1 or empty. Thread-safe. */
bool gp_stack_owner_text(const gp_snapshot_t *snapshot, int stack, gp_owner_text_t *text);

/* As gp_frame_function; PyTorch's functions, which are known by their names, without their parameters. */
char *gp_frame_short_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/*
 * In a line: "Model::load(int) model.cu:12", "step train.py:41 (aten::conv2d)", "load() through get()",
 * "python3 train.py (Python frames are not recorded)". Cut to capacity, what could steer a terminal replaced.
 * Returns buffer.
 */
char *gp_owner_describe(const gp_owner_text_t *text, char *buffer, size_t capacity);

#endif
