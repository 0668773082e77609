/* Where a version of CPython has what stacks need, and whether that is so. */
#ifndef GP_TRACE_PYTHON_LAYOUT_H
#define GP_TRACE_PYTHON_LAYOUT_H

#include "trace/stacks/python.h"

/* What an interpreter exports. Addresses; 0 or NULL: it does not. */
typedef struct gp_python_symbols {
  uintptr_t runtime;    /* _PyRuntime */
  uintptr_t version;    /* Py_Version, from 3.11 on */
  uintptr_t code_type;  /* PyCode_Type */
  uintptr_t frame_type; /* PyFrame_Type */
  uintptr_t loop;       /* _PyEval_EvalFrameDefault is at [loop, loop_end) */
  uintptr_t loop_end;
  uintptr_t part; /* as in gp_python_t */
  uintptr_t part_end;
  uintptr_t start; /* as in gp_python_t */
  uintptr_t end;
  void *(*thread_state)(void);
  int (*is_initialized)(void);
  void *(*first_interpreter)(void);
  void *(*main_interpreter)(void);
  const char *(*version_text)(void); /* Py_GetVersion */
} gp_python_symbols_t;

typedef enum gp_python_check {
  GP_PYTHON_GOOD,
  GP_PYTHON_LATER, /* there is nothing to be checked yet */
  GP_PYTHON_BAD,   /* the text says why */
} gp_python_check_t;

/* The layout of this interpreter, which has begun. Reads only what the kernel says is readable. */
gp_python_check_t gp_python_layout_find(
    const gp_python_symbols_t *symbols, gp_python_t *ret_python, char *why, size_t capacity);

/* Follows the calling thread's chain of frames to its end, and looks at what each frame runs. Later: the
 * thread has no frames. Reads only what the kernel says is readable. */
gp_python_check_t gp_python_layout_prove(const gp_python_t *python, char *why, size_t capacity);

/*
 * From 3.14 on each thread of a free-threaded CPython runs its own copy of a code object's instructions, but
 * the first thread, which runs those in the code object. The code object has an array of the copies.
 */

/* Where the copy begins that this frame of the calling thread runs; 0: it runs none, or it cannot be told.
 * Safe at any time: other threads make the array anew and free the old one. */
uintptr_t gp_python_copy_of(const gp_python_t *python, uintptr_t frame, uintptr_t code);

#endif
