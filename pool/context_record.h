/* The record of a context. */
#ifndef GP_POOL_CONTEXT_RECORD_H
#define GP_POOL_CONTEXT_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/space/block_record.h"

/*
 * The stream record of a stream that the program passes to cudaMallocAsync and cudaFreeAsync. The handle does
 * not identify a stream: once the stream is destroyed, the driver may give the handle to another one. Memory
 * freed in the stream may be reused there at once (reuse/stream_records.h). Invariants, under the device's
 * lock: freed (by class) and others have the DEFERRED blocks with this freed_in, and bound has the BOUND
 * ones; all three are empty after the stream has ended. filed counts all these blocks. BOUND blocks with one
 * freed_in are not neighbours. entered <= frees; passed <= frees; settled <= reuses. Records are recycled,
 * and freed when the engine ends.
 */
#define GP_AWAITED_POINTS 8u
struct gp_stream_record {
  gp_list_t link;        /* in context->stream_records, or engine->free_stream_records */
  gp_context_t *context; /* the stream's context */
  uint64_t handle;       /* the driver's; GP_STREAM_LEGACY or GP_STREAM_PER_THREAD for a default stream */
  bool is_blocking;      /* a blocking stream, or the legacy default stream itself */
  const void *submitter; /* a per-thread stream's thread (reuse/stream_records.h), and ... */
  uint64_t owner;        /* ... the number of that thread among the submitter's successive threads */
  gp_bins_t freed;       /* blocks that later requests in the stream may reuse */
  gp_bin_t others;       /* blocks that they may not reuse: memory of cudaMalloc */
  gp_cut_bins_t *bound;  /* parts of segments for later requests in the stream, by size; NULL: none so far */
  uint64_t block_count;  /* blocks in freed, others and bound */
  uint64_t frees;        /* blocks freed in the stream so far */
  uint64_t entered;      /* ... of these, those before the newest event that the library recorded there */
  _Atomic uint64_t reuses; /* how often freed memory was reused in this stream, and ... */
  _Atomic uint64_t
      settled;      /* ... how often before the newest operation of gp_stream_record_prevent_overlap */
  atomic_int users; /* driver calls that use it; raised only under the device's lock while it lives */
  bool has_ended;

  /* reuse/stream_points.h */
  _Atomic uint64_t id;   /* never used again; 0: the stream has ended */
  uint64_t passed;       /* number of frees before a point that the device has passed */
  gp_list_t passed_link; /* in device->passed, if freed may have blocks from before the passed point */
  gp_stream_point_t awaited[GP_AWAITED_POINTS]; /* points that later work in this stream waits for */
  unsigned next_awaited;                        /* index of the entry to overwrite next */
  bool awaits;                                  /* awaited has at least one point */
};

/* A fence of a context. When it is complete, all work of its epoch is. at_free: it was recorded at a free,
 * so it covers only work from before that free, and work that other threads submitted concurrently. */
typedef struct gp_fence {
  void *handle; /* the driver's handle, made at the first record and reused */
  uint64_t epoch;
  uint64_t recorded_ns;
  bool at_free;
} gp_fence_t;

/*
 * The fences of a context: `count` of them are outstanding, from slots[first] on, in the order in which they
 * were recorded, which is also the order of their epochs. busy is a try-lock around the driver calls, so that
 * no thread waits for a lock during them. Only its owner uses the other members, but any thread may read the
 * last four.
 */
#define GP_FENCE_SLOTS 8
typedef struct gp_fences {
  atomic_flag busy;
  gp_fence_t slots[GP_FENCE_SLOTS];
  unsigned first, count;
  _Atomic uint64_t at_free_epoch; /* epoch of the newest outstanding fence with at_free; 0: none */
  _Atomic uint64_t oldest_epoch;  /* epoch of the oldest outstanding fence; 0: none */
  _Atomic uint64_t recorded_ns;   /* when the oldest outstanding fence was recorded; 0: none */
  _Atomic uint64_t failures;      /* records and queries for which the driver returned an error */
} gp_fences_t;

typedef struct gp_fill gp_fill_t; /* fill.c */

/* A wait that timed out: after `ns` nanoseconds of polling, the context had this progress. */
typedef struct gp_failed_wait {
  _Atomic uint64_t progress;
  _Atomic uint64_t ns;
} gp_failed_wait_t;

/*
 * The record of a driver context. Invariants, under the device's lock: deferred is ordered by free_epoch, and
 * deferred_bytes counts its blocks that were not freed in stream order (DEFERRED, without freed_in); the bins
 * have every block of the list blocks. completed only grows: all work of this context that precedes a free
 * stamped `completed` or less (reuse/stamps.h) is known to be complete.
 */
struct gp_context {
  gp_driver_context_t driver;
  gp_device_t *device;
  gp_list_t live_link;    /* in engine->contexts until it is lost */
  gp_list_t device_link;  /* in device->contexts until it is lost */
  gp_context_t *next_any; /* link in engine->all_contexts, for gp_engine_destroy */
  gp_list_t blocks;
  gp_list_t deferred;
  uint64_t deferred_bytes;
  uint64_t waits_after_ns; /* frees wait only after this time, and only if deferred_bytes ... */
  uint64_t waits_beyond;   /* ... exceeds this; set by a check that found no need to wait (wait_in_free.c) */
  gp_bins_t bins;
  gp_list_t segments;
  gp_cut_bins_t cut; /* idle parts of segments */
  gp_range_t *range; /* NULL: none so far */
  gp_range_use_t range_use;
  uint64_t peers; /* devices to which the program gave peer access to its memory, as a bit mask */
  gp_fences_t fences;
  _Atomic uint64_t
      destroyed_epoch; /* epoch of the last stream destroyed with pending work, see reuse/known_streams.c */
  gp_failed_wait_t failed_wait;
  gp_fill_t *fills;      /* the library's idle streams for filling memory; see fill.c */
  gp_fill_t *late_fills; /* streams with a late fill: each owns the block that it may still write */
  gp_list_t quarantine;  /* its QUARANTINED blocks, the oldest first; see damage.h */
  struct gp_search *searches, *late_searches; /* damage.c: idle ones, and those whose copies are late */
  _Atomic uint64_t completed;
  struct gp_free_event *spare_events;          /* space/free_events.h; under the device's lock */
  unsigned event_count;                        /* number of these events, in use or spare */
  gp_list_t stream_records;                    /* records of its live streams; under contexts_lock */
  _Atomic(gp_stream_record_t *) legacy_record; /* record of its legacy default stream; NULL: not made */
  _Atomic(void *) entry_event;                 /* the driver's event to record in streams; NULL: not made */
  bool is_async;                               /* it is device->async_context */
  uint64_t
      suspensions; /* part of engine->service that ends with this context; under contexts_lock, 0 once lost */
  atomic_bool gone; /* the driver reports that it has ended: nothing waits for it, and it will be lost soon */
  atomic_bool lost;
};

#endif
