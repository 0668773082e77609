/*
 * From 3.14 on each thread of a free-threaded CPython runs its own copy of a code object's instructions, but
 * the first thread, which runs those in the code object. The code object has an array of the copies.
 */
#ifndef GP_TRACE_PYTHON_COPIES_H
#define GP_TRACE_PYTHON_COPIES_H

#include "trace/stacks/python.h"

/* Where the copy begins that this frame of the calling thread runs; 0: it runs none, or it cannot be told.
 * Safe at any time: other threads make the array anew and free the old one. */
uintptr_t gp_python_copy_of(const gp_python_t *python, uintptr_t frame, uintptr_t code);

#endif
