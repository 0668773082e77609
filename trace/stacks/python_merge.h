/* One stack of the native frames of a call and its Python frames. */
#ifndef GP_TRACE_PYTHON_MERGE_H
#define GP_TRACE_PYTHON_MERGE_H

#include "trace/stacks/python.h"

/*
 * Writes both to ret_words[0..capacity), the innermost first: each native frame of the interpreter's loop
 * gives way to the Python frames of that run of it, and the interpreter's other frames are left out. frames
 * and words are frames as in format/stack_log.h, the latter from gp_python_frames. is_cut: there are more
 * native frames outwards. Returns how many it wrote.
 */
size_t gp_python_merge(const gp_python_t *python, const uint64_t *frames, size_t frame_count, bool is_cut,
    const uint64_t *words, size_t count, uint64_t *ret_words, size_t capacity);

#endif
