/* The Python frames of the calling thread. */
#ifndef GP_TRACE_PYTHON_FRAMES_H
#define GP_TRACE_PYTHON_FRAMES_H

#include "trace/stacks/python_codes.h"
#include "trace/stacks/python.h"

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

/* One stack of the native frames of a call and its Python frames. */

/*
 * Writes both to ret_words[0..capacity), the innermost first: each native frame of the interpreter's loop
 * gives way to the Python frames of that run of it, and the interpreter's other frames are left out. frames
 * and words are frames as in format/stack_log.h, the latter from gp_python_frames. is_cut: there are more
 * native frames outwards. Returns how many it wrote.
 */
size_t gp_python_merge(const gp_python_t *python, const uint64_t *frames, size_t frame_count, bool is_cut,
    const uint64_t *words, size_t count, uint64_t *ret_words, size_t capacity);

#endif
