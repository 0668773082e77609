/* The record of a stream. */
#ifndef GP_POOL_REUSE_IDENTITY_RECORD_H
#define GP_POOL_REUSE_IDENTITY_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/records.h"
#include "pool/space/bins.h"
#include "pool/space/cut_bins.h"
#include "base/list.h"

/*
 * The identity of a stream that the program names in cudaMallocAsync and cudaFreeAsync. The handle does not
 * identify it: once the stream has ended, the driver gives the handle to another stream. Memory freed in
 * the stream's order may be used there again at once (reuse/identities.h). Invariants, under the device's
 * lock: freed (by class) and others hold the DEFERRED blocks with this freed_in, bound the BOUND ones, and
 * none after the stream has ended; filed counts them; BOUND blocks with one freed_in are not neighbours;
 * entered <= frees; passed <= frees; settled <= handed_on. Records are recycled, and the host gets them back
 * when the engine ends.
 */
#define GP_AWAITED_POINTS 8u
struct gp_identity {
  gp_list_t link;        /* in context->identities, or engine->free_identities */
  gp_context_t *context; /* the stream's */
  uint64_t handle;       /* the driver's; GP_STREAM_LEGACY or GP_STREAM_PER_THREAD for a default stream */
  bool is_blocking;      /* it and the legacy default stream wait for each other, or it is that stream */
  const void *submitter; /* of a per-thread stream: its thread's (reuse/submitters.h), and ... */
  uint64_t owner;        /* ... which of the threads that have had it */
  gp_bins_t freed;       /* blocks that later requests in the stream may get */
  gp_bin_t others;       /* blocks that they may not get: memory of cudaMalloc */
  gp_cut_bins_t *bound;  /* parts of segments for later requests in the stream, by size; NULL: never any */
  uint64_t filed;        /* blocks in freed, others and bound */
  uint64_t frees;        /* blocks freed in it so far */
  uint64_t entered;      /* ... of these, before the newest operation that the library put into it */
  _Atomic uint64_t handed_on; /* how often memory went from one owner to the next in this stream, and ... */
  _Atomic uint64_t settled;   /* ... how often before the newest operation of gp_identity_launches_early */
  atomic_int users; /* driver calls in flight that name it; raised under the device's lock while it lives */
  bool has_ended;

  /* reuse/stream_points.h */
  _Atomic uint64_t id;   /* never used again; 0: it has ended */
  uint64_t passed;       /* ... of the frees, before a point that the device has passed */
  gp_list_t passed_link; /* in device->passed, if freed may have blocks from before that point */
  gp_stream_point_t awaited[GP_AWAITED_POINTS]; /* later work in this stream runs behind these points */
  unsigned next_awaited;                        /* index of the next one to be written, in turn */
  bool awaits;                                  /* there is such a point */
};

#endif
