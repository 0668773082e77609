/*
 * Which thread a per-thread default stream belongs to: CUDA has one handle for all of them. Each thread
 * that uses its own stream has a record, the submitter, which outlives the thread.
 *
 * All functions may be called by any thread, with or without locks.
 */
#ifndef GP_POOL_REUSE_SUBMITTERS_H
#define GP_POOL_REUSE_SUBMITTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Never returned to the host: threads take over the records of ended ones. */
typedef struct gp_submitter {
  struct gp_submitter *next;
  atomic_bool in_use;
  _Atomic uint64_t owners; /* ended threads that have had it */
} gp_submitter_t;

/* The calling thread's; NULL before the first gp_submitter_init. */
extern _Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a submitter, if it has none. False: the host has no memory. */
bool gp_submitter_init(void);

#endif
