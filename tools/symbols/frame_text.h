/*
 * How reports show a frame, and which frame of a stack they name as its owner.
 */
#ifndef GP_TOOLS_SYMBOLS_FRAME_TEXT_H
#define GP_TOOLS_SYMBOLS_FRAME_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/read/snapshot.h"

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
 * Whose allocation it is: the innermost frame of the stack that is neither in CUDA's libraries nor in
 * gpupool's, nor in a function that only hands on what it gets from them (cudaMalloc of a static runtime,
 * thrust's and RMM's allocators, std::allocator_traits, operator new; the list is in frame_text.c). If all
 * frames are such, the outermost of them. An index into snapshot->frames; -1: stack is -1 or empty. Without
 * names (gp_symbols_resolve) only modules count.
 */
int gp_stack_owner(const gp_snapshot_t *snapshot, int stack);

/* The same, as its place in snapshot->stacks.frame_indexes; SIZE_MAX: stack is -1 or empty. */
size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack);

#endif
