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

/*
 * A digest of what gp_python_frames would read, without reading what code objects say: the addresses of the
 * code objects and of their instructions, and a proof that no other code objects are there by now. That is
 * the version of the code object, which the interpreter gives to no other (3.12, 3.13), or its count of freed
 * code objects (from 3.14 on). With an equal digest gp_python_frames gives the same words. 0: there is no
 * proof, or no frame.
 */
uint64_t gp_python_walk_digest(const gp_python_t *python, size_t capacity);

#endif
