/*
 * What the pool tells about itself. Recording (trace/) implements the table; without one the pool runs
 * silent.
 */
#ifndef GP_POOL_OBSERVER_H
#define GP_POOL_OBSERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/format/actions.h"
#include "trace/format/details.h"
#include "trace/format/device.h"
#include "trace/format/oom.h"

/*
 * One event. Times are the driver table's clock (driver.h), in nanoseconds.
 * size is what the program asked for; of segment_alloc, segment_free and trim the bytes that moved; of oom
 * the bytes that could not be had. block_id is the incarnation number of the block's present owner: it is
 * given at each alloc, grows, and is never used again, so that a reader can tell the owners of one address
 * apart; 0 if no block.
 */
typedef struct gp_event {
  uint64_t time_ns;
  uint64_t address;
  uint64_t size;
  uint64_t rounded_size;
  uint64_t block_id;
  uint64_t duration_ns; /* of the driver call behind the event; 0 if there was none */
  uint64_t lifetime_ns; /* free_requested, free_completed, passthrough_free: since the alloc; else 0 */
  uint64_t stream;      /* the driver's handle, meaningful with has_stream */
  uint32_t origin;      /* of a block, and of memory that is not pooled: its owner's; else the caller's */
  gp_action_t action;
  gp_detail_t detail;
  int device;
  bool has_stream;
  bool hit;         /* alloc: served without a driver call */
  bool is_cut;      /* of the two segment events: blocks are cut from it; of a block's: it is such a part */
  uint64_t context; /* id of the context; 0: the event is of none */
  /* A number of the observer's, 0 at first, that the observer may change while it holds the device's lock. It
   * stays with the segment, and so does that of memory that is not pooled; a segment that is not cut shares
   * its own with its one block. The block that is cut from a segment has one from alloc to free_completed.
   * NULL: the event is of neither. */
  uint32_t *observer_cookie;
} gp_event_t;

/* What is known of a device besides events. */
typedef struct gp_device_facts {
  uint64_t limit; /* bytes; 0: none */
  gp_device_use_t use;
  bool has_use; /* the driver has been asked for the device's figures */
} gp_device_facts_t;

#define GP_ORIGIN_NONE 0u

/* Moments at which it is worth finding out which code asks. */
typedef enum gp_occasion {
  GP_OCCASION_ALLOC,  /* an allocation begins, of this pool or of a pool of the driver */
  GP_OCCASION_FREE,   /* a free begins */
  GP_OCCASION_DRIVER, /* the driver is about to be called for other memory, or an out of memory about to be
                         told */
} gp_occasion_t;

/*
 * event() is called with a lock of the pool held, in the order in which things happened on the device: it
 * must be quick, must not call the driver or the pool, and may be called by many threads at once (for
 * different devices). out_of_memory() is called with no lock held, before the program gets the error; it may
 * call the functions of engine.h that read. The oom event precedes it.
 *
 * first_use() is called once, with no lock held, by the thread that asks for the first memory of a device,
 * before the driver is asked: what a process needs only with GPU memory can be made there. Other threads do
 * not wait for it.
 *
 * peak() is called, with no lock held, by a thread that is about to free memory of a device, after its use
 * exceeded what gp_engine_watch_use asked for; bytes is the use now, which others may be changing. It may
 * call functions of engine.h that read, and set the next.
 *
 * origin() tells which code asks for memory, as a number of the observer's own that stays with the block
 * until its next owner: a stack, say. It is called by the thread that asks, with a lock of the pool held, so
 * the answer must be known before. NULL: GP_ORIGIN_NONE always.
 *
 * holders() tells of a block whose references or taint have changed, between events. device_facts() tells
 * what the engine knows of a device, after the driver was called for it. Both are called as event() is, and
 * may be NULL.
 *
 * place_stats() asks where the engine should keep a device's statistics. The engine asks before
 * device_facts() until it gets an answer other than NULL, copies the statistics there, and writes them there
 * for as long as it lives. It is called as event() is. NULL: the engine keeps them itself.
 *
 * interest is a number that the observer changes at will: while it is 0, event() is not called for a
 * block of whose event the cookie is 0 or NULL. NULL: every event is wanted.
 *
 * find_origin() comes before: it is called by the thread that asks, with no lock held, and may take its time;
 * more than once in a call of the program. size: bytes asked for, 0 if they are not known. NULL: not called.
 */
typedef struct gp_observer {
  const _Atomic int *interest;
  void (*first_use)(void *self); /* NULL: nothing, as in the next two */
  void (*peak)(void *self, int device, uint64_t bytes);
  void (*find_origin)(void *self, gp_occasion_t occasion, uint64_t size);
  uint32_t (*origin)(void *self);
  void (*event)(void *self, const gp_event_t *event);
  void (*holders)(void *self, const uint32_t *cookie, uint32_t refs, bool tainted);
  gp_stats_t *(*place_stats)(void *self, int device);
  void (*device_facts)(void *self, int device, const gp_device_facts_t *facts);
  void (*out_of_memory)(void *self, const gp_oom_t *oom);
  void *self;
} gp_observer_t;

#endif
