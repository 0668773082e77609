/* The Python frames of the calling thread. */
#ifndef GP_TRACE_PYTHON_FRAMES_H
#define GP_TRACE_PYTHON_FRAMES_H

#include "trace/stacks/python_codes.h"

/* A run of the interpreter's loop that has no frame any more, as when its locals are freed. */
#define GP_PYTHON_EMPTY_RUN gp_frame_pack_python(GP_FRAME_CODE_NONE, GP_FRAME_INSTRUCTION_NONE, true)

/*
 * Writes the frames, the innermost first, as words (format/stack_log.h); GP_PYTHON_EMPTY_RUN is among them.
 * Returns how many, at most capacity; 0: the thread runs no Python. The thread is in a function that Python
 * called, so its frames do not change meanwhile. Any thread, with no ranked lock held.
 */
size_t gp_python_frames(gp_codes_t *codes, const gp_python_t *python, uint64_t *words, size_t capacity);

#endif
