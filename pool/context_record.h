/* The record of a context. */
#ifndef GP_POOL_CONTEXT_RECORD_H
#define GP_POOL_CONTEXT_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/space/block_record.h"

/* The record of a stream. */

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
  const void *submitter; /* of a per-thread stream: its thread's (reuse/identities.h), and ... */
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

/* The records of what tells that a context has completed work. */

/* One fence of a context. epoch is complete when the fence has passed. at_free: it was recorded right at a
 * free, so it covers only work from before that free, and work that other threads submit meanwhile. */
typedef struct gp_fence {
  void *handle; /* the driver's, made at the first record and reused */
  uint64_t epoch;
  uint64_t recorded_ns;
  bool at_free;
} gp_fence_t;

/*
 * The fences of a context: `count` of them are outstanding, from slots[first] on, in the order of
 * their records and of their epochs. busy is a try-lock around the driver calls, so that no thread
 * holds a lock during them. Only the thread that has it touches the other members, except that any
 * thread reads the last four.
 */
#define GP_FENCE_SLOTS 8
typedef struct gp_fences {
  atomic_flag busy;
  gp_fence_t slots[GP_FENCE_SLOTS];
  unsigned first, count;
  _Atomic uint64_t at_free_epoch; /* of the newest outstanding fence with at_free; 0: none */
  _Atomic uint64_t oldest_epoch;  /* of the oldest outstanding one; 0: none */
  _Atomic uint64_t recorded_ns;   /* when the oldest outstanding one was recorded; 0: none */
  _Atomic uint64_t failures;      /* records and questions that the driver answered with an error */
} gp_fences_t;

typedef struct gp_fill gp_fill_t; /* fill.c */

/* A vain wait: after `ns` nanoseconds of polling, the context had got no further than this. */
typedef struct gp_vain {
  _Atomic uint64_t progress;
  _Atomic uint64_t ns;
} gp_vain_t;

/*
 * A context of the driver. Invariants, under the device's lock: deferred is in the order of growing
 * free_epochs, and deferred_bytes counts its blocks that wait for no stream of their own (DEFERRED, without
 * freed_in); the bins hold every block that is in the list blocks. completed only grows: all work of this
 * context submitted before the epoch `completed` began is known to be complete.
 */
struct gp_context {
  gp_driver_context_t driver;
  gp_device_t *device;
  gp_list_t live_link;    /* in engine->contexts while not lost */
  gp_list_t device_link;  /* in device->contexts while not lost */
  gp_context_t *next_any; /* every context ever made, for gp_engine_destroy */
  gp_list_t blocks;
  gp_list_t deferred;
  uint64_t deferred_bytes;
  uint64_t waits_after_ns; /* no free waits before, see wait_in_free.c; and only beyond so many ... */
  uint64_t waits_beyond; /* of deferred_bytes, after a look that gave no reason to wait; see wait_in_free.c */
  gp_bins_t bins;
  gp_list_t segments;
  gp_cut_bins_t cut; /* idle parts of segments */
  gp_range_t *range; /* NULL: none, yet */
  gp_range_use_t range_use;
  uint64_t peers; /* devices from which the program may reach its memory, as a bit mask */
  gp_fences_t fences;
  _Atomic uint64_t
      destroyed_epoch; /* of the last stream that was destroyed with work, see reuse/known_streams.c */
  gp_vain_t vain;
  gp_fill_t *fills;      /* the library's streams for filling memory that have no work; see fill.c */
  gp_fill_t *late_fills; /* those that keep a block, which the device may fill at any time */
  _Atomic uint64_t completed;
  struct gp_free_event *spare_events;       /* space/free_events.h; under the device's lock, and ... */
  unsigned event_count;                     /* ... how many there are, in use or spare */
  gp_list_t identities;                     /* of its live streams; under contexts_lock */
  _Atomic(gp_identity_t *) legacy_identity; /* of its legacy default stream; NULL: not made */
  _Atomic(void *) entry_event;              /* the driver's event to put into streams; NULL: not made */
  bool is_ordered;                          /* it is device->ordered */
  uint64_t
      suspensions; /* those of engine->service that end with this context; under contexts_lock, 0 once lost */
  atomic_bool gone; /* the driver says that it has ended: it holds no memory back, and will be lost soon */
  atomic_bool lost;
};

#endif
