/*
 * Work flags: which streams were given work since the host last knew them complete.
 *
 * Every function of the driver that submits work passes a stub (interpose/sight/work_x86_64.S) that stores
 * "dirty" into the flag of the stream and jumps on: no call, no lock, nothing atomic. The stub stores the
 * flag before the driver sees the work, and a thread may be stopped in between. So each thread has a record,
 * its submitter, that names the flag which the thread set last; the thread takes the name back when it next
 * enters this library. A completed synchronization may clear a flag only if no other thread named it when the
 * synchronization began: work of such a thread could still be on its way to the driver, and would not be
 * covered.
 *
 * The order of a stub's stores, submitter before flag, is part of this: a thread that sees or overwrites the
 * flag sees the name. A processor with total store order keeps it (x86-64); the stubs exist for no other yet.
 *
 * All functions may be called by any thread, with or without locks.
 */
#ifndef GP_POOL_REUSE_WORK_FLAGS_H
#define GP_POOL_REUSE_WORK_FLAGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_WORK_FLAG_CLEAN 0u /* no work since the last clearing */
#define GP_WORK_FLAG_DIRTY 1u
/* Greater values: dirty, and a synchronization with that token is under way. */

/*
 * The flag of one stream, at a place that its handle gives. The stubs read and write it: offsets matter.
 * handle: the stream that owns the place; others of the same place have a flag elsewhere, and take the slow
 * way.
 */
typedef struct gp_work_flag {
  _Atomic uint32_t state;
  uint32_t unused;
  _Atomic uint64_t handle; /* GP_WORK_FLAG_FREE: the place has no owner */
} gp_work_flag_t;

#define GP_WORK_FLAG_FREE   UINT64_MAX
#define GP_WORK_FLAG_PLACES 4096

extern gp_work_flag_t gp_work_flags[GP_WORK_FLAG_PLACES]; /* by bits 4 to 15 of the handle */

static inline gp_work_flag_t *gp_work_flag_place(uint64_t handle)
{
  return &gp_work_flags[handle >> 4 & (GP_WORK_FLAG_PLACES - 1)];
}

/* A thread that submits work. Never returned to the host: threads take over the records of ended ones. */
typedef struct gp_submitter {
  _Atomic(gp_work_flag_t *) flag; /* which it set last; NULL: nothing of it could still be on its way */
  struct gp_submitter *next;
  atomic_bool in_use;
  _Atomic uint64_t owners; /* threads that have had it and ended */
} gp_submitter_t;

/* The calling thread's, NULL before its first work. The stubs read it. */
extern _Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a submitter. False: the host has no memory, and no flag may be cleared any more.
 */
bool gp_submitter_init(void);

/* Sets a flag as a stub does, in the same order. The thread has a submitter. */
void gp_work_flag_set(gp_work_flag_t *flag);

/* The calling thread is back from the driver: the driver has its work. Every entry into the pool says so. */
static inline void gp_work_submitted(void)
{
  if (gp_own_submitter)
    atomic_store_explicit(&gp_own_submitter->flag, NULL, memory_order_release);
}

/*
 * Around a synchronization. sync_begin, before it, gives a token, or 0 if the flag cannot be cleared
 * afterwards. sync_end, after its success, clears the flag unless work came meanwhile or another
 * synchronization took over.
 */
uint32_t gp_work_flag_sync_begin(gp_work_flag_t *flag);
void gp_work_flag_sync_end(gp_work_flag_t *flag, uint32_t token);

static inline bool gp_work_flag_is_clean(const gp_work_flag_t *flag)
{
  return atomic_load(&flag->state) == GP_WORK_FLAG_CLEAN;
}

#endif
