/* Stores each different stack once: an allocation interns it, and its number refers to it from then on.
 * Append-only and without pointers, so that another process can read it. */
#ifndef GP_TRACE_STACKS_H
#define GP_TRACE_STACKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"
#include "trace/stacks/modules.h"
#include "trace/stacks/python_codes.h"

/* A slot of the hash table. place is 0 while the slot is empty. */
typedef struct gp_stack_slot {
  _Atomic uint32_t place;      /* index of its first word in the log, plus one */
  _Atomic uint32_t generation; /* of the modules in which its addresses were last seen as these frames */
  uint32_t hash;
  uint32_t index;
} gp_stack_slot_t;

/* The same of stacks with Python frames. digest is 0 while the slot is empty. */
typedef struct gp_python_slot {
  _Atomic uint64_t digest;
  uint32_t number;
} gp_python_slot_t;

/* A stack whose walk was seen before. Threads write it without a lock, and the number depends on the digest,
 * so that the words of two writers are no stack. */
typedef struct gp_walked_stack {
  _Atomic uint64_t digest;
  _Atomic uint64_t number;
} gp_walked_stack_t;

/* Zeroed memory is a table that was not begun; it has no room for stacks. */
typedef struct gp_stacks {
  gp_lock_t lock; /* for all writers; a leaf, except for the loader's lock */
  uint64_t id;    /* unique in the process, from 1 on */
  gp_region_t *region;
  gp_stack_log_t *log;    /* a section of the region */
  size_t log_bytes;       /* at most */
  gp_stack_slot_t *slots; /* of native stacks */
  gp_python_slot_t *python_slots;
  gp_walked_stack_t *walked;
  uint32_t *places; /* of stack i in the log */
  gp_modules_t modules;
  gp_codes_t codes;
} gp_stacks_t;

/* Makes an empty table in region, which must live longer. Returns false if the host has no memory. */
bool gp_stacks_init(gp_stacks_t *stacks, gp_region_t *region);
void gp_stacks_fini(gp_stacks_t *stacks); /* zeroed memory is legal */

/* The present contents of the logs, with all stacks interned so far. Any thread. */
gp_stack_logs_t gp_stacks_logs(const gp_stacks_t *stacks);

/*
 * The number of the stack with these return addresses, the innermost first, from 1 on; 0 if the table is
 * full, which it counts, or if count is 0. counts: the loader's counts from before the capture. Finds known
 * stacks without a lock. Any thread; the caller holds no ranked lock.
 */
uint32_t gp_stacks_intern(
    gp_stacks_t *stacks, const uintptr_t *addresses, size_t count, gp_loader_counts_t counts);

/*
 * The same for a stack with these Python frames (gp_python_frames; at least one), at most depth frames in
 * all. native: the number of its native stack, 0: none.
 */
uint32_t gp_stacks_intern_python(gp_stacks_t *stacks, const gp_python_t *python, uint32_t native,
    const uint64_t *words, size_t count, size_t depth);

/* The number that was remembered for this native stack and digest (gp_python_walk_digest); 0: none. Any
 * thread. */
uint32_t gp_stacks_recall(const gp_stacks_t *stacks, uint32_t native, uint64_t digest);
void gp_stacks_remember(gp_stacks_t *stacks, uint32_t native, uint64_t digest, uint32_t number);

#endif
