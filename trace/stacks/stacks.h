/*
 * Every different stack once: interned when an allocation is made, referred to by its number from then on.
 * Append-only and without pointers, so that another process can read it.
 */
#ifndef GP_TRACE_STACKS_H
#define GP_TRACE_STACKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/stacks/modules.h"

#define GP_STACKS_MAX       (1u << 17)
#define GP_STACKS_LOG_BYTES ((size_t)32 << 20) /* at most; what does not fit is counted */

/*
 * A frame is one word: the address of the call (the return address less one) in the low 48 bits, the module's
 * index plus one above; 0: in no module.
 */
#define GP_FRAME_ADDRESS_BITS 48

static inline uint64_t gp_frame_pack(uint64_t address, int32_t module)
{
  return (address & ((UINT64_C(1) << GP_FRAME_ADDRESS_BITS) - 1)) | (uint64_t)(uint32_t)(module + 1)
                                                                        << GP_FRAME_ADDRESS_BITS;
}

static inline uint64_t gp_frame_address(uint64_t frame)
{
  return frame & ((UINT64_C(1) << GP_FRAME_ADDRESS_BITS) - 1);
}

static inline int32_t gp_frame_module(uint64_t frame)
{
  return (int32_t)(frame >> GP_FRAME_ADDRESS_BITS) - 1;
}

/* A reader trusts the first word_count words: stack after stack, each the number of its frames, then these.
 */
typedef struct gp_stack_log {
  _Atomic uint32_t word_count;
  _Atomic uint32_t stack_count; /* written before word_count */
  _Atomic uint64_t lost;        /* calls whose stack did not find room */
  uint64_t words[];
} gp_stack_log_t;

/* Frames of one stack. */
typedef struct gp_stack_view {
  const uint64_t *frames;
  uint32_t count;
} gp_stack_view_t;

/*
 * The stack at *at of a log of log_bytes; *at, 0 for the first, moves to the next. False: no more, or none
 * that is whole. Also of a log that another process left, of which nothing is believed. Any thread.
 */
bool gp_stack_log_next(const gp_stack_log_t *log, size_t log_bytes, uint32_t *at, gp_stack_view_t *ret_stack);

/* Where a stack is found by its hash. place is 0 as long as the slot is empty. */
typedef struct gp_stack_slot {
  _Atomic uint32_t place; /* index of its first word in the log, plus one */
  _Atomic uint32_t
      generation; /* of the modules, for which its addresses were last seen to mean these frames */
  uint32_t hash;
  uint32_t index;
} gp_stack_slot_t;

/* Zeroed memory is a table that was not begun; it has no room. */
typedef struct gp_stacks {
  pthread_mutex_t mutex; /* of all writers; a leaf, but for the loader's lock */
  gp_region_t *region;   /* NULL: another process wrote it; then log_bytes is what there is to read */
  gp_stack_log_t *log;   /* a section of the region */
  size_t log_bytes;      /* at most */
  gp_stack_slot_t *slots;
  gp_modules_t modules;
} gp_stacks_t;

/* Makes an empty table in region, which has to live longer. Returns false if the host has no memory. */
bool gp_stacks_init(gp_stacks_t *stacks, gp_region_t *region);
void gp_stacks_fini(gp_stacks_t *stacks); /* of zeroed memory is legal */

/* Bytes of the log that may be read now; 0: nothing was written. Any thread. */
static inline size_t gp_stacks_log_bytes(const gp_stacks_t *stacks)
{
  size_t bytes = stacks->region ? gp_region_used(stacks->region, GP_SECTION_STACKS) : stacks->log_bytes;
  return stacks->log && bytes >= sizeof(*stacks->log) ? bytes : 0;
}

/*
 * The number of the stack with these return addresses, the innermost first, from 1 on; 0 if the table is
 * full, which is counted, or if count is 0. counts: what the loader told before the stack was captured. Known
 * stacks are found without a lock. Any thread, with no lock of ours held.
 */
uint32_t gp_stacks_intern(
    gp_stacks_t *stacks, const uintptr_t *addresses, size_t count, gp_loader_counts_t counts);

#endif
