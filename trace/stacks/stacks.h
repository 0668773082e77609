/* The table of stacks. Each different stack is stored once and is referred to by its number. The log is
 * append-only and contains no pointers, so another process can read it. */
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
  _Atomic uint32_t place;      /* index of the stack's first word in the log, plus one */
  _Atomic uint32_t generation; /* last generation of modules in which the addresses meant these frames */
  uint32_t hash;
  uint32_t index;
} gp_stack_slot_t;

/* A slot of the hash table of stacks with Python frames. digest is 0 while the slot is empty. */
typedef struct gp_python_slot {
  _Atomic uint64_t digest;
  uint32_t number;
} gp_python_slot_t;

/* A stack that is identified by its gp_python_walk_digest. Threads write both words without a lock. The
 * number is combined with a key derived from the digest, so a mixture of words from two writers is
 * rejected. */
typedef struct gp_walked_stack {
  _Atomic uint64_t digest;
  _Atomic uint64_t number;
} gp_walked_stack_t;

/* The table of stacks. Zeroed memory is an uninitialized table, which stores nothing. */
typedef struct gp_stacks {
  gp_lock_t lock; /* for all writers; only the loader's and the region's locks are taken inside */
  uint64_t id;    /* unique in the process, from 1 on */
  gp_region_t *region;
  gp_stack_log_t *log;    /* a section of the region */
  size_t log_bytes;       /* capacity in bytes */
  gp_stack_slot_t *slots; /* hash table of native stacks */
  gp_python_slot_t *python_slots;
  gp_walked_stack_t *walked;
  uint32_t *places; /* index in the log's words of the stack with index i */
  gp_modules_t modules;
  gp_codes_t codes;
} gp_stacks_t;

/* Makes an empty table in region, which must live longer. Returns false if the host has no memory. */
bool gp_stacks_init(gp_stacks_t *stacks, gp_region_t *region);
void gp_stacks_fini(gp_stacks_t *stacks); /* zeroed memory is legal */

/* Returns the logs with all stacks stored so far. Thread-safe. */
gp_stack_logs_t gp_stacks_logs(const gp_stacks_t *stacks);

/*
 * Returns the number, from 1 on, of the stack with these return addresses, innermost first. Adds the stack if
 * it is new. Returns 0 if `count` is 0, or if the table is full; the latter is counted in `lost`. `counts`
 * are the loader's counts from before the capture. Finds known stacks without a lock. Thread-safe; the caller
 * holds no ranked lock.
 */
uint32_t gp_stacks_intern(
    gp_stacks_t *stacks, const uintptr_t *addresses, size_t count, gp_loader_counts_t counts);

/*
 * Returns the number of the stack that merges these Python frames with a native stack, with at most `depth`
 * frames in total. The Python frames are from gp_python_frames; there is at least one. `native` is the native
 * stack's number, or 0 for none. Returns `native` if the table is full. Takes locks as gp_stacks_intern does.
 */
uint32_t gp_stacks_intern_python(gp_stacks_t *stacks, const gp_python_t *python, uint32_t native,
    const uint64_t *words, size_t count, size_t depth);

/* Returns the number that gp_stacks_remember stored for this native stack and this digest
 * (gp_python_walk_digest), or 0 if there is none. Thread-safe. */
uint32_t gp_stacks_recall(const gp_stacks_t *stacks, uint32_t native, uint64_t digest);
void gp_stacks_remember(gp_stacks_t *stacks, uint32_t native, uint64_t digest, uint32_t number);

#endif
