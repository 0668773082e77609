/*
 * Work marks: which streams were given work since the host last knew them complete.
 *
 * Every function of the driver that submits work passes a stub (interpose/sight/work_x86_64.S) that stores
 * "dirty" into the mark of the stream and jumps on: no call, no lock, nothing atomic. The mark is stored
 * before the work is submitted, and a thread may be stopped in between; so each thread also names, in its
 * marker, the mark that it stored last, and takes the name back when it next comes into this library. A mark
 * may be cleared on account of a completed synchronization only if no other thread named it when the
 * synchronization began: work of a thread that named it could still be on its way to the driver then, and
 * would not be covered.
 *
 * The order of a stub's stores, marker before mark, is part of this: who sees or overwrites the mark sees the
 * marker. A processor with total store order keeps it (x86-64); the stubs exist for no other yet.
 */
#ifndef GP_POOL_REUSE_EPOCH_WORK_FLAGS_H
#define GP_POOL_REUSE_EPOCH_WORK_FLAGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_MARK_CLEAN 0u /* no work since the last clearing */
#define GP_MARK_DIRTY 1u
/* Greater values: dirty, and a synchronization with that token is under way. */

/*
 * The mark of one stream, at a place that its handle gives. Read and written by the stubs: offsets matter.
 * handle: the stream that owns the place; others of the same place have a mark elsewhere, and take the slow
 * way.
 */
typedef struct gp_mark {
  _Atomic uint32_t state;
  uint32_t unused;
  _Atomic uint64_t handle; /* GP_MARK_NOBODY: free */
} gp_mark_t;

#define GP_MARK_NOBODY UINT64_MAX
#define GP_MARK_PLACES 4096

extern gp_mark_t gp_marks[GP_MARK_PLACES]; /* by bits 4 to 15 of the handle */

static inline gp_mark_t *gp_mark_place(uint64_t handle)
{
  return &gp_marks[handle >> 4 & (GP_MARK_PLACES - 1)];
}

/* What a thread marked last, NULL: nothing that could still be on its way. Never freed: threads take over old
 * ones. */
typedef struct gp_marker {
  _Atomic(gp_mark_t *) mark;
  struct gp_marker *next;
  atomic_bool in_use;
  _Atomic uint64_t owners; /* threads that have had it and ended */
} gp_marker_t;

/* The calling thread's, NULL before its first work. Read by the stubs. */
extern _Thread_local gp_marker_t *gp_own_marker __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a marker; false: the host has no memory, and marks must not be cleared any more.
 */
bool gp_marker_init(void);

/* Marks by hand, in the order of the stubs. The thread must have a marker. */
void gp_mark_work(gp_mark_t *mark);

/* The calling thread is back from the driver: what it marked last has been submitted. Whoever enters the pool
 * says so. */
static inline void gp_mark_submitted(void)
{
  if (gp_own_marker)
    atomic_store_explicit(&gp_own_marker->mark, NULL, memory_order_release);
}

/*
 * Around a synchronization: begin before it gives a token, or 0 if the mark cannot be cleared afterwards; end
 * after its success clears the mark unless work came meanwhile or another synchronization took over.
 */
uint32_t gp_mark_sync_begin(gp_mark_t *mark);
void gp_mark_sync_end(gp_mark_t *mark, uint32_t token);

static inline bool gp_mark_is_clean(const gp_mark_t *mark)
{
  return atomic_load(&mark->state) == GP_MARK_CLEAN;
}

#endif
