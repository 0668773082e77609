/*
 * Finds CPython in the process, and knows where its structures have what a stack needs: the frames of a
 * thread and their code objects. Nothing is linked, nothing of the interpreter is written, and no function
 * of it is called that needs the GIL. CPython 3.8 to 3.15, free-threaded 3.13 and 3.14; doc/stacks.md says
 * what is known of each.
 */
#ifndef GP_TRACE_PYTHON_H
#define GP_TRACE_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/python_code.h"
#include "trace/stacks/modules.h"

/* How a chain of frames is made, and where the runs of the interpreter's loop end in it. */
typedef enum gp_python_chain {
  GP_PYTHON_OBJECTS, /* to 3.10: frame objects, each a run of its own */
  GP_PYTHON_FLAGS,   /* 3.11: the outermost frame of a run has a flag */
  GP_PYTHON_OWNERS,  /* 3.12: an extra frame ends a run; its owner is the C stack */
  GP_PYTHON_NONES,   /* from 3.13 on: an extra frame ends a run; what it runs is None */
} gp_python_chain_t;

/* Offsets in bytes. */
typedef struct gp_python {
  void *(*thread_state)(void); /* PyGILState_GetThisThreadState: the calling thread's, NULL: none */
  int (*is_initialized)(void);
  void *(*first_interpreter)(void); /* the newest one */
  void *(*main_interpreter)(void);
  uintptr_t code_type; /* the type of code objects */
  uintptr_t loop;      /* the interpreter's loop is at [loop, loop_end) */
  uintptr_t loop_end;
  uintptr_t part; /* the longest function, at [part, part_end), may be a part of it; may be empty */
  uintptr_t part_end;
  uintptr_t start; /* the interpreter's own code, which stacks leave out, is at [start, end); may be empty */
  uintptr_t end;
  gp_python_chain_t chain;
  gp_line_format_t line_format;
  const _Atomic uint64_t *generation; /* grows before a code object is freed; NULL: there is none */
  /* Grows before another thread may get a copy of instructions; NULL: there are none. */
  const _Atomic uint32_t *copies_generation;
  /* in the thread state */
  uint16_t state_frame;
  uint16_t state_via; /* from what is there; UINT16_MAX: that is the frame */
  /* in a frame */
  uint16_t frame_code;
  uint16_t frame_previous;
  uint16_t frame_instruction; /* objects: its index; else a pointer to it */
  uint16_t frame_end;         /* flags and owners: the byte that tells */
  /* in a code object */
  uint16_t code_name;
  uint16_t code_file;
  uint16_t code_table;
  uint16_t code_first_line;
  uint16_t code_start;   /* instructions; objects: a pointer to their bytes object */
  uint16_t code_version; /* of 32 bits, no other code object's; 0: there is none */
  /* Each thread of a free-threaded interpreter has a copy of the instructions. */
  uint16_t frame_copy;  /* in a frame: the number of its copy; 0: there are none */
  uint16_t code_copies; /* in a code object: pointer to the array of copies */
  uint16_t object_type; /* in any object: pointer to its type. The members below follow. */
  /* in a string */
  uint16_t ascii_bytes;       /* to the characters of an ASCII string ... */
  uint16_t other_bytes;       /* ... and of another */
  uint16_t text_kind;         /* the bit of a string's state where its kind of characters begins */
  uint16_t instruction_shift; /* objects: 1 where the index counts bytes, else 0 */
} gp_python_t;

/*
 * The interpreter of this process; NULL: there is none, it has not begun or is at its end, it has more than
 * one interpreter (whose the calling thread's frames are cannot be told), or it is none that is known here.
 * counts: the loader's, of this call. The first chain of frames is checked before it is believed. If that
 * fails, or the version is unknown, there is no interpreter from then on, after a line in the log. Any
 * thread, with no ranked lock held.
 */
const gp_python_t *gp_python_find(gp_loader_counts_t counts);

/* Called when the interpreter differs from the known versions: stops recording Python frames, and logs why.
 */
void gp_python_give_up(const char *why);

static inline uint64_t gp_python_word(uintptr_t address)
{
  return *(const uint64_t *)address;
}

/* Returns the innermost frame of a thread. state is not NULL. */
static inline uintptr_t gp_python_first_frame(const gp_python_t *python, uintptr_t state)
{
  uintptr_t at = gp_python_word(state + python->state_frame);
  return python->state_via == UINT16_MAX || !at ? at : gp_python_word(at + python->state_via);
}

/* Objects are at multiples of 8. From 3.14 on the lowest bits of a frame's word say how the frame holds one.
 */
static inline uintptr_t gp_python_untag(uint64_t word)
{
  return word & ~UINT64_C(7);
}

/* Returns the code object of a frame, or what else it runs. */
static inline uintptr_t gp_python_frame_code(const gp_python_t *python, uintptr_t frame)
{
  return gp_python_untag(gp_python_word(frame + python->frame_code));
}

/* Behind the pointer to the type */
#define GP_PYTHON_SIZE     8          /* of strings and bytes objects the length */
#define GP_PYTHON_HASH     16         /* of strings and bytes objects */
#define GP_PYTHON_CONTENTS 24         /* of bytes objects */
#define GP_PYTHON_STATE    24         /* of strings */
#define GP_PYTHON_NO_HASH  UINT64_MAX /* it was not asked for yet */

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

/* A string as the interpreter has it. */
typedef struct gp_python_text {
  const uint8_t *characters;
  size_t length;      /* characters */
  unsigned character; /* bytes of one: 1, 2 or 4; 1 is ASCII or Latin-1 */
  bool is_ascii;
} gp_python_text_t;

static inline gp_python_text_t gp_python_text(const gp_python_t *python, uintptr_t text)
{
  uint32_t state = *(const uint32_t *)(text + python->object_type + GP_PYTHON_STATE) >> python->text_kind;
  bool is_ascii = state >> 4 & 1, is_compact = state >> 3 & 1;
  uintptr_t first = text + (is_ascii ? python->ascii_bytes : python->other_bytes);

  /* Strings of another form have been deprecated since 3.3; the compiler makes none. */
  return (gp_python_text_t){.characters = (const uint8_t *)first,
      .length = is_compact ? gp_python_size(python, text) : 0,
      .character = state & 7,
      .is_ascii = is_ascii};
}

#endif
