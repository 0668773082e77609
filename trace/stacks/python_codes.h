/*
 * The code objects of a stack's Python frames, each stored once. Append-only and without pointers, so that
 * another process can read it.
 *
 * A code object is known by what it says: its name, its file, its first line and its line table. Its address
 * says nothing, because the interpreter frees code objects and uses their memory again.
 */
#ifndef GP_TRACE_PYTHON_CODES_H
#define GP_TRACE_PYTHON_CODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "format/python_code.h"
#include "trace/region/region.h"
#include "trace/stacks/python.h"

/* A slot of the hash table. digest is 0 while the slot is empty. */
typedef struct gp_code_slot {
  _Atomic uint64_t digest;
  uint32_t index; /* in the log; GP_FRAME_CODE_NONE: it had no room there */
} gp_code_slot_t;

/* Zeroed memory is a table that was not begun. */
typedef struct gp_codes {
  gp_lock_t lock; /* for all writers; a leaf */
  gp_region_t *region;
  gp_code_log_t *log; /* a section of the region */
  size_t log_bytes;   /* at most */
  gp_code_slot_t *slots;
  uint32_t slot_count; /* used ones */
} gp_codes_t;

/* Makes an empty table in region, which must live longer. Returns false if the host has no memory. */
bool gp_codes_init(gp_codes_t *codes, gp_region_t *region);
void gp_codes_fini(gp_codes_t *codes); /* zeroed memory is legal */

/* A file name that was hashed already: neighbours in a stack often share it. */
typedef struct gp_code_file {
  uintptr_t text;
  uint64_t digest;
} gp_code_file_t;

/*
 * The index of the code object at address, which must be one and stay; GP_FRAME_CODE_NONE if there is no
 * room for it. file: zeroed for the first of a stack. Finds known ones without a lock. Any thread; the
 * caller holds no ranked lock.
 */
uint32_t gp_codes_intern(gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file);

#endif
