/*
 * Finds CPython in the process, and the layout of the structures that a stack needs: the frames of a thread
 * and their code objects. Does not link to the interpreter, write to its memory, or call any of its functions
 * that need the GIL. Supports CPython 3.8 to 3.15, and free-threaded 3.13 and 3.14. doc/stacks.md describes
 * each version.
 */
#ifndef GP_TRACE_PYTHON_H
#define GP_TRACE_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/python_code.h"
#include "trace/stacks/modules.h"

/* How frames are chained, and how the chain marks the end of a run of the interpreter's loop. */
typedef enum gp_python_chain {
  GP_PYTHON_OBJECTS, /* up to 3.10: frame objects, and each frame is a run of its own */
  GP_PYTHON_FLAGS,   /* 3.11: the outermost frame of a run has a flag */
  GP_PYTHON_OWNERS,  /* 3.12: an extra frame, whose owner is the C stack, ends a run */
  GP_PYTHON_NONES,   /* from 3.13 on: an extra frame, whose code is None, ends a run */
} gp_python_chain_t;

/* The layout of the interpreter. 16-bit numbers are offsets in bytes, unless the comment says otherwise. */
typedef struct gp_python {
  void *(*thread_state)(
      void); /* PyGILState_GetThisThreadState: returns the calling thread's state, or NULL */
  int (*is_initialized)(void);
  void *(*first_interpreter)(void); /* returns the newest interpreter */
  void *(*main_interpreter)(void);
  uintptr_t code_type; /* address of the type of code objects */
  uintptr_t loop;      /* the interpreter's loop is at [loop, loop_end) */
  uintptr_t loop_end;
  uintptr_t
      part; /* the longest function is at [part, part_end) and may be a part of the loop; may be empty */
  uintptr_t part_end;
  uintptr_t start; /* the interpreter's own code is at [start, end); stacks leave it out; may be empty */
  uintptr_t end;
  gp_python_chain_t chain;
  gp_line_format_t line_format;
  const _Atomic uint64_t *generation; /* counter that grows before a code object is freed; NULL: none */
  /* Counter that grows before another thread may get a copy of instructions; NULL if there are no copies. */
  const _Atomic uint32_t *copies_generation;
  /* offsets in the thread state */
  uint16_t state_frame;
  uint16_t state_via; /* frame in the struct at state_frame; UINT16_MAX: state_frame itself has the frame */
  /* offsets in a frame */
  uint16_t frame_code;
  uint16_t frame_previous;
  uint16_t frame_instruction; /* GP_PYTHON_OBJECTS: index of the instruction; otherwise a pointer to it */
  uint16_t frame_end;         /* GP_PYTHON_FLAGS and GP_PYTHON_OWNERS: byte that marks the end of a run */
  /* offsets in a code object */
  uint16_t code_name;
  uint16_t code_file;
  uint16_t code_table;
  uint16_t code_first_line;
  uint16_t code_start;   /* the instructions; GP_PYTHON_OBJECTS: a pointer to their bytes object */
  uint16_t code_version; /* a 32-bit version, unique to the code object; 0: there is none */
  /* For free-threaded interpreters, whose threads have copies of the instructions. */
  uint16_t frame_copy;  /* in a frame: number of the frame's copy; 0: there are no copies */
  uint16_t code_copies; /* in a code object: pointer to the array of copies */
  uint16_t object_type; /* in any object: pointer to its type; GP_PYTHON_SIZE etc. are relative to it */
  /* offsets in a string */
  uint16_t ascii_bytes;       /* characters of an ASCII string */
  uint16_t other_bytes;       /* characters of any other string */
  uint16_t text_kind;         /* not an offset: first bit of the character kind in a string's state */
  uint16_t instruction_shift; /* not an offset; GP_PYTHON_OBJECTS: 1 if the index counts bytes, otherwise 0 */
} gp_python_t;

/*
 * Returns the interpreter of this process. Returns NULL if there is no interpreter, if it is not initialized
 * or is finalizing, or if its version is not supported. Also returns NULL if there are subinterpreters,
 * because it is unknown to which of them the calling thread's frames belong. `counts` are the loader's counts
 * from this call. The first chain of frames is checked against the expected layout. If the check fails, or
 * the version is unknown, the function logs one line and returns NULL from then on. Thread-safe; the caller
 * holds no ranked lock.
 */
const gp_python_t *gp_python_find(gp_loader_counts_t counts);

/* Stops recording Python frames permanently and logs the reason. For an interpreter that differs from the
 * supported ones. */
void gp_python_give_up(const char *why);

static inline uint64_t gp_python_word(uintptr_t address)
{
  return *(const uint64_t *)address;
}

/* Returns the innermost frame of a thread, or 0 if there is none. `state` must not be 0. */
static inline uintptr_t gp_python_first_frame(const gp_python_t *python, uintptr_t state)
{
  uintptr_t at = gp_python_word(state + python->state_frame);
  return python->state_via == UINT16_MAX || !at ? at : gp_python_word(at + python->state_via);
}

/* Removes the tag from a pointer to an object. Objects are at multiples of 8; since 3.14 the lowest bits of a
 * pointer in a frame say how the frame owns the object. */
static inline uintptr_t gp_python_untag(uint64_t word)
{
  return word & ~UINT64_C(7);
}

/* Returns the code object of a frame, or the object that the frame has instead of a code object, such as
 * None. */
static inline uintptr_t gp_python_frame_code(const gp_python_t *python, uintptr_t frame)
{
  return gp_python_untag(gp_python_word(frame + python->frame_code));
}

/* Offsets in an object, relative to the pointer to its type. */
#define GP_PYTHON_SIZE     8          /* length of strings and bytes objects */
#define GP_PYTHON_HASH     16         /* hash of strings and bytes objects */
#define GP_PYTHON_CONTENTS 24         /* contents of bytes objects */
#define GP_PYTHON_STATE    24         /* state of strings */
#define GP_PYTHON_NO_HASH  UINT64_MAX /* value of a hash that is not computed yet */

static inline uint64_t gp_python_type(const gp_python_t *python, uintptr_t object)
{
  return gp_python_word(object + python->object_type);
}

static inline uint64_t gp_python_size(const gp_python_t *python, uintptr_t object)
{
  return gp_python_word(object + python->object_type + GP_PYTHON_SIZE);
}

static inline uint64_t gp_python_hash(const gp_python_t *python, uintptr_t object)
{
  return gp_python_word(object + python->object_type + GP_PYTHON_HASH);
}

static inline const uint8_t *gp_python_bytes(const gp_python_t *python, uintptr_t object)
{
  return (const uint8_t *)object + python->object_type + GP_PYTHON_CONTENTS;
}

/* A string in the interpreter's memory. */
typedef struct gp_python_text {
  const uint8_t *characters;
  size_t length;      /* number of characters */
  unsigned character; /* bytes per character: 1 (ASCII or Latin-1), 2 or 4 */
  bool is_ascii;
} gp_python_text_t;

static inline gp_python_text_t gp_python_text(const gp_python_t *python, uintptr_t text)
{
  uint32_t state = *(const uint32_t *)(text + python->object_type + GP_PYTHON_STATE) >> python->text_kind;
  bool is_ascii = state >> 4 & 1, is_compact = state >> 3 & 1;
  uintptr_t first = text + (is_ascii ? python->ascii_bytes : python->other_bytes);

  /* Strings that are not compact count as empty. They are deprecated since 3.3, and Python's compiler creates
   * none. */
  return (gp_python_text_t){.characters = (const uint8_t *)first,
      .length = is_compact ? gp_python_size(python, text) : 0,
      .character = state & 7,
      .is_ascii = is_ascii};
}

#endif
