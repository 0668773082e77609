/* Finds and checks the layout of the CPython structures that stacks need. */
#ifndef GP_TRACE_PYTHON_LAYOUT_H
#define GP_TRACE_PYTHON_LAYOUT_H

#include "trace/stacks/python.h"

/* The addresses of symbols that an interpreter exports; 0 or NULL if it does not export the symbol. */
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
  GP_PYTHON_LATER, /* the check is not possible yet */
  GP_PYTHON_BAD,   /* the check failed; `why` has the reason */
} gp_python_check_t;

/* Fills *ret_python with the layout of an initialized interpreter. Reads only memory that the kernel reports
 * as readable. */
gp_python_check_t gp_python_layout_find(
    const gp_python_symbols_t *symbols, gp_python_t *ret_python, char *why, size_t capacity);

/* Checks the layout: follows the calling thread's chain of frames to its end and checks each frame's code
 * object. Returns GP_PYTHON_LATER if the thread has no frames. Reads only memory that the kernel reports as
 * readable. */
gp_python_check_t gp_python_layout_prove(const gp_python_t *python, char *why, size_t capacity);

/*
 * Returns the address of the copy of the instructions that a frame of the calling thread runs. Returns 0 if
 * the frame runs no copy, or if the copy cannot be determined. Since 3.14 each thread of a free-threaded
 * CPython, except the first thread, runs its own copy of a code object's instructions. The code object has an
 * array of these copies. Safe at any time, although other threads may replace the array and free the old one.
 */
uintptr_t gp_python_copy_of(const gp_python_t *python, uintptr_t frame, uintptr_t code);

#endif
