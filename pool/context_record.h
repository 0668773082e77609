/* The record of a context. */
#ifndef GP_POOL_CONTEXT_RECORD_H
#define GP_POOL_CONTEXT_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/reuse/fence_record.h"
#include "pool/reuse/identity_record.h"
#include "pool/space/block_record.h"
#include "pool/space/segment_record.h"

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
