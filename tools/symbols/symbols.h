/*
 * Names of the frames of a snapshot, found afterwards and offline: by build-id, so that another build of the
 * program never lends its names. And how all reports show a frame, and whom they name as the owner of a
 * stack.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/read/native/snapshot_reader.h"

/* Everything is borrowed. All zero: this machine's own files. */
typedef struct gp_symbols_options {
  const char *sysroot; /* the modules' paths begin here; NULL: at the root */
  const char
      *debug_directory; /* more debug files, in .build-id/ or by their names; NULL: only the usual places */
  /* Told once of each module with frames for which no names were found; NULL: nobody is told. */
  void (*problem)(void *arg, const gp_snapshot_module_t *module, const char *why);
  void *arg;
} gp_symbols_options_t;

/* False: this build of the tool cannot look names up, and gp_symbols_resolve leaves a snapshot as it is. */
bool gp_symbols_are_available(void);

/*
 * Fills function, file and line of the frames that have no function yet, as far as they can be found; the
 * rest stays "" and 0. Where the compiler has put functions into others, a frame becomes several, the
 * innermost first (is_inline of all but the last), so indexes of frames change; those of stacks do not. A
 * module's own file is used only if its build-id is that of the snapshot; without build-ids, only if the file
 * is older than the process. Nothing is fetched over a network. options: NULL for the default. One thread at
 * a time (libdw, and DEBUGINFOD_URLS is taken out of the environment).
 */
void gp_symbols_resolve(gp_snapshot_t *snapshot, const gp_symbols_options_t *options);

/*
 * "function file:line" (the file without its folders), "function", "module+0xoffset" if there is no name, or
 * "0xaddress". Cut to capacity (at least 1), bytes that could steer a terminal replaced. frame is an index
 * into snapshot->frames. Returns buffer.
 */
char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* The function alone, else as gp_frame_describe. Returns buffer. */
char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* True of a frame that only hands on memory that others asked for (below). */
bool gp_frame_is_allocator(const gp_snapshot_t *snapshot, int frame);

/*
 * Whose allocation it is: the innermost frame of the stack that is neither in CUDA's libraries nor in ours,
 * nor in a function that only hands on what it gets from them (cudaMalloc of a static runtime, thrust's and
 * RMM's allocators, std::allocator_traits, operator new; the list is in frame_text.c). If all frames are
 * such, the outermost of them. An index into snapshot->frames; -1: stack is -1 or empty. Without names
 * (gp_symbols_resolve) only modules count.
 */
int gp_stack_owner(const gp_snapshot_t *snapshot, int stack);

/* The same, as its place in snapshot->stacks.frame_indexes; SIZE_MAX: stack is -1 or empty. */
size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack);

#endif
